"""Who a node is: the files that its seed partition puts on the base image, and the seed itself. Pure, but for the keys that it is given.

The seed is a FAT file system with ``identity.tar`` (plain files with owner and mode) and ``identity.json`` (site, node, SHA-256 of the
tar, and the units that the first boot enables). `pinion.services.node_programs.first_boot` is what reads it.
"""

from __future__ import annotations

import hashlib
import io
import ipaddress
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pinion.drivers.hosts.onhost.notes import journal_file
from pinion.image import enrolment
from pinion.image.errors import ImageError
from pinion.image.recipe import USER, USER_ID
from pinion.plan.concerns.access import ADMIN_USER, AUTHORITIES_FILE, KEYS_FOLDER, PRINCIPALS_FOLDER
from pinion.plan.concerns.base import CHRONY_FILE, named_servers
from pinion.plan.concerns.identity import ROOT_CA_FILE, SEED_TOKEN_FILE
from pinion.plan.context import PI_COMMAND_LINE
from pinion.plan.model import DeviceKind, DevicePlan, HostFile, InterfacePlan, Plan
from pinion.render.networkd import network_file

CONFIG_FILE = "/boot/firmware/config.txt"
#: Who the site's administrators are, as the plan has it.
ADMIN_KEYS_FILE, PRINCIPALS_FILE = f"{KEYS_FOLDER}/{ADMIN_USER}", f"{PRINCIPALS_FOLDER}/{ADMIN_USER}"
#: Read before what the plan has of sshd, of which the first value counts.
SSHD_FILE = "/etc/ssh/sshd_config.d/06-pinion-access.conf"
TIME_FILE = "/etc/systemd/timesyncd.conf.d/10-pinion.conf"
HOST_KEY_FILE = "/etc/ssh/ssh_host_ed25519_key"
#: For a site that does not state `pi_boot`: as little as starts the kernel (Raspberry Pi documentation, config.txt).
_LEAST_CONFIG = (
    "# As little as starts the kernel: the site file has no concern pi_boot.\n[all]\narm_64bit=1\nauto_initramfs=1\n"
)


@dataclass(frozen=True, slots=True)
class SeedFile:
    """A file of a node, whole. *owner* is user and group number."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """What a node gets from its site's operator. *host_key* is OpenSSH's private key file, *host_key_public* its public half.

    *authorized* are keys that may log in beside the site's administrators, *user_ca* an authority whose certificates may, beside the site's
    own. *root_ca* is PEM. *token* works once, at the authority of *root_ca*; None for a node that does not enrol itself.
    """

    host_key: bytes = field(repr=False)
    host_key_public: str
    authorized: tuple[str, ...]
    user_ca: str | None = None
    root_ca: bytes | None = None
    token: bytes | None = field(default=None, repr=False)


def node_of(plan: Plan, name: str) -> DevicePlan:
    """The Pi called *name*. Raises `ImageError` when there is none, with those that there are."""
    pis = [device for device in plan.devices if device.kind is DeviceKind.PI and not device.leaving]
    for device in pis:
        if device.name == name:
            return device
    known = ", ".join(device.name for device in pis) or "none"
    raise ImageError(f"{plan.site}: no Pi is called {name!r}; images are made for its Pis: {known}")


def identity(plan: Plan, device: DevicePlan, given: Given) -> tuple[SeedFile, ...]:
    """Every file that makes a machine started from the base image the node *device*, by path."""
    admins = tuple(administrators(plan, device.name))
    if not given.authorized and given.user_ca is None and not admins:
        raise ImageError(
            f"{device.name}: nobody could log in; state admins or authorities under access in the site file, or give a public key with"
            " --admin-key or an authority with --user-ca"
        )
    files = [
        SeedFile("/etc/hostname", f"{device.name}\n".encode()),
        SeedFile("/etc/hosts", hosts_file(plan).encode()),
        SeedFile(HOST_KEY_FILE, given.host_key, 0o600),
        SeedFile(f"{HOST_KEY_FILE}.pub", f"{given.host_key_public} {device.name}\n".encode()),
    ]
    for number, interface in enumerate(device.interfaces):
        if interface.addresses:
            path = f"/etc/systemd/network/{10 + number}-{interface.name}.network"
            text = network_file(interface.name, interface.addresses, gateways(plan, interface), interface.mtu)
            files.append(SeedFile(path, text.encode()))
    if servers := time_servers(plan, device.name):
        text = f"# Until the concern base brings chrony.\n[Time]\nNTP={' '.join(servers)}\n"
        files.append(SeedFile(TIME_FILE, text.encode()))
    if given.authorized:
        text = "".join(f"{line}\n" for line in given.authorized)
        files.append(SeedFile(f"/home/{USER}/.ssh/authorized_keys", text.encode(), 0o600, USER_ID))
    files += _access(plan, device.name, given, admins)
    if given.root_ca is not None:
        files.append(SeedFile(ROOT_CA_FILE, given.root_ca))
        if given.token is not None:
            brought = enrolment.files(plan, device.name, given.root_ca)
            files += [SeedFile(file.path, file.content.encode(), int(file.mode, 8)) for file in brought]
            files.append(SeedFile(SEED_TOKEN_FILE, given.token, 0o600))
    # name servers and package sources: without them the first converge installs nothing
    reaching = (file for file in planned_files(plan, device.name) if file.for_packages)
    files += [SeedFile(file.path, file.content.encode(), int(file.mode, 8)) for file in reaching]
    return tuple(sorted(files, key=lambda file: file.path))


def hosts_file(plan: Plan) -> str:
    """``/etc/hosts`` with every device of the plan that has an address."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [
        f"{device.primary_address.partition('/')[0]} {device.name}"
        for device in plan.devices
        if device.primary_address is not None
    ]
    return "\n".join(lines) + "\n"


