"""Any configuration that the lab's switch can hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from pinion.lab.switch.nos.config import AccessList, Address, Config, Ethernet, Rule, Vlan, VlanInterface, factory
from pinion.lab.switch.nos.qos import COS_MAP, DSCP_MAP, QUEUE_MAP, REWRITE_MAP, Ecn, Profile, Qos, TxQueue

PORTS = tuple(f"Ethernet{index}" for index in range(1, 5))
BASE = factory(PORTS, "Management1")
VIDS = st.integers(min_value=2, max_value=4094)
DESCRIPTIONS = st.text("abyz AZ019 |!%?/:#", max_size=40).map(str.strip)


_PROFILES = ("pinion-lossy", "by-hand")
_PERCENT = st.integers(1, 100)


@st.composite
def _queue(draw: st.DrawFn, number: int) -> TxQueue:
    low, high = sorted(draw(st.tuples(st.integers(1, 9999), st.integers(1, 9999))))
    ecn = Ecn(low, high, draw(st.sampled_from(("kbytes", "segments"))), draw(_PERCENT), draw(st.integers(0, 15)))
    return TxQueue(
        number,
        round_robin=draw(st.booleans()),
        share=draw(st.none() | _PERCENT),
        guaranteed=draw(st.none() | _PERCENT),
        ecn=draw(st.sampled_from((None, ecn))),
    )


@st.composite
def _qos(draw: st.DrawFn) -> Qos:
    qos = Qos(
        timers=draw(
            st.dictionaries(st.sampled_from(("timeout", "polling-interval", "recovery-time")), st.integers(10, 30_000))
        ),
        action=draw(st.sampled_from((None, "drop", "errdisable"))),
    )
    for kind, largest in ((DSCP_MAP, 63), (COS_MAP, 7), (REWRITE_MAP, 7), (QUEUE_MAP, 6)):
        for source in draw(st.sets(st.integers(0, largest), max_size=3)):
            qos = qos.with_map(kind, (source,), draw(st.integers(0, 6)))
    for name in draw(st.sets(st.sampled_from(_PROFILES))):
        numbers = sorted(draw(st.sets(st.integers(0, 7), max_size=3)))
        profile = Profile(
            name,
            trust=draw(st.sampled_from((None, "dscp", "cos"))),
            pfc=draw(st.booleans()),
            watchdog=draw(st.booleans()),
            no_drop=frozenset(draw(st.sets(st.integers(0, 7), max_size=2))),
            queues={number: draw(_queue(number)) for number in numbers},
        )
        qos = qos.with_profile(profile)
    return qos


@st.composite
def _ethernet(draw: st.DrawFn, name: str) -> Ethernet:
    return Ethernet(
        name,
        description=draw(DESCRIPTIONS),
        shutdown=draw(st.booleans()),
        l2_mtu=draw(st.none() | st.integers(68, 9214)),
        trunk=draw(st.booleans()),
        access_vlan=draw(st.just(1) | VIDS),
        native_vlan=draw(st.just(1) | VIDS),
        allowed=draw(st.none() | st.frozensets(st.just(1) | VIDS, max_size=5)),
        service_profile=draw(st.sampled_from((None, *_PROFILES))),
    )


@st.composite
def _svi(draw: st.DrawFn, vid: int) -> VlanInterface:
    virtual = draw(st.booleans())
    first, second = f"10.{vid // 256}.{vid % 256}.1/24", f"172.{16 + vid // 256}.{vid % 256}.1/25"
    candidates = [
        (),
        (Address(first, virtual),),
        (Address(first, virtual), Address(second, virtual, secondary=True)),
        (Address(first, virtual), Address(f"2001:db8:{vid:x}::1/64", virtual)),
        (Address(f"2001:db8:{vid:x}::1/64", virtual),),
    ]
    return VlanInterface(
        vid,
        description=draw(DESCRIPTIONS),
        shutdown=draw(st.booleans()),
        mtu=draw(st.just(1500) | st.integers(68, 9214)),
        addresses=draw(st.sampled_from(candidates)),
    )


_LISTS = st.sampled_from(("pinion-ssh", "operators"))


@st.composite
def _access_list(draw: st.DrawFn) -> AccessList:
    ipv6 = draw(st.booleans())
    sources = ("2001:db8::/32", "2001:db8::1/128") if ipv6 else ("192.0.2.0/24", "192.0.2.1/32", "0.0.0.0/0")
    numbers = draw(st.lists(st.integers(1, 999_999), unique=True, max_size=3))
    rules = (Rule(number, draw(st.booleans()), draw(st.sampled_from((None, *sources)))) for number in sorted(numbers))
    return AccessList(ipv6, draw(_LISTS), tuple(rules))


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any configuration of a switch with `PORTS`."""
    config = BASE
    for vid in draw(st.sets(VIDS, max_size=5)):
        config = config.with_vlan(Vlan(vid, draw(st.none() | st.text("abyzAZ019._-", min_size=1, max_size=32))))
    for name in PORTS:
        config = config.with_interface(draw(_ethernet(name)))
    for vid in draw(st.sets(VIDS, max_size=3)):
        config = config.with_interface(draw(_svi(vid)))
    for known in draw(st.lists(_access_list(), max_size=3)):
        config = config.with_access_list(known)
    management = config.managements["Management1"]
    address = draw(st.sampled_from(((), (Address("192.0.2.1/24"),))))
    config = config.with_interface(replace(management, shutdown=draw(st.booleans()), addresses=address))
    return replace(
        config,
        hostname=draw(st.sampled_from(("tor-1", "a", "x.y"))),
        ip_routing=draw(st.booleans()),
        ipv6_routing=draw(st.booleans()),
        virtual_router_mac=draw(st.sampled_from((None, "00:1c:73:00:00:99"))),
        ssh_lists=draw(st.dictionaries(st.booleans(), _LISTS)),
        qos=draw(_qos()),
    )
