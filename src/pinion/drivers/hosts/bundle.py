"""`pinion.drivers.hosts.onhost` as something to send: a zip on standard input, run from memory; nothing is installed on the host.

The zip is the same bytes for the same sources, so two controllers of one version send the same program.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

_PACKAGE = "onhost"


def _bootstrap() -> str:
    """`pinion.drivers.hosts.bootstrap` as the argument of ``python3 -c``: one line, however often it is quoted."""
    tree = ast.parse(resources.files("pinion.drivers.hosts").joinpath("bootstrap.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    packed = base64.b64encode(zlib.compress(ast.unparse(tree).encode(), 9)).decode()
    return f"import binascii,zlib;exec(zlib.decompress(binascii.a2b_base64(b'{packed}')))"


#: The whole command; no argument of it depends on the request, so nothing of a request is ever seen in a process list.
COMMAND = f"/usr/bin/python3 -I -S -B -c {shlex.quote(_bootstrap())}"
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
    """What COMMAND reads: the program with its digest, then *request*."""
    packed = program()
    digest = hashlib.sha256(packed.encode()).hexdigest()
    return f"{digest} {packed}\n{json.dumps(request)}\n"
