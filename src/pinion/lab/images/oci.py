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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"

#: Go's names of what `platform.machine` answers (the OCI specification refers to GOARCH).
GOARCH = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True)
class ImageFile:
    """One file of an image: owned by root, *mode* in octal."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Image:
    """An image before it is written.

    *name* is its full reference (``registry/repository:tag``). *files* maps absolute paths to content; folders above them are made, 0755.
    *user* is ``uid:gid``. *architecture* is Go's name.
    """

    name: str
    architecture: str
    files: Mapping[str, ImageFile]
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
    layer = _tar({path.lstrip("/"): entry for path, entry in _checked(image.files).items()})
    layer_digest = _digest(layer)
    config = _json({
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "User": image.user,
            "Entrypoint": list(image.entrypoint),
            "Env": ["PATH=/bin", *(f"{key}={value}" for key, value in sorted(image.environment.items()))],
            "ExposedPorts": {f"{port}/tcp": {} for port in sorted(image.ports)},
            "Labels": dict(sorted(image.labels.items())),
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        "history": [{"created_by": "pinion", "comment": image.name}],
    })  # fmt: skip
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, config),
        "layers": [_descriptor(_LAYER, layer)],
    })  # fmt: skip
    reference = {
        **_descriptor(_MANIFEST, manifest),
        "platform": {"architecture": image.architecture, "os": "linux"},
        # containerd reads the first as the image's whole name; others read the second as its tag
        "annotations": {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        },
    }
    index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [reference]})
    blobs = {f"blobs/sha256/{_digest(blob)[7:]}": ImageFile(blob) for blob in (layer, config, manifest)}
    outer = {"oci-layout": ImageFile(_json({"imageLayoutVersion": "1.0.0"})), "index.json": ImageFile(index), **blobs}
    return Archive(_tar(outer), _digest(manifest))


def _checked(files: Mapping[str, ImageFile]) -> Mapping[str, ImageFile]:
    for path in files:
        if (
            not path.startswith("/")
            or path.startswith("//")
            or str(PurePosixPath(path)) != path
            or ".." in PurePosixPath(path).parts
        ):
            raise ValueError(f"{path!r}: a path in an image is absolute and has no '.', '..' or double '/'")
    return files


def _tar(files: Mapping[str, ImageFile]) -> bytes:
    """A tar archive of *files* (relative paths) and the folders above them, in order of their paths, at time 0."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for path in sorted(folders | files.keys()):
            entry = tarfile.TarInfo(path)
            if path in files:
                entry.mode, entry.size = files[path].mode, len(files[path].content)
                out.addfile(entry, io.BytesIO(files[path].content))
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                out.addfile(entry)
    return stream.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
