"""How long `pulumi up` takes for devices in a real NetBox, next to three other ways of the same, as ratios from one run.

    python tests/benchmarks/netbox_objects.py                                   200 devices, link delays 0, 20 and 100 ms, own NetBox
    python tests/benchmarks/netbox_objects.py --devices 40 --delays 0 --ways pinion,bulk,engine
    python tests/benchmarks/netbox_objects.py --memory --devices 1000           the provider's memory at 5,000 objects (a NetBox in memory)
    python tests/benchmarks/netbox_objects.py --netbox http://… --token-file F  another NetBox (empty, please)

Every device is five objects: device, interface, address, cable, primary address. The ways:

    pinion    our provider, one resource a device
    dynamic   Pulumi dynamic providers with pynetbox, one resource an object
    bulk      one script that POSTs lists: the floor
    engine    Pulumi with as many resources as *pinion* has, which do nothing

Delay is what is added to a round trip, by a proxy in user space. `--no-checkpoints` sets PULUMI_SKIP_CHECKPOINTS (and
PULUMI_EXPERIMENTAL) for pinion, dynamic and engine alike: state is then saved at the end only, which our provider may do because a
Create adopts what an earlier, killed run made. No timed test: figures depend on the machine, ratios much less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # so that this file runs as a program, from any folder

from benchmarks import other_ways  # noqa: E402
from benchmarks.delaying_proxy import DelayingProxy  # noqa: E402
from engine.netbox_server import TOKEN, serving  # noqa: E402
from engine.stack import Stack, missing_tool, providers_of  # noqa: E402

from pinion.drivers.netbox import DeviceRecord, NetBoxDriver  # noqa: E402
from pinion.drivers.netbox.desired import CableTo, DeviceType, Interface, Named, Rack, SiteRecords, VlanRecord  # noqa: E402
from pinion.drivers.netbox.desired import Prefix as PrefixRecord  # noqa: E402

PORTS: Final = 48
WAYS: Final = ("pinion", "dynamic", "bulk", "engine")
#: As bin/pinion-env has it.
PARALLEL: Final = "100"


@dataclass
class Figures:
    """Seconds by (delay in ms, what), and other numbers by name."""

    seconds: dict[tuple[int, str], float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """The NetBox of a run, as the ways reach it: through the proxy."""

    url: str
    token: str
    driver: NetBoxDriver  # direct, for preparing and clearing
    proxy: DelayingProxy
    lasting: bool = True  # whether what a way made is there for the next one


# --- what is to be made -----------------------------------------------------------------------------------------------


def base(devices: int) -> tuple[SiteRecords, VlanRecord, list[DeviceRecord]]:
    """A site, a VLAN and switches with ports enough: there before the clock starts."""
    kind = DeviceType(manufacturer="Acme", model="Switch", slug="switch", units=1)
    host = DeviceType(manufacturer="Acme", model="Host", slug="host", units=0)
    roles = (Named(slug="switch", name="Switch"), Named(slug="host", name="Host"))
    site = SiteRecords(
        site="bench", name="bench", racks=(Rack(name="r1", units=42),), device_types=(kind, host), device_roles=roles
    )
    vlan = VlanRecord(site="bench", name="hosts", vid=100, prefixes=(PrefixRecord(prefix="10.9.0.0/16"),))
    ports = tuple(Interface(name=f"Ethernet{n}", type="1000base-t") for n in range(1, PORTS + 1))
    switches = [
        DeviceRecord(
            site="bench", name=f"tor-{n}", role="switch", manufacturer="acme", device_type="switch", interfaces=ports
        )
        for n in range(1, (devices - 1) // PORTS + 2)
    ]
    return site, vlan, switches


def wanted(devices: int) -> list[DeviceRecord]:
    """The devices whose making is timed."""
    made = []
    for number in range(devices):
        address = f"10.9.{number // 200}.{number % 200 + 10}/16"
        far = CableTo(device=f"tor-{number // PORTS + 1}", interface=f"Ethernet{number % PORTS + 1}")
        port = Interface(name="eth0", type="1000base-t", addresses=(address,), cable=far)
        made.append(
            DeviceRecord(
                site="bench",
                name=f"host-{number:04}",
                role="host",
                manufacturer="acme",
                device_type="host",
                rack="r1",
                interfaces=(port,),
                primary_address=address,
            )
        )
    return made


# --- the ways ---------------------------------------------------------------------------------------------------------


@contextmanager
def pulumi_stack(environment: dict[str, str], target: Target) -> Iterator[Stack]:
    """A fresh stack that knows the NetBox."""
    with tempfile.TemporaryDirectory(prefix="netbox-objects-") as folder:
        stack = Stack(
            Path(folder),
            config={"netbox:url": target.url},
            secrets={"netbox:token": target.token},
            environment={
                "PULUMI_PARALLEL": PARALLEL,
                "BENCH_NETBOX_URL": target.url,
                "BENCH_NETBOX_TOKEN": target.token,
                **environment,
            },
        )
        yield stack


def timed(work: Callable[[], object]) -> float:
    """Seconds that *work* takes."""
    start = time.monotonic()
    work()
    return time.monotonic() - start


@contextmanager
def watched(folder: Path) -> Iterator[list[float]]:
    """The resident memory (MB) of the provider processes in *folder*, sampled."""
    samples: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            for process in providers_of(folder):
                with contextlib.suppress(Exception):
                    samples.append(process.memory_info().rss / 1e6)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def run_pinion(target: Target, devices: int, environment: dict[str, str], figures: Figures, delay: int) -> float:
    """Our provider. Also: the same again with nothing to do, and a refresh."""
    site, vlan, switches = base(devices)
    with pulumi_stack(environment, target) as stack:
        fixed = {
            "sites": [site.model_dump(mode="json")],
            "vlans": [vlan.model_dump(mode="json")],
            "devices": [one.model_dump(mode="json") for one in switches],
        }
        stack.wishes = fixed
        target.proxy.delay = 0
        stack.up()
        stack.wishes = {**fixed, "devices": fixed["devices"] + [one.model_dump(mode="json") for one in wanted(devices)]}
        target.proxy.delay = delay / 1000
        with watched(stack.folder) as memory:
            seconds = timed(
                lambda: stack.pulumi("up", "--stack", "test", "--yes", "--skip-preview", check=True, timeout=3600)
            )
        figures.numbers[f"provider memory at {5 * devices} objects, MB"] = max(memory, default=0.0)
        figures.seconds[delay, "pinion, nothing to do"] = timed(
            lambda: stack.pulumi("up", "--stack", "test", "--yes", "--skip-preview", check=True, timeout=3600)
        )
        before = target.proxy.requests.total()
        figures.seconds[delay, "pinion, refresh"] = timed(
            lambda: stack.pulumi("refresh", "--stack", "test", "--yes", "--skip-preview", check=True, timeout=3600)
        )
        figures.numbers["NetBox calls of a refresh with nothing to do"] = target.proxy.requests.total() - before
        clear(target)
        return seconds


def run_dynamic(target: Target, devices: int, environment: dict[str, str], delay: int) -> float:
    """Dynamic providers, one resource an object."""
    prepare(target, devices)
    with pulumi_stack(environment, target) as stack:
        stack.wishes = {"devices": [one.model_dump(mode="json") for one in wanted(devices)]}
        (stack.folder / "__main__.py").write_text(other_ways.DYNAMIC_PROGRAM)
        target.proxy.delay = delay / 1000
        seconds = timed(
            lambda: stack.pulumi("up", "--stack", "test", "--yes", "--skip-preview", check=True, timeout=3600)
        )
        clear(target)
        return seconds


def run_bulk(target: Target, devices: int, delay: int) -> float:
    """Lists, in one script."""
    prepare(target, devices)
    target.proxy.delay = delay / 1000
    seconds = timed(lambda: other_ways.bulk(target.url, target.token, wanted(devices)))
    clear(target)
    return seconds


def run_engine(target: Target, devices: int, environment: dict[str, str]) -> float:
    """The engine with as many resources as ours has, doing nothing."""
    with pulumi_stack(environment, target) as stack:
        script = stack.folder / "bin" / "pulumi-resource-noop"
        script.write_text(f"#!{sys.executable}\n{other_ways.NOOP_PROVIDER}")
        script.chmod(0o755)
        stack.wishes = {"devices": [one.model_dump(mode="json") for one in wanted(devices)]}
        (stack.folder / "__main__.py").write_text(other_ways.NOOP_PROGRAM)
        return timed(lambda: stack.pulumi("up", "--stack", "test", "--yes", "--skip-preview", check=True, timeout=3600))


def prepare(target: Target, devices: int) -> None:
    """Site, VLAN and switches, for the ways that do not make them as part of a stack."""
    target.proxy.delay = 0
    site, vlan, switches = base(devices)
    target.driver.sites.apply(site)
    target.driver.vlans.apply(vlan)
    target.driver.devices.lists.apply(switches)


def clear(target: Target) -> None:
    """NetBox as empty as it was."""
    target.proxy.delay = 0
    if target.lasting:
        other_ways.clear(target.url, target.token)
    target.driver.forget()


# --- the run ----------------------------------------------------------------------------------------------------------


def run(target: Target, arguments: argparse.Namespace) -> Figures:
    """All ways at all delays."""
    figures = Figures()
    environment = {"PULUMI_SKIP_CHECKPOINTS": "true", "PULUMI_EXPERIMENTAL": "true"} if arguments.no_checkpoints else {}
    clear(target)
    if "engine" in arguments.ways:
        figures.seconds[0, "engine"] = run_engine(target, arguments.devices, environment)
        say(f"engine alone: {figures.seconds[0, 'engine']:.1f} s")
    ways: dict[str, Callable[[int], float]] = {
        "bulk": lambda delay: run_bulk(target, arguments.devices, delay),
        "pinion": lambda delay: run_pinion(target, arguments.devices, environment, figures, delay),
        "dynamic": lambda delay: run_dynamic(target, arguments.devices, environment, delay),
    }
    for delay in arguments.delays:
        for name, work in ways.items():
            if name in arguments.ways:
                figures.seconds[delay, name] = work(delay)
                say(f"{delay:3} ms, {name}: {figures.seconds[delay, name]:.1f} s")
    return figures


def table(figures: Figures, devices: int, delays: list[int], ways: list[str]) -> list[str]:
    """The figures of the issue, with what was asked for."""
    seconds = figures.seconds
    lines = [f"{5 * devices} objects ({devices} devices), {PARALLEL} in parallel"]
    for delay in delays if "bulk" in ways or "dynamic" in ways else ():
        ours, dynamic, bulk = (seconds.get((delay, way)) for way in ("pinion", "dynamic", "bulk"))
        engine = seconds.get((0, "engine"))
        if ours is None:
            continue
        parts = [f"{delay:3} ms: pinion {ours:.1f} s"]
        if dynamic is not None:
            parts.append(
                f"dynamic {dynamic:.1f} s = {dynamic / ours:.1f}x" + (" (goal >= 10x)" if delay == 100 else "")
            )
        if bulk is not None and engine is not None:
            limit = engine + 2 * bulk
            parts.append(
                f"engine alone {engine:.1f} s + 2 x floor {bulk:.1f} s = {limit:.1f} s: {ours / limit:.2f} (goal <= 1)"
            )
        nothing = seconds.get((delay, "pinion, nothing to do"))
        if nothing is not None:
            parts.append(f"nothing to do {nothing:.1f} s = {100 * nothing / ours:.0f} % (goal <= 25 %)")
            parts.append(f"refresh {seconds[delay, 'pinion, refresh']:.1f} s")
        lines.append("\n        ".join(parts))
    goals = {"NetBox calls": "<= 20", "provider memory": "<= 200 at 5,000"}
    for name, number in figures.numbers.items():
        goal = next((goal for key, goal in goals.items() if name.startswith(key)), "")
        lines.append(f"{name}: {number:.0f} (goal {goal})")
    return lines


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def a_netbox(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """URL and token: the one that was named, else one of our own."""
    if arguments.netbox:
        yield arguments.netbox, Path(arguments.token_file).read_text().strip()
        return
    if arguments.memory:
        with serving() as server:
            yield server.url, TOKEN
        return
    from pinion.lab.netbox.standalone import standalone

    say("starting a NetBox of our own (the lab's cached layers)")
    with standalone() as netbox:
        yield netbox.url, netbox.token


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--delays", type=lambda text: [int(part) for part in text.split(",")], default=[0, 20, 100])
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--no-checkpoints", action="store_true")
    parser.add_argument(
        "--memory", action="store_true", help="only the provider's memory: pinion without delay, our NetBox in memory"
    )
    parser.add_argument("--netbox")
    parser.add_argument("--token-file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.memory:
        arguments.delays, arguments.ways, arguments.no_checkpoints = [0], ["pinion"], True
    why = missing_tool()
    if why:
        say(why)
        return 2
    with a_netbox(arguments) as (url, token):
        host, _, port = url.partition("://")[2].partition("/")[0].partition(":")
        driver = NetBoxDriver(url=url, token=token)
        with DelayingProxy(host, int(port or 80)) as proxy:
            target = Target(f"http://127.0.0.1:{proxy.port}", token, driver, proxy, lasting=not arguments.memory)
            figures = run(target, arguments)
        driver.close()
    if arguments.json:
        seconds = {f"{delay} ms {what}": value for (delay, what), value in figures.seconds.items()}
        print(json.dumps({"seconds": seconds, **figures.numbers}))
    else:
        print("\n".join(table(figures, arguments.devices, arguments.delays, arguments.ways)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
