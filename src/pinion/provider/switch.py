"""One switch's whole declared configuration as one resource: VLANs, front ports and gateways. Management is never part of it.

Invariants:

* The inputs are the plan's own `SwitchPlan`; the resource id is the switch's name.
* The preview asks the switch and shows the configuration lines that `up` will send.
* A change is confirmed by a fresh login or the switch undoes it (the driver's part): an error here means that nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pydantic import BaseModel, ValidationError

from pinion.drivers.switch import (
    Change,
    HostKeyError,
    LoginRefusedError,
    SwitchDiff,
    SwitchDriver,
    SwitchError,
    SwitchState,
    SwitchUnreachableError,
    compare,
)
from pinion.plan.model import QosProfile, QosQueue, SwitchPlan, SwitchPort, SwitchVlan
from pinion.provider.plugin import (
    Call,
    Checked,
    Created,
    DeniedError,
    Difference,
    Found,
    Properties,
    RefusedError,
    ResourceKind,
    UnreachableError,
    Value,
    differences,
    has_unknown,
)
from pinion.provider.shape import Shape

#: What names each thing that stands in a list. Gateways stay a list: the first address of a VLAN is its primary one.
IDENTITIES: Final[Mapping[type[BaseModel], str]] = {
    SwitchVlan: "vid",
    SwitchPort: "name",
    QosProfile: "name",
    QosQueue: "queue",
}
#: Words about the site file, no part of what a switch holds.
IGNORED: Final = ("origin", "evidence", "ports.*.origin")
#: Fields of a port that plan and switch state call by one name.
_PORT_FIELDS: Final = frozenset({"description", "enabled", "access_vlan", "trunk_vlans", "mtu", "qos_profile"})
_CONFIRM_NOTE: Final = "configuring: the switch undoes the change unless a fresh login confirms it"


class ConfigKind(ResourceKind):
    """`pinion:switch:Config`. *driver* makes the driver for a plan."""

    def __init__(self, driver: Callable[[SwitchPlan], SwitchDriver]) -> None:
        self.shape = Shape(SwitchPlan, IDENTITIES)
        self._driver = driver

    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:  # noqa: ARG002
        """See `ResourceKind.check`."""
        return self.shape.check(news)

    def diff(
        self,
        call: Call,  # noqa: ARG002
        resource_id: str,  # noqa: ARG002
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        """Compare with what the switch held when we last looked. Another name is another switch."""
        was = self._own(olds) or self._own(old_inputs)
        found = differences(was, self._own(news), replace=["name"], ignore=[*IGNORED, *ignore])
        drift = differences({"drift": olds.get("drift") or {}}, {"drift": {}}, ignore=ignore)
        return Difference({**found.changes, **drift.changes})

    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """Put the configuration on the switch, whatever it held inside our scope."""
        if has_unknown(dict(news)):
            return Created("", news)
        want = self.shape.value(news)
        if preview:
            self._foresee(call, want, None)
            return Created("", news)
        return Created(want.name, self._apply(call, want, None, news))

    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:  # noqa: ARG002
        """What the switch holds, as far as it differs from *inputs*. A switch cannot be missing: one that does not answer is an error."""
        if not inputs:
            raise RefusedError(
                f"switch {resource_id} cannot be imported: its plan says how to reach it. "
                "Declare it in the site file; `pulumi up` takes over what it holds and the preview shows the lines"
            )
        plan = self.shape.value(inputs)
        with _errors():
            state = self._driver(plan).read()
        difference = compare(state, plan, plan)
        actual, drift = as_held(self._own(inputs), state, difference.changes)
        return Found(resource_id, actual, {**actual, "drift": drift, "left": list(difference.left)})

    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """Bring the switch to *news*: what only the former inputs list goes away."""
        del resource_id
        if has_unknown(dict(news)):
            return news
        want, previous = self.shape.value(news), self._previous(old_inputs)
        if preview:
            self._foresee(call, want, previous)
            return {**news, "drift": {}, "left": olds.get("left") or []}
        return self._apply(call, want, previous, news)

    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:  # noqa: ARG002
        """Our scope goes back to factory: our VLANs and gateways away, ports shut. Management and what is foreign stay."""
        plan = self.shape.value(old_inputs)
        call.status("taking our VLANs, ports and gateways off the switch")
        with _errors():
            done = self._driver(plan).undo(plan)
        _tell_left(call, done)

    # --- parts of these -----------------------------------------------------------------------------------------------

    def _own(self, properties: Properties) -> dict[str, Value]:
        return {key: value for key, value in properties.items() if key in SwitchPlan.model_fields}

    def _previous(self, old_inputs: Properties) -> SwitchPlan | None:
        try:
            return self.shape.value(old_inputs)
        except ValidationError:  # written by an older release: then what it lists and we don't is foreign, and stays
            return None

    def _apply(self, call: Call, want: SwitchPlan, previous: SwitchPlan | None, news: Properties) -> Properties:
        call.status(_CONFIRM_NOTE)
        with _errors():
            done = self._driver(want).apply(want, previous)
        _tell_left(call, done)
        call.status("confirmed by a fresh login and saved" if done.changes else "held this already")
        return {**news, "drift": {}, "left": list(done.left)}

    def _foresee(self, call: Call, want: SwitchPlan, previous: SwitchPlan | None) -> None:
        with _errors():
            found = self._driver(want).diff(want, previous)
        if found.empty:
            call.info(f"{want.name} holds this configuration already")
            return
        call.info("\n".join([f"{want.name} ({want.management_address}) will be configured:", *found.lines]))
        for change in found.changes:
            if change.path[0] in ("saved", "unconfirmed"):
                call.info(str(change))


def as_held(
    stated: Properties, state: SwitchState, changes: Sequence[Change]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """*stated* with what the switch really holds at each of *changes*; and, in words, what a plan has no property for."""
    vlans, ports = _objects(stated.get("vlans")), _objects(stated.get("ports"))
    drift: dict[str, Value] = {}
    for change in changes:
        match change.path:
            case ("vlans", vid) if state.vlan(int(vid)) is None:
                vlans.pop(vid, None)
            case ("vlans", vid, "name") if (vlan := state.vlan(int(vid))) is not None and vlan.name:
                vlans[vid] = {"name": vlan.name}
            case ("ports", name, key) if key in _PORT_FIELDS and (port := state.port(name)) is not None:
                held: Value = port.model_dump(mode="json")[key]
                ports[name] = {k: v for k, v in {**ports[name], key: held}.items() if v is not None}
            case _:
                subject = f"{change.subject}: {change.field}" if change.field else change.subject
                drift[subject] = f"{change.old or '(none)'}; the site file says {change.new or '(none)'}"
    return {**stated, "vlans": vlans, "ports": ports}, drift


def _objects(value: Value) -> dict[str, dict[str, Value]]:
    if not isinstance(value, Mapping):
        return {}
    return {key: dict(inner) for key, inner in value.items() if isinstance(inner, Mapping)}


def _tell_left(call: Call, done: SwitchDiff) -> None:
    if done.left:
        call.warn(f"on {done.switch}, but not ours, and left alone: {', '.join(done.left)}")


@contextmanager
def _errors() -> Iterator[None]:
    """The driver's errors as the provider's."""
    try:
        yield
    except (LoginRefusedError, HostKeyError) as error:
        raise DeniedError(str(error)) from error
    except SwitchUnreachableError as error:
        raise UnreachableError(str(error)) from error
    except SwitchError as error:
        raise RefusedError(str(error)) from error
