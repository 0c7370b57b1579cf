"""The images that a rack needs and that no registry has: the pause container and the hello service, both of one static busybox."""

from __future__ import annotations

import platform
from importlib.resources import files
from pathlib import Path

from pinion.lab.images.oci import GOARCH, Archive, Image, ImageFile, archive
from pinion.lab.state import write_file

#: ``.invalid`` can never be resolved (RFC 2606): a node that lacks an image says so, and never asks someone's registry for it.
REGISTRY = "pinion.invalid"
PAUSE = f"{REGISTRY}/pause:1"
#: The chart `hello` names the same reference: repository in its values, tag as its appVersion.
HELLO = f"{REGISTRY}/hello:1.0.0"

_SERVE = files("pinion.lab.images") / "hello"


def accounts(user: str, number: int) -> dict[str, ImageFile]:
    """Root and *user*, without shell or login: what programs want to find when they ask who they are."""
    return {
        "/etc/passwd": ImageFile(f"root:x:0:0::/:\n{user}:x:{number}:{number}::/:\n".encode()),
        "/etc/group": ImageFile(f"root:x:0:\n{user}:x:{number}:\n".encode()),
    }


def own_images(busybox: bytes, architecture: str | None = None) -> tuple[Image, ...]:
    """All images of ours around *busybox*, a static executable for *architecture* (Go's name; default: this machine's)."""
    common = {**accounts("nonroot", 65532), "/bin/busybox": ImageFile(busybox, 0o755)}
    built_for = architecture or GOARCH[platform.machine()]
    pause = Image(
        name=PAUSE,
        architecture=built_for,
        files=common,
        entrypoint=("/bin/busybox", "sleep", "infinity"),
        labels={"org.opencontainers.image.description": "Holds a pod's namespaces"},
    )
    hello = Image(
        name=HELLO,
        architecture=built_for,
        files={
            **common,
            "/bin/serve": ImageFile((_SERVE / "serve.sh").read_bytes(), 0o755),
            "/www/index.html": ImageFile((_SERVE / "index.html").read_bytes()),
            "/www/healthz": ImageFile(b"ok\n"),
        },
        entrypoint=("/bin/busybox", "sh", "/bin/serve"),
        ports=(8080,),
        environment={"PORT": "8080"},
        labels={"org.opencontainers.image.description": "Answers HTTP: shows that a rack runs what it was told to run"},
    )
    return pause, hello


def write_images(busybox: Path, folder: Path) -> dict[str, Archive]:
    """Write the archive of every image of ours into *folder* as ``<name>.tar``; archives by image reference. Unchanged ones stay."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for image in own_images(busybox.read_bytes()):
        made = archive(image)
        write_file(folder / f"{image.name.rpartition('/')[2].partition(':')[0]}.tar", made.content, 0o644)
        written[image.name] = made
    return written
