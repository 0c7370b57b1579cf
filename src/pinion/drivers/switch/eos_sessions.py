"""The configuration sessions of an EOS switch, from ``show configuration sessions detail | json``.

Two layouts are known: until EOS 4.32 a session whose commit timer runs has the state ``pendingCommitTimer``; later ones name it in
``commitTimerSessionName`` beside the list.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

#: The command whose output `parse_sessions` reads.
LIST_SESSIONS = "show configuration sessions detail | json"
#: How the names of our sessions begin; the owner's eight digits and a random tail follow.
PREFIX = "pinion-"


class _Instance(BaseModel):
    model_config = ConfigDict(extra="ignore")

    user: str = ""
    terminal: str = ""


class _Session(BaseModel):
    model_config = ConfigDict(extra="ignore")

    state: str
    instances: dict[str, _Instance] = Field(default_factory=dict)


class _Listing(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    sessions: dict[str, _Session]
    armed: str = Field(default="", alias="commitTimerSessionName")


@dataclass(frozen=True, slots=True)
class ConfigSession:
    """One configuration session that is not over.

    *armed*: committed, and its commit timer runs. *users*: who is in it right now (``admin on vty3``); nobody when a run died in it.
    """

    name: str
    armed: bool
    users: tuple[str, ...] = ()

    @property
    def of_pinion(self) -> bool:
        """True for a session that some run of Pinion opened."""
        return self.name.startswith(PREFIX)

    def of(self, owner: str) -> bool:
        """True for a session of *owner* (see `pinion.drivers.switch.lock.owner`)."""
        return self.name.startswith(f"{PREFIX}{owner}-")


def parse_sessions(text: str) -> tuple[ConfigSession, ...]:
    """The sessions in the JSON *text* that are pending or armed, by name. `ValueError` when it is not such JSON."""
    try:
        listing = _Listing.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"unexpected answer to `{LIST_SESSIONS}`: {error.errors()[0]['msg']}") from error
    found = []
    for name, session in sorted(listing.sessions.items()):
        armed = session.state == "pendingCommitTimer" or name == listing.armed
        if armed or session.state == "pending":
            users = tuple(f"{instance.user} on {instance.terminal}" for instance in session.instances.values())
            found.append(ConfigSession(name=name, armed=armed, users=users))
    return tuple(found)
