"""The host of the site's authority, over SSH: step-ca's database is fetched from there and put back there.

step-ca's database may be copied only while it does not run, so it is stopped for the moment of the copy; hosts ask again by themselves.
Whatever ends the command there (a cut login too), it is started again; after a loss of power systemd starts it.
"""

from __future__ import annotations

import base64
import binascii
import shlex
import subprocess

from pinion.bringup.host_shell import HostRefusedError, Run, on
from pinion.drivers.hosts.inventory import Login
from pinion.plan.concerns import site_ca
from pinion.plan.model import HostPlan

_SECONDS = 300
_STOPPED = f"""
trap 'systemctl start {site_ca.UNIT}' EXIT
trap 'exit 1' HUP INT TERM PIPE
systemctl stop {site_ca.UNIT}
"""
_FETCH = f"{_STOPPED}tar -czf - db | base64 -w 0\n"
#: What was there is kept beside it: a restore of the wrong file can be taken back by hand.
_PLACE = f"""rm -rf .restored
mkdir -m 0700 .restored
base64 -d | tar -C .restored -xzf - --no-same-owner
test -d .restored/db
chown -R {site_ca.USER}:{site_ca.USER} .restored
{_STOPPED}
if test -e db; then mv db db.before-$(date -u +%Y%m%d-%H%M%S-%N); fi
mv .restored/db db
rmdir .restored
sync
"""


def fetch_database(host: HostPlan, access: Login, run: Run = subprocess.run, data: str = site_ca.DATA) -> bytes:
    """step-ca's database as a gzipped tar. Raises `UnreachedError`, `HostRefusedError`."""
    said = on(host, access, _script(data, _FETCH), "", _SECONDS, run)
    try:
        return base64.b64decode(said, validate=True)
    except binascii.Error:
        raise HostRefusedError(f"{host.name}: the database did not come over whole") from None


def place_database(
    host: HostPlan, access: Login, database: bytes, run: Run = subprocess.run, data: str = site_ca.DATA
) -> None:
    """Have step-ca use *database*; may be run again. Raises `UnreachedError`, `HostRefusedError`."""
    on(host, access, _script(data, _PLACE), base64.b64encode(database).decode(), _SECONDS, run)


def _script(data: str, text: str) -> str:
    return "sudo -n bash -c " + shlex.quote(f"set -euo pipefail\ncd {shlex.quote(data)}\n{text}")
