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
    components: list[Json] = []
    refs: dict[str, str] = {}
    installed = stanzas(status)
    if not installed:
        raise ImageError("bill of materials: dpkg's status names no installed package")
    for fields in installed:
        package = locked.get(fields["Package"])
        if package is None or package.version != fields["Version"]:
            raise ImageError(
                f"bill of materials: {fields['Package']} {fields['Version']} is in the image and not in the lock"
            )
    depends: dict[str, str] = {fields["Package"]: fields.get("Depends", "") for fields in installed}
    for package in sorted((locked[entry] for entry in (*depends, *carried)), key=lambda entry: entry.name):
        ref = purl(package.name, package.version, package.architecture, lock.release)
        refs[package.name] = ref
        components.append(
            {
                "type": "library",
                "bom-ref": ref,
                "name": package.name,
                "version": package.version,
                "purl": ref,
                "hashes": [{"alg": "SHA-256", "content": package.sha256}],
            }
        )
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
            "timestamp": datetime.fromtimestamp(lock.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "operating-system",
                "bom-ref": own,
                "name": name,
                "version": lock.release,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": components,
        "dependencies": edges,
    }
