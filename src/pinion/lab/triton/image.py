"""Triton's container image, made of the layer without a builder: Triton, its Python, what that is linked to, and the programs of Pinion.

Invariants:

* The digest follows from the layer's files and from Pinion's programs, and from no time and no order.
* There is no package manager in it and no set-user-ID file; the one shell is what Triton's Python backend starts its processes by.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from pinion.lab.images.oci import GOARCH, Image, ImageFile, ImageLink, write_archive
from pinion.lab.images.own import accounts
from pinion.lab.state import read_json, write_file, write_json
from pinion.lab.triton.recipes import LIBRARIES, PROGRAM, TRITON, TRITON_HOME
from pinion.plan.pool import LAB_IMAGE
from pinion.services.triton_model.place import MODULES

Entries = dict[str, ImageFile | ImageLink]

#: Folders of the layer that are whole in the image.
_TREES = (TRITON_HOME, "/usr/lib/python3.11", "/usr/local/lib/python3.11")
#: Programs: Python, what Triton's Python backend starts its processes by, and what checks signatures. Data: whom HTTPS trusts.
_FILES = (
    "/usr/bin/python3.11",
    "/usr/bin/bash",
    "/usr/bin/openssl",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/lib/ssl/openssl.cnf",
)
#: Debian's own. Programs of before the merge name the short folders; the Python in Triton's processes finds its folders by python3.
_LINKS = {
    "/bin": "usr/bin",
    "/lib": "usr/lib",
    "/lib64": "usr/lib64",
    "/usr/bin/sh": "bash",
    "/usr/bin/python3": "python3.11",
}
_SHORT = ("/lib", "/lib64", "/bin")
#: Where the programs of Pinion lie, for Python's path.
PROGRAMS = "/opt/pinion"
_USER = 65532


def image(layers: Sequence[Path]) -> Image:
    """The image of the file system whose lower folders *layers* are, topmost first."""
    found = Entries()
    for tree in _TREES:
        found |= dict(_tree(layers, tree))
    listed = _known(layers, LIBRARIES).read_text(encoding="utf-8").split()
    for path in (*_FILES, *map(_merged, listed)):
        found |= _one(layers, path)
    found |= {path: ImageLink(target) for path, target in _LINKS.items()}
    found |= accounts("triton", _USER)
    for path, content in programs().items():
        found[f"{PROGRAMS}/{path}"] = ImageFile(content)
    return Image(
        name=LAB_IMAGE,
        architecture=GOARCH[platform.machine()],
        files=found,
        entrypoint=(PROGRAM,),
        user=f"{_USER}:{_USER}",
        ports=(8000, 8002),
        environment={"PATH": "/opt/tritonserver/bin:/usr/bin", "PYTHONPATH": PROGRAMS, "PYTHONDONTWRITEBYTECODE": "1"},
        labels={"org.opencontainers.image.description": "NVIDIA Triton for the CPU, with Pinion's model program"},
    )


def programs() -> Mapping[str, bytes]:
    """What of Pinion is in the image, by path below `PROGRAMS`: what places a model, and what is placed with it."""
    services = resources.files("pinion.services")
    wanted = [
        (f"{package}/{module}.py", f"{package}/{module}.py") for package, names in MODULES.items() for module in names
    ]
    wanted += [(f"triton_model/{name}.py", f"triton_model/{name}.py") for name in ("model", "place")]
    wanted += [
        ("node_programs/__init__.py", "node_programs/__init__.py"),
        ("node_programs/model_store.py", "node_programs/model_store.py"),
        ("node_programs/model_format.py", "node_programs/model-format"),
    ]
    found = {f"pinion/services/{target}": _read(services, source) for source, target in wanted}
    return {"pinion/__init__.py": b"", "pinion/services/__init__.py": b"", **found}


def have_image(layers: Sequence[Path], folder: Path, say: Callable[[str], object]) -> None:
    """Have the image's archive ``triton.tar`` in *folder*, and beside it, as ``triton.digest``, its name and digest.

    Made anew only when what it follows from has changed; a run that was killed leaves no half of one behind.
    """
    stamp, key = folder / "stamp.json", _key()
    if read_json(stamp).get("key") == key and (folder / "triton.tar").is_file():
        return
    say("Triton's image is being written, about 10 s; once")
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    half = folder / ".triton.tar.new"
    with half.open("wb") as out:
        digest = write_archive(image(layers), out)
    half.chmod(0o644)
    half.replace(folder / "triton.tar")
    write_file(folder / "triton.digest", f"{LAB_IMAGE} {digest}\n", 0o644)
    write_json(stamp, {"key": key})


def folder_of(cache: Path) -> Path:
    """Where in *cache* the archive of this Pinion's image lies; another Pinion has another folder."""
    return cache / "images" / f"triton-{_key()[:16]}"


def _key() -> str:
    """The SHA-256 of all that the image follows from."""
    digest = hashlib.sha256(TRITON.key.encode())
    digest.update(json.dumps([LAB_IMAGE, *_TREES, *_FILES]).encode())
    for source in ("pinion.lab.triton", "pinion.lab.images"):
        for name in ("image.py", "oci.py"):
            if (file := resources.files(source) / name).is_file():
                digest.update(file.read_bytes())
    for path, content in sorted(programs().items()):
        digest.update(path.encode() + b"\0" + content)
    return digest.hexdigest()


def _read(folder: Traversable, path: str) -> bytes:
    for step in path.split("/"):
        folder /= step
    return folder.read_bytes()


def _merged(path: str) -> str:
    """*path* without the links of before the merge: /lib/x is /usr/lib/x."""
    return f"/usr{path}" if path.startswith(tuple(f"{short}/" for short in _SHORT)) else path


def _known(layers: Sequence[Path], path: str) -> Path:
    """Where *path* of the file system lies on this machine. `FileNotFoundError` when it is in no layer."""
    for layer in layers:
        place = layer / path.lstrip("/")
        if place.is_symlink() or place.exists():
            return place
    raise FileNotFoundError(f"{path} is in none of the layers that the image is made of")


def _one(layers: Sequence[Path], path: str) -> Entries:
    """The entry of *path*, and of what it leads to where it is a link."""
    place = _known(layers, path)
    if not place.is_symlink():
        return {path: _file(place)}
    target = str(place.readlink())
    absolute = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
    return {path: ImageLink(target), **_one(layers, _merged(str(_normal(absolute))))}


def _normal(path: str) -> Path:
    """*path* without ``..``."""
    found: list[str] = []
    for step in path.strip("/").split("/"):
        found = found[:-1] if step == ".." else [*found, step]
    return Path("/", *found)


def _tree(layers: Sequence[Path], path: str) -> Iterator[tuple[str, ImageFile | ImageLink]]:
    """Every file and link below *path*, of the topmost layer that has it."""
    top = _known(layers, path)
    for place in sorted(top.rglob("*")):
        name = f"{path}/{place.relative_to(top)}"
        if place.is_symlink():
            yield name, ImageLink(str(place.readlink()))
        elif place.is_file():
            yield name, _file(place)


def _file(place: Path) -> ImageFile:
    return ImageFile(place, 0o755 if place.stat().st_mode & 0o111 else 0o644)
