"""What a node leaves behind: the plan with it still in, its switch ports, and the data that its concerns keep. Pure."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from pinion.plan import edge_units, hailo_ollama, joining
from pinion.plan.compile import plan
from pinion.plan.concerns import edge_cluster, identity, kube_node, model_store, site_ca
from pinion.plan.model import HostPlan, Plan
from pinion.site.model import Site

#: Where the program that runs on hosts keeps journals and the contents of secret files (`pinion.drivers.hosts.onhost.notes`).
NOTES = "/var/lib/pinion"

#: Concerns to the folders and files that hold their data; *secret* ones are overwritten. The first are the first to go.
DATA: tuple[tuple[tuple[str, ...], tuple[str, ...], bool], ...] = (
    ((identity.NAME,), (identity.FOLDER, identity.TOKEN_FILE), True),
    ((site_ca.NAME,), (site_ca.FOLDER, site_ca.DATA), True),
    ((edge_cluster.NAME, kube_node.NAME), joining.SECRETS, True),
    ((), (NOTES,), True),
    ((model_store.NAME,), (model_store.FOLDER,), False),
    ((edge_units.NAME,), (hailo_ollama.STORE,), False),
)
_UNITS = "/etc/systemd/system/"


class Held(BaseModel):
    """One folder or file with data of a concern."""

    model_config = ConfigDict(frozen=True)

    path: str
    secret: bool


class Behind(BaseModel):
    """What is to be wiped on a host: the *units* that use it, stopped first, and the *data* in the order in which it goes."""

    model_config = ConfigDict(frozen=True)

    units: tuple[str, ...]
    data: tuple[Held, ...]


def staying(site: Site, name: str) -> Plan:
    """The plan of *site* as it was before *name* was stated as leaving: how to log in there, and what its concerns are."""
    others = tuple(other for other in site.decommissioned if other != name)
    return plan(site.model_copy(update={"decommissioned": others}))


def behind(host: HostPlan) -> Behind:
    """What *host* keeps. Data of concerns that it no longer has is named too: a path that is not there is no mistake."""
    keepers = [concern for concerns, _, _ in DATA for concern in concerns]
    units = tuple(
        file.path.removeprefix(_UNITS)
        for name in keepers
        if name in host.concerns
        for file in host.concerns[name].files
        if file.path.startswith(_UNITS) and file.path.removeprefix(_UNITS).count("/") == 0
    )
    # What starts others stops first.
    ordered = sorted(units, key=lambda unit: unit.endswith(".service"))
    return Behind(
        units=tuple(ordered),
        data=tuple(Held(path=path, secret=secret) for _, paths, secret in DATA for path in paths),
    )


def ports(plan: Plan, name: str) -> tuple[tuple[str, str], ...]:
    """The switch ports that the node *name* is plugged into: switch and port, in the order of its interfaces."""
    cables = (interface.cable for interface in plan.device(name).interfaces)
    return tuple((cable.device, cable.interface) for cable in cables if cable is not None)
