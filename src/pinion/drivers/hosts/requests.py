"""What is asked of a host in one run, from its HostPlan: the same request whoever carries it."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pinion.drivers.hosts.onhost.handover import stated
from pinion.drivers.hosts.onhost.wanted import concern as parsed

if TYPE_CHECKING:
    from pinion.drivers.hosts.admission import Admission
    from pinion.plan.model import HostMaterial

#: The environment variable that names the run for the hosts, so that `pinion converge --undo` can take it back.
RUN_VARIABLE = "PINION_RUN"
#: The environment variable that names a run to take back instead.
UNDO_VARIABLE = "PINION_UNDO"
#: Seconds to wait for another run on the same host.
WAIT = 300
#: Parts of a concern that only checks and people need.
_NOT_SENT = frozenset({"claims"})
#: Materials that leave something behind where they are made, so they are made for hosts alone that have said that they need them.
_ON_DEMAND = frozenset({"cluster-token"})
#: Those that come from a cluster; the others are the authority's.
_CLUSTERS = frozenset({"cluster-authority", "cluster-token"})


class UnknownConcernError(ValueError):
    """A name that no concern has; the text names the ones that there are."""


def selection(host: Mapping[str, Any], known: Iterable[str], only: Iterable[str] = ()) -> dict[str, Any]:
    """``concerns``, ``whole`` and ``others`` of a request for *host*, a HostPlan as JSON data, in the plan's order.

    With *only*, just the concerns of these names, and what the others state; one that the plan does not give to this host is taken back.
    Else all concerns, and what the host has beyond them is taken back too. Raises `UnknownConcernError` for a name that none has.
    """
    names, wanted = tuple(only), host["concerns"]
    known = tuple(known)
    for name in names:
        if name not in known:
            raise UnknownConcernError(f"there is no concern {name!r}; there are {', '.join(known)}")
    chosen = [_sent(concern) for name, concern in wanted.items() if not names or name in names]
    retired = [{"name": name} for name in names if name not in wanted]
    others = {name: stated(parsed(concern)) for name, concern in wanted.items() if names and name not in names}
    return {"concerns": [*retired, *chosen], "whole": not names, "others": others}


def answered(
    request: Mapping[str, Any], variables: Mapping[str, str], ask: Callable[[dict[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """What the host says when *ask* puts *request*, once more where it needs what is made on demand. Raises `AuthorityError`.

    While it is at work with a token for the cluster, what it asks for with that is approved.
    """
    answer = ask(filled(request, variables))
    needs = answer.get("needs")
    if not needs:
        return answer
    from pinion.drivers.hosts.admission import Admission

    with Admission(variables) as admission:
        answer = ask(filled(request, variables, needs, admission))
    return admission.told(answer)


def approved(request: Mapping[str, Any], answer: Mapping[str, Any], variables: Mapping[str, str]) -> Mapping[str, Any]:
    """*answer* to *request*, when what the host waits for is approved as far as it is the plan's; the error where it is not.

    Last of all, for a fresh login that the host waits for has no time for it.
    """
    asking = set(answer.get("asks", ()))
    stated = [concern["approval"] for concern in request["concerns"] if concern["name"] in asking]
    if not stated or "error" in answer:
        return answer
    from pinion.drivers.hosts.approving import NOTE, approve
    from pinion.drivers.hosts.joining import JoinError
    from pinion.plan.model import HostApproval

    notes = list(answer["notes"])
    for entry in stated:
        try:
            notes += [NOTE] if approve(HostApproval.model_validate(entry), variables) else []
        except JoinError as error:
            return {**answer, "error": str(error)}
    return {**answer, "notes": notes}


def filled(
    request: Mapping[str, Any],
    variables: Mapping[str, str],
    needed: Collection[str] = (),
    admission: Admission | None = None,
) -> dict[str, Any]:
    """*request* with what only the operator's machine has put into its files, from the authority that the environment *variables* name.

    A token is made afresh for every request, so a request is filled at the last moment and shown to nobody. What is made on demand is held
    back, unless the path of its file is one of *needed*; *admission* makes the tokens for a cluster. A way back goes by what the host
    remembers: only what no host keeps is sent, and all of that on demand. Raises `AuthorityError`.
    """
    back = request.get("action") == "back"
    concerns = _kept_nowhere(request["concerns"]) if back else request["concerns"]
    filled_concerns = [
        {
            **concern,
            "files": [_filled_file(file, variables, needed, admission, everything=back) for file in concern["files"]],
        }
        if "files" in concern
        else concern
        for concern in concerns
    ]
    return {**request, "concerns": filled_concerns}


def _kept_nowhere(concerns: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of *concerns* the files that are good for one use and then gone."""
    found = ({"name": c["name"], "files": [f for f in c.get("files", ()) if f.get("unless")]} for c in concerns)
    return [concern for concern in found if concern["files"]]


def _filled_file(
    file: Mapping[str, Any],
    variables: Mapping[str, str],
    needed: Collection[str],
    admission: Admission | None,
    *,
    everything: bool,
) -> dict[str, Any]:
    """*file* with its materials; held back are those that are made on demand (*everything*: all of them) and not *needed*."""
    stated = dict(file)
    materials = stated.pop("materials", ())
    if not materials:
        return stated
    if stated["path"] not in needed and (everything or any(entry["kind"] in _ON_DEMAND for entry in materials)):
        return {**stated, **_asked(stated, materials, None), "held_back": True}
    stated |= _asked(stated, materials, variables)
    from pinion.plan.model import HostMaterial

    for entry in materials:
        wanted = HostMaterial.model_validate(entry)
        stated["content"] = stated["content"].replace(wanted.placeholder, _content(wanted, variables, admission))
    return stated


def _content(wanted: HostMaterial, variables: Mapping[str, str], admission: Admission | None) -> str:
    """The text of *wanted*."""
    if wanted.kind in _CLUSTERS:
        from pinion.drivers.hosts import joining

        if wanted.kind == "cluster-authority":
            return joining.cluster_authority(wanted.authority, variables)
        if admission is None:
            raise ValueError(f"{wanted.kind} is made for hosts alone that have said that they need it")
        return admission.token(wanted.authority, wanted.names[0])
    # Only here, for cryptography takes longer to load than all the rest of a request.
    from pinion.drivers.identity.materials import content

    return content(wanted, variables)


def _asked(
    file: Mapping[str, Any], materials: Iterable[Mapping[str, Any]], variables: Mapping[str, str] | None
) -> dict[str, str]:
    """The question of *file* whether the host needs it, with its provisioner's name put in; without one where *variables* are not asked."""
    command = file.get("unless")
    if command is None:
        return {}
    for entry in materials:
        if entry["kind"] == "issuer":
            from pinion.drivers.identity.materials import content
            from pinion.plan.model import HostMaterial

            name = "" if variables is None else content(HostMaterial.model_validate(entry), variables)
            command = command.replace(entry["placeholder"], name)
    return {"unless": command}


def task(variables: Mapping[str, str]) -> dict[str, str]:
    """The ``action`` of a request that changes hosts, with the names of runs, as the environment *variables* state them."""
    if undone := variables.get(UNDO_VARIABLE):
        return {"action": "back", "of": undone, "run": variables.get(RUN_VARIABLE, "")}
    return {"action": "apply", "run": variables.get(RUN_VARIABLE, "")}


def who(program: str) -> str:
    """Who asks, for a run on the same host that has to wait."""
    return f"{program} of {getpass.getuser()} on {platform.node()}"


def _sent(concern: Mapping[str, Any]) -> dict[str, Any]:
    return {part: value for part, value in concern.items() if part not in _NOT_SENT}
