"""NetBox in the lab's management host: the official package behind nginx, with a database that survives `pinion lab down`."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.netbox.instance import DATA, MASKS, UNITS, NetBoxSecrets, resource, unpack_database, write_configuration
from pinion.lab.netbox.recipes import DATABASE_ARCHIVE, NETBOX_DATABASE, NETBOX_RELEASE
from pinion.lab.parts import Forward, JsonValue, MachineNeeds
from pinion.lab.pki import Credential, authority
from pinion.plan.model import DevicePlan

_TLS_PORT, _PLAIN_PORT = 443, 8080
_WRITTEN = ("configuration.py", "gunicorn.py", "accounts.py", "postgresql.conf", "nginx.conf", *UNITS[:3])


@dataclass(frozen=True, slots=True)
class NetBoxPart:
    """The part ``netbox``."""

    name: str = "netbox"

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """The management host, from the migrated image, with the database outside its overlay."""
        host = _host(lab)
        digest = hashlib.sha256("\0".join(resource(name) for name in _WRITTEN).encode()).hexdigest()
        return {
            host.name: MachineNeeds(
                layer=NETBOX_DATABASE, data=(DATA,), units=UNITS, masks=MASKS, revision=f"netbox {NETBOX_RELEASE} {digest}"
            )
        }  # fmt: skip

    def prepare(self, lab: Lab) -> None:
        """Secrets, certificate, layer."""
        NetBoxSecrets.at(_secrets(lab))
        _certificate(lab)
        lab.layer(NETBOX_DATABASE)

    def provision(self, lab: Lab, machine: Machine) -> None:
        """Configuration, units, certificate; the database when the instance has none yet."""
        kept = NetBoxSecrets.at(_secrets(lab))
        write_configuration(machine, machine.root, kept)
        machine.write("/etc/nginx/nginx.conf", resource("nginx.conf"))
        for unit in UNITS[:3]:
            machine.write(f"/etc/systemd/system/{unit}", resource(unit))
        credential = _certificate(lab)
        machine.write("/etc/netbox/tls/server.crt", credential.certificate.read_text())
        machine.write("/etc/netbox/tls/server.key", credential.key.read_text(), 0o600)
        self._provide_database(lab, machine)

    def _provide_database(self, lab: Lab, machine: Machine) -> None:
        data = machine.data_path(DATA)
        release = data / "release"
        archive = lab.layer(NETBOX_DATABASE)[0] / DATABASE_ARCHIVE.lstrip("/")
        if unpack_database(archive, data):
            release.write_text(NETBOX_RELEASE)
        # A database of another release is migrated before NetBox serves it; the unit does so when it finds this file.
        flag = "" if release.exists() and release.read_text() == NETBOX_RELEASE else NETBOX_RELEASE
        machine.write("/etc/netbox/migrate", flag)
        user, group = machine.account("postgres")
        postgres = data / "postgresql"
        if postgres.stat().st_uid != user:  # another image may number its accounts otherwise
            for folder, _, names in os.walk(postgres):
                for path in (Path(folder), *(Path(folder) / name for name in names)):
                    os.chown(path, user, group, follow_symlinks=False)

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        """Ready when the API answers Pinion's own token over TLS."""
        try:
            status, text = _ask(lab, machine)
        except OSError:
            state = machine.run(["systemctl", "is-failed", "netbox.service"], check=False).stdout.strip()
            if state == "failed":
                log = machine.run(["journalctl", "--no-pager", "--lines=15", "--unit=netbox"], check=False).stdout
                raise LabError(f"NetBox on {machine.name} does not start; the end of its log:\n{log}") from None
            return "NetBox's code being loaded"
        if status in (502, 503):
            return "NetBox's code being loaded"
        if status != 200:
            raise LabError(f"NetBox on {machine.name} answers {status} to its own token: {text[:300]}")
        (machine.data_path(DATA) / "release").write_text(NETBOX_RELEASE)
        return None

    def forwards(self, lab: Lab) -> Sequence[Forward]:
        """One loopback port with TLS, one plain: a browser does not know the lab's authority."""
        host = _host(lab).name
        return (Forward("netbox", host, "127.0.0.1", _PLAIN_PORT), Forward("netbox-tls", host, "127.0.0.1", _TLS_PORT))

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """Where NetBox is, for programs in the lab's network and for the browser, and where its secrets lie."""
        secrets = _secrets(lab)
        return {
            "netbox": {
                "url": f"https://{_address(_host(lab))}",
                "browser_url": f"http://127.0.0.1:{lab.forward_port('netbox')}/",
                "token_file": str(secrets / "netbox-token"),
                "ca_file": str(_certificate(lab).ca),
                "admin_user": "admin",
                "admin_password_file": str(secrets / "netbox-admin-password"),
            }
        }


def _secrets(lab: Lab) -> Path:
    return lab.state / "secrets"


def _host(lab: Lab) -> DevicePlan:
    node = lab.topology.management_host
    if node is None:
        raise LabError("NetBox needs a management host, and the site has none; add one under management_hosts")
    return lab.plan.device(node.name)


def _addresses(host: DevicePlan) -> list[str]:
    return [address.partition("/")[0] for interface in host.interfaces for address in interface.addresses]


def _address(host: DevicePlan) -> str:
    """The address under which the site's programs reach NetBox: not the out-of-band one, when there is another."""
    inband = [a.partition("/")[0] for one in host.interfaces if not one.management_only for a in one.addresses]
    return (inband or _addresses(host))[0]


def _certificate(lab: Lab) -> Credential:
    host = _host(lab)
    return authority(lab.state).issue(
        "netbox", dns=[host.name, "localhost"], addresses=[*_addresses(host), "127.0.0.1"]
    )


def _ask(lab: Lab, machine: Machine) -> tuple[int, str]:
    """Status and body of the API's status page, asked as Pinion will ask it. `OSError` when nobody answers."""
    token = (_secrets(lab) / "netbox-token").read_text().strip()
    context = ssl.create_default_context(cafile=str(_certificate(lab).ca))
    with (
        machine.connect("127.0.0.1", _TLS_PORT, 2.0) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as stream,
    ):
        stream.settimeout(10.0)
        return _get(stream, token)


def _get(stream: socket.socket, token: str) -> tuple[int, str]:
    stream.sendall(
        f"GET /api/status/ HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\r\n".encode()
    )
    try:
        answer = http.client.HTTPResponse(stream)
        answer.begin()
        return answer.status, answer.read().decode(errors="replace")
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
