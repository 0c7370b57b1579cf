"""`pinion.drivers.hosts.onhost` as something to send: a zip on standard input, run from memory, nothing left on the host.

The zip is the same bytes for the same sources, so two controllers of one version send the same program.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources

_PACKAGE = "onhost"
#: Reads the zip (first line, base64) into memory that belongs to no file system, imports from it, and leaves the request on stdin.
_BOOTSTRAP = (
    "import base64,os,sys;"
    "f=os.memfd_create('pinion');"
    "os.write(f,base64.b64decode(sys.stdin.readline()));"
    "sys.path.insert(0,f'/proc/self/fd/{f}');"
    "from onhost.main import main;"
    "sys.exit(main())"
)
#: The whole command; no argument of it depends on the request, so nothing of a request is ever seen in a process list.
COMMAND = f"/usr/bin/python3 -I -B -c {shlex.quote(_BOOTSTRAP)}"
#: What to put before COMMAND to become root without a question.
SUDO = "sudo -n -H"


@cache
def program() -> str:
    """The zip of the package, base64 in one line."""
    found = io.BytesIO()
    folder = resources.files("pinion.drivers.hosts").joinpath(_PACKAGE)
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".py")):
            # The DOS epoch: the sources' own times must not change the bytes.
            info = zipfile.ZipInfo(f"{_PACKAGE}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, (folder / name).read_bytes())
    return base64.b64encode(found.getvalue()).decode("ascii")


def standard_input(request: Mapping[str, object]) -> str:
    """What COMMAND reads: the program, then *request*."""
    return f"{program()}\n{json.dumps(request)}\n"
