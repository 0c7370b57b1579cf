"""Write a container image as an OCI archive: one layer, one platform, the same bytes for the same content.

Invariants:

* No clock, no user names, no order of a directory: the digest of an image follows from `Image` alone.
* The archive is an OCI image layout (image-spec 1.1) that containerd, podman and skopeo read; the layer is not compressed, because
  compressors of two versions give two digests.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"

#: Go's names of what `platform.machine` answers (the OCI specification refers to GOARCH).
GOARCH = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True)
class ImageFile:
    """One file of an image: owned by root, *mode* in octal. *content* is that of a file of this machine where it is a path."""

    content: bytes | Path
    mode: int = 0o644


@dataclass(frozen=True)
class ImageLink:
    """A symbolic link of an image to *target*, which nobody asks whether it is there."""

    target: str


@dataclass(frozen=True)
class Image:
    """An image before it is written.

    *name* is its full reference (``registry/repository:tag``). *files* maps absolute paths to content; folders above them are made, 0755.
    *user* is ``uid:gid``. *architecture* is Go's name.
    """

    name: str
    architecture: str
    files: Mapping[str, ImageFile | ImageLink]
    entrypoint: tuple[str, ...]
    user: str = "65532:65532"
    ports: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Archive:
    """A written image: its archive and the digest of its manifest (``sha256:…``)."""

    content: bytes
    digest: str


def archive(image: Image) -> Archive:
    """*image* as an OCI archive. `ValueError` for a path that is not absolute and normal."""
    stream = io.BytesIO()
    digest = write_archive(image, stream)
    return Archive(stream.getvalue(), digest)


def write_archive(image: Image, out: IO[bytes]) -> str:
    """Write *image* as an OCI archive; the digest of its manifest. What is large is never in memory. Raises as `archive`; `OSError`."""
    with tempfile.NamedTemporaryFile(prefix="pinion-layer-") as layer:
        _tar({path.lstrip("/"): entry for path, entry in _checked(image.files).items()}, layer)
        layer.flush()
        with Path(layer.name).open("rb") as read:
            layer_digest = f"sha256:{hashlib.file_digest(read, 'sha256').hexdigest()}"
        described = {"mediaType": _LAYER, "digest": layer_digest, "size": Path(layer.name).stat().st_size}
        config = _json(_config(image, layer_digest))
        manifest = _json({
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [described],
        })  # fmt: skip
        index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [_reference(image, manifest)]})
        blobs: dict[str, ImageFile | ImageLink] = {
            f"blobs/sha256/{_digest(blob)[7:]}": ImageFile(blob) for blob in (config, manifest)
        }
        blobs[f"blobs/sha256/{layer_digest[7:]}"] = ImageFile(Path(layer.name))
        layout = ImageFile(_json({"imageLayoutVersion": "1.0.0"}))
        _tar({"oci-layout": layout, "index.json": ImageFile(index), **blobs}, out)
    return _digest(manifest)


def _config(image: Image, layer_digest: str) -> dict[str, object]:
    return {
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": image.user,
            "Entrypoint": list(image.entrypoint),
            "Env": [f"{key}={value}" for key, value in sorted({"PATH": "/bin", **image.environment}.items())],
            "ExposedPorts": {f"{port}/tcp": {} for port in sorted(image.ports)},
            "Labels": dict(sorted(image.labels.items())),
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created_by": "pinion", "comment": image.name}],
    }


def _reference(image: Image, manifest: bytes) -> dict[str, object]:
    return {
        **_descriptor(_MANIFEST, manifest),
        "platform": {"architecture": image.architecture, "os": "linux"},
        # containerd reads the first as the image's whole name; others read the second as its tag
        "annotations": {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        },
    }


def _checked(files: Mapping[str, ImageFile | ImageLink]) -> Mapping[str, ImageFile | ImageLink]:
    for path in files:
        if (
            not path.startswith("/")
            or path.startswith("//")
            or str(PurePosixPath(path)) != path
            or ".." in PurePosixPath(path).parts
        ):
            raise ValueError(f"{path!r}: a path in an image is absolute and has no '.', '..' or double '/'")
    return files


def _tar(files: Mapping[str, ImageFile | ImageLink], out: IO[bytes]) -> None:
    """Write a tar archive of *files* (relative paths) and the folders above them, in order of their paths, at time 0."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as written:
        for path in sorted(folders | files.keys()):
            entry, held = tarfile.TarInfo(path), files.get(path)
            if held is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                written.addfile(entry)
            elif isinstance(held, ImageLink):
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, held.target, 0o777
                written.addfile(entry)
            else:
                _add(written, entry, held)


def _add(written: tarfile.TarFile, entry: tarfile.TarInfo, file: ImageFile) -> None:
    entry.mode = file.mode
    if isinstance(file.content, bytes):
        entry.size = len(file.content)
        written.addfile(entry, io.BytesIO(file.content))
        return
    with file.content.open("rb") as read:
        entry.size = file.content.stat().st_size
        written.addfile(entry, read)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
