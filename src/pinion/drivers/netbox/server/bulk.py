"""Writes of many records with an answer for each: lists of a hundred, and when a list is refused, the bad ones named and the rest written.

Lists longer than a hundred gain no speed. A list is shared among a few requests at once, since NetBox does each request on one core. Kinds
that parallel creates break (role trees) go one list at a time in this process.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pinion.drivers.netbox.errors import BulkRefusedError, ChangedError, DeniedError, NetBoxError, RefusedError
from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.kinds.values import Body, Record, identity
from pinion.drivers.netbox.server.store import RecordStore

CHUNK = 100
_SMALLEST = 10
_SERIAL = threading.Lock()

T = TypeVar("T")
R = TypeVar("R")


class Writes:
    """Bulk writes on a store.

    *attempt* counts from 0. From the second on, lists are shorter (the server may have been too slow for the long one), and a list that
    failed because the world moved is split to find the one that moved.
    """

    def __init__(self, store: RecordStore, parallel: int = 3) -> None:
        self._store = store
        self._parallel = parallel

    def create(self, kind: Kind, bodies: Sequence[Body], *, attempt: int = 0) -> list[Record | NetBoxError]:
        """Create each; a record or the reason why not, in the order of *bodies*."""

        def send(items: Sequence[Body]) -> list[Record]:
            if not kind.serial:
                return self._store.create(kind, items)
            with _SERIAL:
                return self._store.create(kind, items)

        return self._each(kind, send, bodies, attempt)

    def update(
        self, kind: Kind, patches: Sequence[Body], etags: Sequence[str], *, attempt: int = 0
    ) -> list[Record | NetBoxError]:
        """PATCH each; the new record or the reason why not, in the order of *patches*."""

        def send(items: Sequence[tuple[Body, str]]) -> list[Record | NetBoxError]:
            answers = self._store.update(kind, [patch for patch, _ in items], [tag for _, tag in items])
            by_id = {identity(record): record for record in answers}
            gone = ChangedError("the object is gone", self._store.url)  # 4.6 skips unknown ids in silence
            return [by_id.get(identity(patch), gone) for patch, _ in items]

        return self._each(kind, send, list(zip(patches, etags, strict=True)), attempt)

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> list[NetBoxError | None]:
        """Delete each; None or the reason why not, in the order of *ids*."""

        def send(items: Sequence[tuple[int, str]]) -> list[None]:
            self._store.delete(kind, [number for number, _ in items], [tag for _, tag in items])
            return [None for _ in items]

        return self._each(kind, send, list(zip(ids, etags, strict=True)), attempt=0, apart=True)

    def _each(
        self,
        kind: Kind,
        send: Callable[[Sequence[T]], Sequence[R | NetBoxError]],
        items: Sequence[T],
        attempt: int,
        *,
        apart: bool = False,
    ) -> list[R | NetBoxError]:
        apart = apart or attempt > 0
        size = max(_SMALLEST, min(CHUNK // 3**attempt, math.ceil(len(items) / self._parallel)))
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        if len(pieces) <= 1 or kind.serial or attempt > 0:
            return [answer for piece in pieces for answer in _isolate(kind, send, piece, apart)]
        with ThreadPoolExecutor(min(self._parallel, len(pieces)), thread_name_prefix="netbox-write") as pool:
            return [
                answer
                for answers in pool.map(lambda piece: _isolate(kind, send, piece, apart), pieces)
                for answer in answers
            ]


def _isolate(
    kind: Kind, send: Callable[[Sequence[T]], Sequence[R | NetBoxError]], items: Sequence[T], apart: bool
) -> list[R | NetBoxError]:
    answers: dict[int, R | NetBoxError] = {}
    waiting = [list(range(len(items)))]
    while waiting:
        places = waiting.pop()
        try:
            sent = send([items[place] for place in places])
        except BulkRefusedError as error:
            waiting += _narrow(kind, error, places, answers)
        except ChangedError as error:
            if apart and len(places) > 1:
                waiting += _halves(places)
            else:
                answers.update(dict.fromkeys(places, error))
        except NetBoxError as error:
            answers.update(dict.fromkeys(places, error))
        else:
            answers.update(zip(places, sent, strict=True))
    return [answers[place] for place in range(len(items))]


def _narrow(
    kind: Kind, error: BulkRefusedError, places: list[int], answers: dict[int, R | NetBoxError]
) -> list[list[int]]:
    """Note the items that a refusal names; what is to be sent again: the rest, or, when it names none, both halves."""
    named = {place: reason for place, reason in error.reasons.items() if 0 <= place < len(places)}
    if not named and len(places) == 1:
        named = {0: error.reason}
    for place, reason in named.items():
        refusal = DeniedError if error.status == 403 else RefusedError
        answers[places[place]] = refusal(kind.name, reason, error.url)
    if not named:
        return _halves(places)
    rest = [one for place, one in enumerate(places) if place not in named]
    return [rest] if rest else []


def _halves(places: list[int]) -> list[list[int]]:
    middle = len(places) // 2
    return [places[middle:], places[:middle]]
