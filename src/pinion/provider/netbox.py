"""What the three NetBox resources share: one unit of records, made, compared, updated and removed as a whole.

Invariants:

* The resource id is the unit's key (``lab/pi-01``): the same in every run, and what `pulumi import` takes.
* The state holds what NetBox held when we last looked. Refresh puts in only what the driver would really change.
* A create that failed midway leaves its unit in the state, so that the next run goes on and `destroy` finds it.
* Nothing is sent for a unit that is as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol

from pydantic import JsonValue

from pinion.drivers.netbox.errors import DeniedError as NetBoxDeniedError
from pinion.drivers.netbox.errors import ExistsError, MissingError, NetBoxError
from pinion.drivers.netbox.errors import UnreachableError as NetBoxUnreachableError
from pinion.drivers.netbox.results import Applied, Change, Deleted, Observed, UnitDiff
from pinion.drivers.netbox.wanted.records import D
from pinion.drivers.netbox.wanted.units import IDENTITIES
from pinion.provider.plugin import (
    Call,
    Checked,
    Created,
    DeniedError,
    Difference,
    Found,
    Kind,
    NotFoundError,
    PartialError,
    PluginError,
    Properties,
    RefusedError,
    ResourceKind,
    UnreachableError,
    Value,
    differences,
    has_unknown,
    plain,
)
from pinion.provider.shape import ORIGIN, Shape, overlay

#: Outputs that NetBox or the driver decides.
OUTPUTS: Final = ("url", "owner", "drift", "netbox_ids")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_LONGEST_LIST: Final = 40  # lines of one message
LOST_MARK: Final = "it no longer says that it is ours: somebody made it anew, or took off its tag or its identity"
#: What to do about a conflict, by a word of its reason.
HINTS: Final[Mapping[str, str]] = {
    "managed by Pinion already": "it is in another site's file: one of the two has to give it up",
    "wants it, too": "one of the two has to give it up",
}
ADOPT_HINT: Final = "say: pulumi config set pinion:adopt true"


class UnitDriver(Protocol[D]):
    """The part of the NetBox driver that handles one kind of unit."""

    def read(self, key: str) -> Observed[D] | None: ...
    def expect(self, keys: Iterable[str]) -> None: ...
    def diff(self, desired: D, *, adopt: bool = False) -> UnitDiff: ...
    def apply(self, desired: D, *, adopt: bool = False) -> Applied[D]: ...
    def delete(self, key: str) -> Deleted: ...


@dataclass(frozen=True)
class Access(Generic[D]):
    """How a kind of unit reaches NetBox: *driver* makes or finds the connection, *adopt* is the stack's setting."""

    driver: Callable[[], UnitDriver[D]]
    adopt: Callable[[], bool]


