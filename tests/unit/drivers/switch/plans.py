"""Switch plans for tests: the one of the lab site, small ones, and any that a site could lead to."""

from __future__ import annotations

from ipaddress import ip_interface
from pathlib import Path

from hypothesis import strategies as st

from pinion.plan import plan
from pinion.plan.model import (
    EcnMarking,
    PauseWatchdog,
    PortMode,
    QosMap,
    QosProfile,
    QosQueue,
    Svi,
    SwitchPlan,
    SwitchPort,
    SwitchQos,
    SwitchVlan,
)
from pinion.site.catalog import Evidence
from pinion.site.loader import load

ROOT = Path(__file__).parents[4]
VIRTUAL_ROUTER_MAC = "00:1c:73:00:00:99"
PORTS = ("Ethernet1", "Ethernet2", "Ethernet3", "Ethernet4")


def lab_plan() -> SwitchPlan:
    """The switch of the site that ships with Pinion."""
    return plan(load(ROOT / "inventories/lab/site.yml")).switches[0]


def access_port(name: str, vid: int, origin: str) -> SwitchPort:
    """A port with one untagged VLAN."""
    return SwitchPort(
        name=name,
        description=f"{origin.replace('.', ' ')} eth0",
        enabled=True,
        mode=PortMode.ACCESS,
        access_vlan=vid,
        origin=origin,
    )


def unused_port(name: str) -> SwitchPort:
    """A port with nothing plugged in."""
    return SwitchPort(name=name, description="", enabled=False, mode=None, origin="switches.tor-1")


def small_plan(**changes: object) -> SwitchPlan:
    """A switch of four ports: two Pis, one trunk, one unused; two VLANs, each with a gateway."""
    trunk = SwitchPort(
        name="Ethernet3",
        description="tor-2 Ethernet3",
        enabled=True,
        mode=PortMode.TRUNK,
        trunk_vlans=(100, 101),
        origin="switches.tor-1",
    )
    base = SwitchPlan(
        name="tor-1",
        platform="lab",
        driver="eos",
        model="Small",
        management_interface="Management1",
        management_address="10.77.99.2/24",
        vlans=(SwitchVlan(vid=100, name="control"), SwitchVlan(vid=101, name="edge-inference")),
        ports=(
            access_port("Ethernet1", 101, "pis.pi 1"),
            access_port("Ethernet2", 101, "pis.pi 2"),
            trunk,
            unused_port("Ethernet4"),
        ),
        svis=(
            Svi(vid=100, address="10.77.100.1/24", virtual=False, mtu=1500),
            Svi(vid=101, address="10.77.101.1/24", virtual=False, mtu=1500),
        ),
        evidence=Evidence.EMULATED,
        origin="switches.tor-1",
    )
    return base.model_copy(update=changes)


def classes(*, rdma: int = 60) -> SwitchQos:
    """Three classes, one of them lossless, with *rdma* percent; one is not where EOS puts it unless told."""
    queues = (
        QosQueue(queue=1, share=80 - rdma),
        QosQueue(queue=4, share=20),
        QosQueue(
            queue=3,
            share=rdma,
            guaranteed=1,
            ecn=EcnMarking(minimum_kbytes=256, maximum_kbytes=512, probability=100),
        ),
        QosQueue(queue=6),
    )
    return SwitchQos(
        maps=(
            QosMap(target="traffic-class", source=0, to=1, origin="traffic_classes.edge_http"),
            QosMap(target="traffic-class", source=16, to=4, origin="traffic_classes.control"),
            QosMap(target="traffic-class", source=26, to=3, origin="traffic_classes.rdma"),
            QosMap(target="tx-queue", source=3, to=3, origin="traffic_classes.rdma"),
            QosMap(target="cos", source=4, to=2, origin="traffic_classes.control"),
        ),
        profiles=(
            QosProfile(name="pinion-lossless", trust="dscp", pfc=True, no_drop=(3,), watchdog=True, queues=queues),
            QosProfile(name="pinion-lossy", trust="dscp", queues=queues),
        ),
        watchdog=PauseWatchdog(timeout_ms=200, polling_ms=100, recovery_ms=200, action="drop"),
    )


def plan_with_classes(**changes: int) -> SwitchPlan:
    """`small_plan` with `classes` on its ports that are in use."""
    base = small_plan()
    used = {"Ethernet1": "pinion-lossy", "Ethernet2": "pinion-lossy", "Ethernet3": "pinion-lossless"}
    ports = tuple(port.model_copy(update={"qos_profile": used.get(port.name)}) for port in base.ports)
    return base.model_copy(update={"ports": ports, "qos": classes(**changes)})


SSH_SOURCES = st.sampled_from(("10.77.99.0/24", "10.77.100.10/32", "192.0.2.0/25", "fd00:99::/64", "fd00:100::10/128"))
VIDS = st.integers(min_value=2, max_value=4094)
NAMES = st.text("abyzAZ019._-", min_size=1, max_size=32)
DESCRIPTIONS = st.text("abyz AZ019 |!%?/:#", max_size=40).map(str.strip).filter(lambda text: not text.startswith("!"))


