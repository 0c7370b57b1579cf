"""The site's certificate authority as a part of the lab: step-ca where the plan wants it, and the operator's half in the instance's state.

An image would bring the program and `pinion identity init` the rest; the concerns `site_ca` and `identity` do what is left, as on any site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import AuthorityError
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.parts import Bind, Forward, JsonValue, MachineNeeds
from pinion.plan.concerns import site_ca

_TOOL = "step-ca"


class AuthorityPart:
    """step-ca on the management host that the plan names; the authority itself is made before any machine boots."""

    name = "authority"

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """The program, where the plan has the concern."""
        bind = Bind(lab.cache / "bin" / _TOOL, site_ca.PROGRAM)
        stated = lab.plan.authority
        return {} if stated is None or stated.host is None else {stated.host: MachineNeeds(binds=(bind,))}

    def prepare(self, lab: Lab) -> None:
        """The program, and root, intermediate and the key for tokens."""
        stated = lab.plan.authority
        if stated is None or stated.host is None:
            return
        try:
            obtain((_TOOL,), lab.say)
            made = Authority(lab.store.authority / lab.plan.site)
            made.make(lab.plan.site, stated.domain, stated.networks)
        except (ProgramMissingError, AuthorityError) as error:
            raise LabError(str(error)) from error

    def provision(self, lab: Lab, machine: Machine) -> None:
        """The concern does it all."""

    def ready(self, lab: Lab, machine: Machine) -> str | None:  # noqa: ARG002 - the Protocol's
        """There is nothing to wait for: step-ca runs once the host is converged."""
        return None

    def forwards(self, lab: Lab) -> Sequence[Forward]:  # noqa: ARG002 - the Protocol's
        """None: nobody asks it with a browser."""
        return ()

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """Where the operator's half lies."""
        return {"authority": {"folder": str(lab.store.authority)}} if lab.plan.authority is not None else {}
