"""The state of a switch as Arista EOS configuration text: the one writer of it, for what is sent to a switch and what a difference shows.

The text is the whole *declared scope* and nothing else: QoS maps and profiles, VLANs, ``interface EthernetN``, ``interface VlanN``, routing
between VLANs, and the access list that SSH asks. Management interface, host name, users and AAA are never in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from ipaddress import ip_network

from jinja2 import Template

from pinion.plan.model import DEFAULT_VLAN, SSH_LIST, PauseWatchdog, SshGuard, SwitchState, vid_ranges
from pinion.render import templates


def eos_config(state: SwitchState) -> str:
    """*state* as Arista EOS configuration, in the order and indentation of ``show running-config``."""
    guards = (("ip", state.ssh_ipv4), ("ipv6", state.ssh_ipv6))
    return _template().render(
        state=state,
        default_vlan=DEFAULT_VLAN,
        ssh_list=SSH_LIST,
        guards=guards,
        asked=[(word, guard.asked) for word, guard in guards if guard.asked is not None],
    )


@cache
def _template() -> Template:
    environment = templates().overlay()
    environment.filters = {
        **environment.filters,
        "vid_ranges": vid_ranges,
        "seconds": seconds,
        "rules": _rules,
        "timers": _timers,
    }
    return environment.get_template("switch/eos/config.j2")


def seconds(milliseconds: int) -> str:
    """``0.20``, ``0.005``."""
    return f"{milliseconds / 1000:.3f}" if milliseconds % 10 else f"{milliseconds / 1000:.2f}"


def _rules(guard: SshGuard) -> Iterator[str]:
    """The rules of the access list of one family: who is let in, and at last that nobody else is."""
    for prefix in guard.allowed or ():
        network = ip_network(prefix)
        yield f"permit {f'host {network[0]}' if network.num_addresses == 1 else network}"
    yield from guard.other
    yield "deny any"


def _timers(watchdog: PauseWatchdog) -> Iterator[tuple[str, int]]:
    """The timers of *watchdog* that are not the switch's own, by EOS's words, in ms."""
    known = (
        ("timeout", watchdog.timeout_ms),
        ("polling-interval", watchdog.polling_ms),
        ("recovery-time", watchdog.recovery_ms),
    )
    yield from ((word, milliseconds) for word, milliseconds in known if milliseconds)