class UnitKind(ResourceKind, Generic[D]):
    """A NetBox unit of records *model*. *identity* names the properties that its key consists of, *noun* what a person calls it."""

    def __init__(self, model: type[D], noun: str, identity: Sequence[str], access: Access[D]) -> None:
        self.shape: Shape[D] = Shape(model, IDENTITIES)
        self._noun = noun
        self._identity = tuple(identity)
        self._access: Access[D] = access
        self._stated: dict[str, None] = {}  # keys of the units that the program holds, as far as it came

    # --- without NetBox -----------------------------------------------------------------------------------------------

    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:  # noqa: ARG002
        """See `ResourceKind.check`. The engine asks this of every unit of the program: whoever is among them was not renamed."""
        parts = [plain(news[name]) for name in self._identity if name in news and not has_unknown(news[name])]
        if len(parts) == len(self._identity):
            self._stated["/".join(map(str, parts))] = None
        return self.shape.check(news)

    def diff(
        self,
        call: Call,  # noqa: ARG002
        resource_id: str,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        """Compare with what NetBox held when we last looked; drift that no input can show counts too.

        The identity is the resource id, not what the name happens to be in NetBox: one renamed there is renamed back.
        """
        was = self._own(olds) or self._own(old_inputs)
        moved = self._moved(resource_id, news)
        found = differences(was, self._own(news), replace=moved, ignore=[*ignore, ORIGIN])
        drift = differences({"drift": olds.get("drift") or {}}, {"drift": {}}, ignore=ignore)
        changes = {**dict.fromkeys(moved, Kind.UPDATE_REPLACE), **found.changes, **drift.changes}
        return Difference(changes, delete_before_replace=True)

    def _moved(self, resource_id: str, news: Properties) -> list[str]:
        """The properties by which *news* name another unit than *resource_id*."""
        parts = dict(zip(self._identity, resource_id.split("/", len(self._identity) - 1), strict=False))
        return [
            name
            for name in self._identity
            if not has_unknown(news.get(name)) and plain(news.get(name)) != parts.get(name)
        ]

    def _own(self, properties: Properties) -> dict[str, Value]:
        return {key: value for key, value in properties.items() if key in self.shape.model.model_fields}

    # --- with NetBox --------------------------------------------------------------------------------------------------

    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """Create the unit, or adopt it where the stack says so. What is ours already is just brought to *news*."""
        if has_unknown(dict(news)):
            return Created("", news)
        desired = self.shape.value(news)
        if preview:
            self._foresee(call, desired, adopt=self._access.adopt())
            return Created("", news)
        return Created(desired.key, self._apply(call, desired, news, adopt=self._access.adopt(), is_new=True))

    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:  # noqa: ARG002
        """The unit as NetBox holds it; with no *inputs* (an import) all of it, else what differs from them."""
        with _errors(self._noun, resource_id, inputs):
            driver = self._access.driver()
            observed = driver.read(resource_id)
            if observed is None:
                return None
            actual = self.shape.properties(observed.record)
            stated = self._own(inputs)
            if stated:
                changes = driver.diff(self.shape.value(inputs), adopt=True).changes
                actual = self._as_held(stated, actual, changes)
        if ORIGIN in inputs:
            actual[ORIGIN] = inputs[ORIGIN]
        lost = observed.owner == "foreign" and olds.get("owner") in ("created", "adopted")
        return Found(resource_id, actual, self._outputs(actual, observed, *([LOST_MARK] if lost else [])))

    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """Bring the unit to *news*. An imported one is in this stack by the user's own word: that is leave enough to adopt it."""
        del resource_id, old_inputs
        if has_unknown(dict(news)):
            return news
        desired = self.shape.value(news)
        adopt = self._access.adopt() or olds.get("owner") == "foreign"
        if preview:
            self._foresee(call, desired, adopt=adopt)
            return {**news, **{key: olds[key] for key in OUTPUTS if key in olds}, "drift": {}}
        return self._apply(call, desired, news, adopt=adopt, is_new=False)

    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:  # noqa: ARG002
        """Remove what we created. What was there before us, and what others still use, stays: each with its reason as a warning.

        What is ours and can't go yet is an error: the resource stays in the state, so that the next run tries again.
        """
        with _errors(self._noun, resource_id, old_inputs):
            deleted = self._access.driver().delete(resource_id)
        lines = [f"{one.object} stays in NetBox: {one.reason}" + _in_brackets(one.url) for one in deleted.left]
        if any(one.again for one in deleted.left):
            raise RefusedError(f"{self._noun} {resource_id}: {_list(lines)}")
        if lines:
            call.warn(_list(lines))

    # --- parts of these -----------------------------------------------------------------------------------------------

    def _driver(self) -> UnitDriver[D]:
        driver = self._access.driver()
        driver.expect(list(self._stated))
        return driver

    def _as_held(self, stated: Properties, actual: Properties, changes: Sequence[Change]) -> dict[str, Value]:
        """*stated* with what is *actual* where the driver would change it. What concerns the unit as a whole is told as `drift`."""
        steps = [change_steps(change) for change in changes if change.path]
        merged = overlay(stated, actual, steps)
        assert isinstance(merged, dict)
        return merged

    def _apply(self, call: Call, desired: D, news: Properties, *, adopt: bool, is_new: bool) -> Properties:
        driver = self._driver()
        try:
            with _errors(self._noun, desired.key, news):
                applied = driver.apply(desired, adopt=adopt)
        except PluginError as error:
            self._keep_what_exists(driver, desired, news, error, is_new=is_new)
            raise
        if applied.renamed:
            call.info(f"{applied.renamed} was renamed: {applied.observed.url}")
        elif is_new and applied.observed.owner == "adopted":
            call.info(f"adopted from NetBox: {applied.observed.url}")
        return self._outputs(news, applied.observed)

    def _keep_what_exists(
        self, driver: UnitDriver[D], desired: D, news: Properties, error: PluginError, *, is_new: bool
    ) -> None:
        """After a failure: when the unit is there and ours, it belongs in the state, with the reason why it is not whole."""
        try:
            observed = driver.read(desired.key)
            if observed is None or observed.owner == "foreign":
                return
            changes = driver.diff(desired, adopt=False).changes
        except NetBoxError:
            return  # the error that we have says more than that a look was in vain; the next create finds our marks
        if not is_new and not changes:
            return
        actual = self._as_held(self._own(news), self.shape.properties(observed.record), changes)
        raise PartialError(desired.key, self._outputs(actual, observed), [error.reason]) from error

    def _foresee(self, call: Call, desired: D, *, adopt: bool) -> None:
        """What `up` will meet in NetBox, said in the preview."""
        try:
            with _errors(self._noun, desired.key, {}):
                found = self._driver().diff(desired, adopt=adopt)
        except NotFoundError as missing:
            call.debug(f"not there yet: {missing.reason}")
            return
        if found.conflicts:
            in_the_way: list[str] = [f"{one.object}{_in_brackets(one.url)}: {one.reason}" for one in found.conflicts]
            call.error(_list([*in_the_way, *dict.fromkeys(_hint(line) for line in in_the_way)]))
            return
        lines: list[str] = [_change_line(change) for change in found.changes if found.exists or change.action != "add"]
        if found.renamed:
            call.info(_list([f"{found.renamed} is renamed; up will change what NetBox holds:", *lines]))
        elif found.exists:
            call.info(
                _list(["exists in NetBox; up will change:" if lines else "exists in NetBox as it should be", *lines])
            )
        elif lines:
            call.info(_list(["up will take over what others have until now:", *lines]))

    def _outputs(self, properties: Properties, observed: Observed[D], *more_drift: str) -> dict[str, Value]:
        drift = [*more_drift, *observed.other_drift]
        return {
            **properties,
            "url": observed.url,
            "owner": observed.owner,
            "drift": {str(number): text for number, text in enumerate(drift, 1)},
            "netbox_ids": dict(observed.ids),
        }


def change_steps(change: Change) -> list[str]:
    """The steps of a driver's path, ``interfaces[eth0].addresses[10.0.0.1/24]``, without the member of a plain list."""
    steps = [name or key for name, key in _STEP.findall(change.path)]
    return steps[:3] if steps[2:3] == ["addresses"] else steps


def _change_line(change: Change) -> str:
    where = change.path or change.object
    if change.action == "add":
        return f"+ {where}{_shown(change.after)}"
    if change.action == "remove":
        return f"- {where}{_shown(change.before)}"
    return f"~ {where}: {change.before!r} -> {change.after!r}"


def _shown(value: JsonValue) -> str:
    return f": {value!r}" if isinstance(value, str | int | float) else ""


def _list(lines: Sequence[str]) -> str:
    more = len(lines) - _LONGEST_LIST
    return "\n".join([*lines[:_LONGEST_LIST], *([f"… and {more} more"] if more > 0 else [])])


def _in_brackets(url: str | None) -> str:
    return f" ({url})" if url else ""


def _hint(reason: str) -> str:
    return next((hint for words, hint in HINTS.items() if words in reason), ADOPT_HINT)


@contextmanager
def _errors(noun: str, key: str, inputs: Properties) -> Iterator[None]:
    """The driver's errors as the provider's, with the place in the site file."""
    origin = inputs.get(ORIGIN)
    about = f"{noun} {key}" + (f" ({origin})" if isinstance(origin, str) else "")
    try:
        yield
    except ExistsError as error:
        raise RefusedError(f"{about}: {error}; {_hint(str(error))}") from error
    except MissingError as error:
        raise NotFoundError(f"{about}: {error}") from error
    except NetBoxDeniedError as error:
        raise DeniedError(f"{about}: {error}") from error
    except NetBoxUnreachableError as error:
        hint = "; it may have been done: the next run finds out" if error.maybe_applied else ""
        raise UnreachableError(f"{about}: {error}{hint}") from error
    except NetBoxError as error:
        raise RefusedError(f"{about}: {error}") from error