def administrators(plan: Plan, node: str) -> Iterator[HostFile]:
    """The files of the plan that say who the site's administrators are: keys, authorities, what a certificate must be made out to."""
    paths = {ADMIN_KEYS_FILE, AUTHORITIES_FILE, PRINCIPALS_FILE}
    return (file for file in planned_files(plan, node) if file.path in paths)


def _access(plan: Plan, node: str, given: Given, admins: Sequence[HostFile]) -> Iterator[SeedFile]:
    """Who logs in as `USER` beside the keys that were given.

    The site's administrators do by the files of their own concern, so that who is taken out of the site file is out here too; the journal
    says that these files are the concern's.
    """
    contents = {file.path: file.content for file in admins}
    options = []
    if ADMIN_KEYS_FILE in contents:
        options.append(f"AuthorizedKeysFile .ssh/authorized_keys {ADMIN_KEYS_FILE}")
    if PRINCIPALS_FILE in contents:
        options.append(f"AuthorizedPrincipalsFile {PRINCIPALS_FILE}")
    if given.user_ca is not None:
        contents[AUTHORITIES_FILE] = f"{contents.get(AUTHORITIES_FILE, '')}{given.user_ca.strip()}\n"
    text = [f"TrustedUserCAKeys {AUTHORITIES_FILE}"] if AUTHORITIES_FILE in contents else []
    text += [f"Match User {USER}", *(f"  {option}" for option in options)] if options else []
    yield from (SeedFile(path, content.encode()) for path, content in contents.items())
    if text:
        yield SeedFile(SSHD_FILE, "".join(f"{line}\n" for line in text).encode())
    for concern in next(host for host in plan.hosts if host.name == node).concerns.values():
        if brought := [file for file in concern.files if file in admins]:
            yield SeedFile(str(journal_file(concern.name)), enrolment.journal(brought).to_json().encode(), 0o600)


def planned_files(plan: Plan, node: str) -> tuple[HostFile, ...]:
    """Every file that a concern of *node* plans."""
    host = next(host for host in plan.hosts if host.name == node)
    return tuple(file for concern in host.concerns.values() for file in concern.files)


def planned_text(plan: Plan, node: str, path: str) -> str | None:
    """The content of the file at *path* that a concern of *node* plans; None where none does."""
    return next((file.content for file in planned_files(plan, node) if file.path == path), None)


def time_servers(plan: Plan, node: str) -> tuple[str, ...]:
    """Whom the node asks for the time once it is converged; it must know it before, for no certificate can be judged without."""
    return named_servers(planned_text(plan, node, CHRONY_FILE) or "")


def gateways(plan: Plan, interface: InterfacePlan) -> tuple[str, ...]:
    """The routers of the network that *interface* is on, one a family; none of a network that is not routed."""
    if interface.untagged_vlan is None:
        return ()
    networks = [ipaddress.ip_interface(address).network for address in interface.addresses]
    return tuple(
        prefix.gateway
        for prefix in plan.vlan(interface.untagged_vlan).prefixes
        if prefix.gateway is not None and ipaddress.ip_network(prefix.prefix) in networks
    )


# --- the boot partition -----------------------------------------------------------------------------------------------


def config_txt(plan: Plan, node: str) -> str:
    """The node's config.txt: what the concern `pi_boot` plans."""
    return planned_text(plan, node, CONFIG_FILE) or _LEAST_CONFIG


def command_line(plan: Plan, node: str, root: str) -> str:
    """The node's cmdline.txt: how to find the root partition (PARTUUID *root*), a console, and what the concerns plan."""
    host = next(host for host in plan.hosts if host.name == node)
    arguments = [
        # Raspberry Pi documentation, cmdline.txt: the debug header's serial port, then the screen
        "console=serial0,115200",
        "console=tty1",
        f"root=PARTUUID={root}",
        "rootfstype=ext4",
        "fsck.repair=yes",
        "rootwait",
        # systemd.net-naming-scheme(7): the plan calls a Pi's port as the kernel does
        "net.ifnames=0",
    ]
    for concern in host.concerns.values():
        arguments += [argument.argument for argument in concern.kernel_arguments if argument.file == PI_COMMAND_LINE]
    return " ".join(dict.fromkeys(arguments)) + "\n"


# --- the seed ---------------------------------------------------------------------------------------------------------


def seed_files(plan: Plan, node: str, files: Sequence[SeedFile], epoch: int) -> dict[str, bytes]:
    """The two files of the seed partition. The same identity gives the same bytes; every time in them is *epoch*."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in files:
            entry = tarfile.TarInfo(file.path.lstrip("/"))
            entry.size, entry.mode, entry.mtime = len(file.content), file.mode, epoch
            entry.uid = entry.gid = file.owner
            tar.addfile(entry, io.BytesIO(file.content))
    archive = stream.getvalue()
    stated: dict[str, object] = {
        "format": 1,
        "site": plan.site,
        "node": node,
        "sha256": hashlib.sha256(archive).hexdigest(),
    }
    if any(file.path == SEED_TOKEN_FILE for file in files):
        stated["units"] = enrolment.units(plan, node)
    return {"identity.tar": archive, "identity.json": (json.dumps(stated, indent=1, sort_keys=True) + "\n").encode()}
