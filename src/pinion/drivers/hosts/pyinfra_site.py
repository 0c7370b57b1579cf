"""pyinfra connector: ``@pinion/<site>`` are the hosts of a site file. ``pinion`` alone decides who they are; SSH carries the commands."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra.api.exceptions import InventoryError
from pyinfra.connectors.base import BaseConnector

from pinion.drivers.hosts.inventory import login, plan_of, pyinfra_data
from pinion.site.errors import SiteErrors
from pinion.site.find import site_file


class SiteConnector(BaseConnector):
    """Yields the hosts of one site; pyinfra's SSH connector executes on them."""

    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, object], list[str]]]:
        """Every host of the site *name* (as for every `pinion` command) with its data and groups. Raises `InventoryError`."""
        if not name:
            raise InventoryError("name the site: @pinion/<site>")
        try:
            plan = plan_of(site_file(name))
        except FileNotFoundError as error:
            raise InventoryError(str(error)) from error
        except SiteErrors as errors:
            raise InventoryError(f"the site file has problems:\n{errors}") from errors
        access = login()
        for host in plan.hosts:
            yield host.name, pyinfra_data(host, access), list(host.groups)
