"""A virtual machine that starts an image by QEMU's own emulation (TCG): no KVM, no board, nothing of the host but one port on loopback.

The machine is QEMU's `virt`, so kernel and initramfs are handed to it as the Raspberry Pi's firmware would: both, and the command line,
are read from the image's boot partition. config.txt has no reader there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pinion.checks.probers.hosts import SshAccess
from pinion.image.disk import copy_sparse, table, take
from pinion.image.errors import ImageError
from pinion.image.identity import gateways
from pinion.image.layout import BOOT, MIB
from pinion.plan.model import DevicePlan, HostPlan, InterfacePlan, Plan

#: Larger than the image, so that the root has something to grow over.
EXTRA_BYTES = 512 * MIB
LOOPBACK = "127.0.0.1"
_MEMORY_MIB = 1024
#: As many as a Raspberry Pi 4 or 5 has: what the concerns share out among the cores fits.
_CORES = 4
#: Seconds for an orderly end, then the process is killed.
_PATIENCE = 5.0
#: Seconds for the answers of a machine that is emulated, perhaps beside other work.
_ANSWER = 600.0
#: Seconds between two lines about a machine that is still starting.
_SPOKEN = 10.0


@dataclass(frozen=True, slots=True)
class Running:
    """A machine that answered on SSH. *seconds* is from power on to the first login."""

    access: SshAccess
    console: Path
    seconds: float
    process: int


def kernel_arguments(command_line: str) -> str:
    """The image's own command line, with the consoles of a Raspberry Pi replaced by the one that `virt` has."""
    kept = [argument for argument in command_line.split() if not argument.startswith("console=")]
    return " ".join(["console=ttyAMA0", *kept])


def primary(device: DevicePlan) -> InterfacePlan:
    """The interface with the node's primary address. Raises `ImageError` when there is none."""
    for interface in device.interfaces:
        if device.primary_address is not None and device.primary_address in interface.addresses:
            return interface
    raise ImageError(f"{device.name}: it has no address to be reached at")


def network(plan: Plan, device: DevicePlan, port: int) -> str:
    """QEMU's user network for the node: its own prefix, its router played by QEMU, no way out, one way in.

    ``restrict=on`` keeps the machine from reaching anything; only *port* of loopback leads to its SSH.
    """
    interface = primary(device)
    own = ipaddress.ip_interface(device.primary_address or "")
    if own.version != 4:
        raise ImageError(f"{device.name}: {own} is no IPv4 address; the emulated network has IPv4 only")
    routers = [address for address in gateways(plan, interface) if ipaddress.ip_address(address).version == 4]
    taken = {own.ip, *(ipaddress.ip_address(address) for address in routers)}
    hosts = own.network.hosts()
    router = routers[0] if routers else str(next(address for address in hosts if address not in taken))
    names = next(address for address in own.network.hosts() if address not in taken and str(address) != router)
    return f"user,id=net0,restrict=on,ipv6=off,net={own.network},host={router},dns={names},hostfwd=tcp:{LOOPBACK}:{port}-{own.ip}:22"


def command(work: Path, arguments: str, net: str) -> list[str]:
    """The command line of QEMU; *work* has kernel, initramfs and disk."""
    return [
        "qemu-system-aarch64", "-name", "pinion-image-test", "-machine", "virt",
        "-cpu", "cortex-a72", "-smp", str(_CORES), "-m", str(_MEMORY_MIB),
        "-accel", "tcg,thread=multi", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none",
        "-serial", f"file:{work / 'console.log'}",
        "-kernel", str(work / "kernel"), "-initrd", str(work / "initramfs"), "-append", arguments,
        "-drive", f"if=none,id=disk0,format=raw,cache=unsafe,file={work / 'disk.img'}", "-device", "virtio-blk-pci,drive=disk0",
        "-netdev", net, "-device", "virtio-net-pci,netdev=net0,romfile=", "-device", "virtio-rng-pci",
    ]  # fmt: skip


def prepare(image: Path, work: Path) -> str:
    """Lay kernel, initramfs and a larger copy of the disk into *work*; the kernel's arguments."""
    start = table(image)[BOOT].start
    (work / "kernel").write_bytes(take(image, start, "kernel8.img"))
    (work / "initramfs").write_bytes(take(image, start, "initramfs8"))
    disk = work / "disk.img"
    copy_sparse(image, disk)
    disk.chmod(0o600)
    with disk.open("r+b") as stream:
        stream.truncate(image.stat().st_size + EXTRA_BYTES)
    return kernel_arguments(take(image, start, "cmdline.txt").decode())


def free_port() -> int:
    """A port of loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    image: Path,
    plan: Plan,
    host: HostPlan,
    access: SshAccess,
    work: Path,
    *,
    patience: float,
    say: Callable[[str], None],
) -> Iterator[Running]:
    """The machine of *host*, started from *image* and logged in to with *access* within *patience* seconds; ended at the end.

    Raises `ImageError` with the end of its console when it does not come up.
    """
    arguments = prepare(image, work)
    port = free_port()
    reach = SshAccess(access.key, access.known_hosts, (LOOPBACK, port), _ANSWER)
    console = work / "console.log"
    told = 0.0
    started = time.monotonic()
    # its life is ours: also when we are killed
    argv = ["setpriv", "--pdeathsig", "KILL", *command(work, arguments, network(plan, plan.device(host.name), port))]
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        raise ImageError("setpriv: not installed (package util-linux)") from None
    try:
        while not _logs_in(reach, host):
            if process.poll() is not None:
                said = (process.stderr.read() if process.stderr is not None else "").strip()
                raise ImageError(
                    f"{host.name}: the machine ended (exit {process.returncode}): {said or _tail(console)}"
                )
            seconds = time.monotonic() - started
            if seconds > patience:
                raise ImageError(
                    f"{host.name}: no login after {patience:.0f} s; the end of its console:\n{_tail(console)}"
                )
            if seconds - told >= _SPOKEN:
                told = seconds
                say(f"starts, {seconds:.0f} s: {_tail(console, 1)[:100]}")
            time.sleep(3.0)
        yield Running(reach, console, time.monotonic() - started, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _logs_in(access: SshAccess, host: HostPlan) -> bool:
    """One login with strict checking of the host key."""
    try:
        done = subprocess.run(
            [*access.command(host), "true"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if b"Host key verification failed" in done.stderr:
        raise ImageError(f"{host.name}: the machine shows another host key than its seed has")
    return done.returncode == 0


def _tail(console: Path, lines: int = 25) -> str:
    try:
        return "\n".join(console.read_text(errors="replace").replace("\r", "").splitlines()[-lines:])
    except OSError:
        return ""