@st.composite
def _port(draw: st.DrawFn, name: str, vids: tuple[int, ...]) -> SwitchPort:
    mode = draw(st.sampled_from((None, PortMode.ACCESS, PortMode.TRUNK)))
    return SwitchPort(
        name=name,
        description=draw(DESCRIPTIONS),
        enabled=mode is not None and draw(st.booleans()),
        mode=mode,
        access_vlan=draw(st.sampled_from(vids)) if mode is PortMode.ACCESS else None,
        trunk_vlans=tuple(sorted(draw(st.sets(st.sampled_from(vids))))) if mode is PortMode.TRUNK else (),
        mtu=draw(st.none() | st.integers(min_value=68, max_value=9214)),
        qos_profile=draw(st.sampled_from((None, "pinion-lossy"))),
        origin=f"pis.pi {name.removeprefix('Ethernet')}",
    )


@st.composite
def _svis(draw: st.DrawFn, vid: int, virtual: bool) -> tuple[Svi, ...]:
    mtu = draw(st.integers(min_value=1280, max_value=9214))
    high, low = divmod(vid, 256)  # both are in every prefix: no two VLANs of a site share one
    candidates = [
        f"10.{high}.{low}.1/24",
        f"172.{16 + high}.{low}.1/24",
        f"192.{high}.{low}.1/25",
        f"2001:db8:{vid:x}::1/64",
    ]
    chosen = draw(st.lists(st.sampled_from(candidates), unique=True, max_size=4))
    primary = [address for address in chosen if ":" not in address]
    ordered = [*primary[:1], *sorted(primary[1:], key=ip_interface), *(a for a in chosen if ":" in a)]
    return tuple(Svi(vid=vid, address=address, virtual=virtual, mtu=mtu) for address in ordered)


_ECN = st.builds(
    EcnMarking,
    minimum_kbytes=st.integers(1, 500),
    maximum_kbytes=st.integers(501, 9000),
    probability=st.integers(1, 100),
)
_QUEUES = st.builds(
    QosQueue,
    queue=st.integers(0, 6),
    share=st.none() | st.integers(1, 100),
    guaranteed=st.none() | st.integers(1, 100),
    ecn=st.none() | _ECN,
)
_MAPS = st.one_of(
    st.builds(QosMap, target=st.just("traffic-class"), source=st.integers(0, 63), to=st.integers(0, 7)),
    st.builds(QosMap, target=st.sampled_from(("tx-queue", "cos")), source=st.integers(0, 6), to=st.integers(0, 6)),
)
_WATCHDOGS = st.builds(
    PauseWatchdog,
    timeout_ms=st.none() | st.integers(10, 60_000),
    polling_ms=st.none() | st.integers(5, 30_000),
    recovery_ms=st.none() | st.integers(10, 60_000),
    action=st.sampled_from((None, "drop", "errdisable")),
)


@st.composite
def _profile(draw: st.DrawFn, name: str) -> QosProfile:
    return QosProfile(
        name=name,
        trust=draw(st.sampled_from((None, "dscp", "cos"))),
        pfc=draw(st.booleans()),
        no_drop=tuple(draw(st.sets(st.integers(0, 7), max_size=3))),
        watchdog=draw(st.booleans()),
        queues=tuple(draw(st.lists(_QUEUES, max_size=4, unique_by=lambda queue: queue.queue))),
    )


@st.composite
def switch_classes(draw: st.DrawFn) -> SwitchQos:
    """Any traffic classes that a site could lead to, and more."""
    names = sorted(draw(st.sets(st.sampled_from(("pinion-lossless", "pinion-lossy")))))
    return SwitchQos(
        maps=tuple(draw(st.lists(_MAPS, max_size=6, unique_by=lambda entry: entry.key))),
        profiles=tuple(draw(_profile(name)) for name in names),
        watchdog=draw(st.none() | _WATCHDOGS),
    )


@st.composite
def switch_plans(draw: st.DrawFn, ports: tuple[str, ...] = PORTS) -> SwitchPlan:
    """Any plan of a switch with *ports*."""
    vids = tuple(sorted(draw(st.sets(VIDS, min_size=1, max_size=5))))
    virtual = draw(st.booleans())
    svis = tuple(svi for vid in vids for svi in draw(_svis(vid, virtual)))
    return small_plan(
        vlans=tuple(SwitchVlan(vid=vid, name=draw(NAMES)) for vid in vids),
        ports=tuple(draw(_port(name, vids)) for name in ports),
        svis=svis,
        virtual_router_mac=VIRTUAL_ROUTER_MAC if any(svi.virtual for svi in svis) else None,
        qos=draw(st.none() | switch_classes()),
        ssh_sources=tuple(draw(st.lists(SSH_SOURCES, unique=True, max_size=3))),
    )
