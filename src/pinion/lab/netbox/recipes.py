"""The layers of the management host: the official NetBox, and the migrated empty database.

Invariants:

* NetBox and every package below it come from `requirements.txt`, pinned and checked by hash.
* The database is a whole PostgreSQL data folder in one archive (`DATABASE_ARCHIVE`). It holds no secret and no user, so all
  instances may start from the same bytes.
* The expensive migration depends on nothing but NetBox itself: what an instance is configured with is not part of its key.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pinion.lab.layers import BASE, LayerRecipe
from pinion.lab.parts import Bind

#: Where NetBox lies in the machine: `venv/` (the package), `root/` (NETBOX_ROOT: configuration, static files).
NETBOX_HOME = "/opt/netbox"
#: The migrated empty database: an archive with one folder `postgresql`, owned by the machine's `postgres` user.
DATABASE_ARCHIVE = "/opt/netbox/database.tar"

#: The release that the requirements pin.
NETBOX_RELEASE = next(
    line.split("==")[1]
    for line in (files("pinion.lab.netbox") / "requirements.in").read_text().splitlines()
    if line.startswith("netbox==")
)

_RESOURCES = files("pinion.lab.netbox") / "files"


def _text(name: str) -> str:
    return (_RESOURCES / name).read_text()


NETBOX = LayerRecipe(
    name="netbox",
    parent=BASE,
    packages=(
        "postgresql-17", "redis-server", "nginx-light", "python3", "python3-venv", "libpq5",
        # To build psycopg's C part; taken out again at the end of the script.
        "gcc", "libc6-dev", "libpq-dev", "python3-dev",
    ),
    files={"/opt/netbox/requirements.txt": (files("pinion.lab.netbox") / "requirements.txt").read_text()},
    script=_text("build-netbox.sh"),
    env=("PIP_*",),
    binds=(Bind(Path("/etc/pip.conf"), "/etc/pip.conf"), Bind(Path("/opt/wheels"), "/opt/wheels")),
    minutes=4,
)  # fmt: skip

NETBOX_DATABASE = LayerRecipe(
    name="netbox-database",
    parent=NETBOX,
    packages=(),
    files={"/opt/netbox/root/conf/configuration.py": _text("template_configuration.py")},
    script=_text("build-database.sh"),
    minutes=9,
)
