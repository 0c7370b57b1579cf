"""What the commands of `pinion lab` share: which lab, and how its errors are told. Imports little: `exec` stands before every other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from pinion.cli.arguments import COULD_NOT_RUN, load_or_exit, site_path
from pinion.lab.errors import LabError
from pinion.lab.state import InstanceState
from pinion.site.find import stated_name

SITE = click.option("--site", default="lab", show_default=True, help="Site file: a path, or a name under inventories/.")
INSTANCE = click.option(
    "--instance",
    envvar="PINION_INSTANCE",
    metavar="NAME",
    help="Which lab, when several run side by side.  [default: the site's name]",
)
JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON; progress stays on standard error."
)


@contextmanager
def told() -> Iterator[None]:
    """Turn a `LabError` into a message and exit code 2."""
    try:
        yield
    except LabError as error:
        click.echo(f"pinion lab: {error}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None


def state(site: str, instance: str | None, *, as_json: bool = False) -> InstanceState:
    """The instance's state; the site file is read only for its name, and loaded only when that is not plain to see."""
    if instance:
        return InstanceState.of(instance)
    name = stated_name(site_path(site)) or load_or_exit(site, as_json=as_json)[1].site
    return InstanceState.of(name)
