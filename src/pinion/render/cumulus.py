"""The state of a switch as NVUE configuration of NVIDIA Cumulus Linux, in YAML: the one writer of it.

The text is the whole *declared scope* and nothing else, as `pinion.render.eos` has it. What a state has of somebody's that Pinion has no
word for stands there as a comment.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Template

from pinion.plan.model import DEFAULT_VLAN, SSH_LIST, QosProfile, SwitchState
from pinion.render import templates

#: Our access lists by family: NVUE has one type a list.
SSH_LISTS = ((SSH_LIST, "ipv4"), (f"{SSH_LIST}-ipv6", "ipv6"))


def cumulus_config(state: SwitchState) -> str:
    """*state* as NVUE configuration of Cumulus Linux 5.9 to 5.11, as ``nv config show`` has it."""
    guards = [
        (name, family, guard) for (name, family), guard in zip(SSH_LISTS, (state.ssh_ipv4, state.ssh_ipv6), strict=True)
    ]
    maps = {target: [entry for entry in state.qos.maps if entry.target == target] for target in _TARGETS}
    parts = {
        profile.name: _parts(profile, marks=bool(maps["traffic-class"]), tags=bool(maps["cos"]))
        for profile in state.qos.profiles
    }
    return _template().render(
        state=state,
        default_vlan=DEFAULT_VLAN,
        guards=[told for told in guards if told[2].allowed is not None],
        asked=[name if guard.ours else guard.asked for name, _, guard in guards if guard.asked is not None],
        parts=parts,
        watched={profile.name for profile in state.qos.profiles if profile.watchdog},
        kinds=[(kind, [one for one in state.qos.profiles if kind in parts[one.name]]) for kind in _KINDS],
        marks=maps["traffic-class"],
        queue_maps=maps["tx-queue"],
        tags=maps["cos"],
    )


_TARGETS = ("traffic-class", "tx-queue", "cos")
#: NVUE has a profile for each of these; those of one QoS profile share its name.
_KINDS = ("congestion-control", "egress-scheduler", "mapping", "pfc", "remark")


def _parts(profile: QosProfile, *, marks: bool, tags: bool) -> list[str]:
    """Of which kinds NVUE needs a profile for *profile*; *marks*: there are DSCPs to map, *tags*: 802.1p priorities to write."""
    needed = {
        "congestion-control": any(queue.ecn is not None for queue in profile.queues),
        "egress-scheduler": bool(profile.queues),
        "mapping": marks or profile.trust is not None,
        "pfc": profile.pfc,
        "remark": tags,
    }
    return [kind for kind in _KINDS if needed[kind]]


@cache
def _template() -> Template:
    return templates().get_template("switch/cumulus/config.j2")
