"""A node is let in: while its host works on a request, the operator's machine approves what is asked for with that request's token.

Invariants:

* With a token one certificate is approved, that of the node that it was made for; whatever else is asked for with it is left, and told.
* Tokens end with the request, used or not, whatever came of it. When the operator's machine is killed, nobody approves what is asked for
  with them from there on.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from pinion.drivers.hosts.approving import CLIENT_SIGNER, client_fault, requests_of
from pinion.drivers.hosts.joining import JoinError, JoinToken, Run, cluster_token, kubeconfig, kubectl, take_back

#: Seconds between two looks at what is asked for: a kubelet takes some to start.
PAUSE = 2.0


@dataclass(slots=True)
class _Entry:
    """A token that is watched. *approved* names the request that was; *problems* are those for somebody else's certificate, and what the
    cluster refused; *further* are those after the first.
    """

    server: str
    token: JoinToken
    approved: str | None = None
    problems: dict[str, str] = field(default_factory=dict)
    further: dict[str, str] = field(default_factory=dict)


class Admission:
    """The tokens of one request, and what is asked for with them as long as the block lasts. *variables* name the kubeconfig."""

    def __init__(self, variables: Mapping[str, str], run: Run = subprocess.run, pause: float = PAUSE) -> None:
        self._variables, self._run, self._pause = variables, run, pause
        self._entries: list[_Entry] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def token(self, server: str, node: str) -> str:
        """A new token for *node* of the cluster at *server*, as its bearer shows it. Raises `JoinError`."""
        made = cluster_token(server, node, self._variables, self._run)
        self._entries.append(_Entry(server, made))
        if not self._thread.is_alive():
            self._thread.start()
        return made.text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for entry in self._entries:
            try:
                take_back(entry.server, entry.token, self._variables, self._run)
            except JoinError as refused:
                entry.problems["token"] = f"the token of {entry.token.node} could not be taken back: {refused}"

    def told(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        """*answer* of the host, with what was wrong here as an error and what was left as notes; to be asked after the block."""
        problems = [said for entry in self._entries for said in entry.problems.values()]
        further = [said for entry in self._entries for said in entry.further.values()]
        if "error" in answer:
            problems += further
            problems += [
                f"nothing was asked for with the token of {entry.token.node}: did `pulumi up` make it a node of the cluster first?"
                for entry in self._entries
                if entry.approved is None and not entry.problems
            ]
            return {**answer, "error": "; ".join((str(answer["error"]), *problems))}
        if problems:
            return {**answer, "error": "; ".join(problems)}
        return {**answer, "notes": [*_listed(answer.get("notes")), *further]} if further else answer

    def _watch(self) -> None:
        while not self._ended.wait(self._pause):
            for entry in list(self._entries):
                self.look(entry)

    def look(self, entry: _Entry) -> None:
        """Judge what is asked for with the token of *entry* now."""
        node = entry.token.node
        try:
            cluster = kubeconfig(entry.server, self._variables)
            # the newest first: a kubelet that was started anew has another key, and waits for that one's certificate
            for asked in reversed(requests_of(cluster, CLIENT_SIGNER, entry.token.user, self._run)):
                name = str(asked["metadata"]["name"])
                if fault := client_fault(asked["spec"], entry.token):
                    said = "somebody asks for what nobody gets"
                    entry.problems[name] = f"with the token of {node} {said}: {name} {fault}"
                elif entry.approved is None:
                    kubectl(cluster, ["certificate", "approve", name], self._run)
                    entry.approved = name
                elif name != entry.approved:
                    said = "a further certificate was asked for, which nobody gets"
                    entry.further[name] = f"with the token of {node} {said}: {name}"
            entry.problems.pop("cluster", None)
        except JoinError as error:  # the next look may go better; one after the approval need not
            if entry.approved is None:
                entry.problems["cluster"] = f"the certificate of {node} could not be approved: {error}"


def _listed(notes: object) -> list[object]:
    return list(notes) if isinstance(notes, list | tuple) else []
