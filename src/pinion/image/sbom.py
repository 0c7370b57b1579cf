"""The bill of materials of the base image: CycloneDX 1.6 JSON (ECMA-424), from dpkg's own status in the image. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from pinion.image.disk import identifier
from pinion.image.errors import ImageError
from pinion.image.packages import Lock

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def stanzas(status: str) -> list[dict[str, str]]:
    """The installed packages of dpkg's status file, by their fields."""
    found = []
    for block in re.split(r"\n\n+", status.strip()):
        fields: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line[:1] in {" ", "\t"}:
                fields[key] += f"\n{line.strip()}"
            else:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields.get("Status", "").endswith(" installed"):
            found.append(fields)
    return found


def purl(name: str, version: str, architecture: str, release: str) -> str:
    """The package URL of a Debian package (package-url specification, type deb)."""
    return f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={architecture}&distro={release}"


def bill(status: str, lock: Lock, *, name: str, digest: str, carried: Sequence[str] = ()) -> dict[str, Json]:
    """The bill of the image with SHA-256 *digest*, from dpkg's *status* in it.

    *carried* are packages of the lock of which only files are in the image. Raises `ImageError` when the image holds a package in another
    version than locked, or one that is not locked.
    """
    locked = {package.name: package for package in lock.packages}
    depends = _depends(status)
    for fields in stanzas(status):
        package = locked.get(fields["Package"])
        if package is None or package.version != fields["Version"]:
            raise ImageError(
                f"bill of materials: {fields['Package']} {fields['Version']} is in the image and not in the lock"
            )
    components = [
        _component(package.name, package.version, package.architecture, lock.release, package.sha256)
        for package in sorted((locked[entry] for entry in (*depends, *carried)), key=lambda entry: entry.name)
    ]
    return _document(components, depends, name=name, digest=digest, release=lock.release, epoch=lock.epoch)


def bill_of_status(
    status: str, *, name: str, digest: str, release: str, epoch: int, archive: tuple[str, str]
) -> dict[str, Json]:
    """The bill of an image whose packages somebody else installed: dpkg's *status* as it is, and the *archive* (name, SHA-256) it is from.

    The packages have no digests: their files never were here.
    """
    components = [
        _component(fields["Package"], fields["Version"], fields["Architecture"], release)
        for fields in sorted(stanzas(status), key=lambda entry: (entry["Package"], entry["Architecture"]))
    ]
    found = _document(components, _depends(status), name=name, digest=digest, release=release, epoch=epoch)
    vendor: Json = {
        "type": "file",
        "bom-ref": f"archive:{archive[1]}",
        "name": archive[0],
        "hashes": [{"alg": "SHA-256", "content": archive[1]}],
    }
    return found | {"components": [vendor, *components]}


def _depends(status: str) -> dict[str, str]:
    """The field Depends of each installed package. Raises `ImageError` when none is."""
    found = {fields["Package"]: fields.get("Depends", "") for fields in stanzas(status)}
    if not found:
        raise ImageError("bill of materials: dpkg's status names no installed package")
    return found


def _component(name: str, version: str, architecture: str, release: str, sha256: str | None = None) -> dict[str, Json]:
    ref = purl(name, version, architecture, release)
    found: dict[str, Json] = {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}
    return found | ({"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 is not None else {})


def _document(
    components: Sequence[dict[str, Json]], depends: dict[str, str], *, name: str, digest: str, release: str, epoch: int
) -> dict[str, Json]:
    refs = {str(component["name"]): str(component["bom-ref"]) for component in components}
    own = f"image:{digest}"
    edges: list[Json] = [{"ref": own, "dependsOn": [*sorted(refs.values())]}]
    for entry, ref in refs.items():
        names = {
            re.split(r"[\s:(]", part.strip())[0] for part in re.split(r"[,|]", depends.get(entry, "")) if part.strip()
        }
        edges.append({"ref": ref, "dependsOn": [*sorted(refs[other] for other in names if other in refs)]})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identifier('bill', digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "operating-system",
                "bom-ref": own,
                "name": name,
                "version": release,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [*components],
        "dependencies": edges,
    }
