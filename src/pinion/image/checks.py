"""What must be true of a node that was started from its image and nothing more: its identity, and those claims of the plan that the
image itself keeps, as the same probes that `pinion verify` sends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from ipaddress import ip_interface

from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, HostProbe, Topic
from pinion.image.identity import ADMIN_KEYS_FILE, CONFIG_FILE, HOST_KEY_FILE, PRINCIPALS_FILE, Given, gateways
from pinion.image.layout import ROOT, SEED, Layout
from pinion.image.recipe import USER, USER_ID
from pinion.image.vm import primary
from pinion.plan.concerns.base import NAMES_FILE
from pinion.plan.concerns.identity import NAME, ROOT_CA_FILE, SEED_TOKEN_FILE, SERVICE
from pinion.plan.model import DevicePlan, Plan
from pinion.plan.package_sources import FOLDER as SOURCES_FOLDER
from pinion.plan.package_sources import KEYS_FOLDER
from pinion.plan.programs import program_path
from pinion.site.catalog import Evidence

#: Files of concerns that the seed brings as the plan has them: archives, their keys, administrators.
_BROUGHT = (f"{SOURCES_FOLDER}/", f"{KEYS_FOLDER}/", ADMIN_KEYS_FILE, PRINCIPALS_FILE)
#: Key, claim, expected, command, whether root is needed.
_Claim = tuple[str, str, str, str, bool]


def image_checks(plan: Plan, device: DevicePlan, given: Given, identity: str, disk: Layout) -> tuple[Check, ...]:
    """The checks of *device* before it is converged: its own, then the plan's. None claims more than `emulated`."""
    own = [
        Check(
            id=f"image.{device.name}.{key}",
            topic=Topic.HOSTS,
            subject=device.name,
            claim=claim,
            expected=expected,
            probe=HostProbe(host=device.name, command=command, sudo=sudo),
            remedy=f"run `pinion image build {plan.site} --node {device.name}`; `journalctl -u pinion-first-boot` on the node says more",
            origin=device.origin,
            best=Evidence.EMULATED,
        )
        for key, claim, expected, command, sudo in _claims(plan, device, given, identity, disk)
    ]
    of_plan = (check for check in host_checks(plan) if check.subject == device.name)
    enrols = given.token is not None
    return (*own, *(_capped(check) for check in of_plan if applies(check) or (enrols and _brought(check))))


def applies(check: Check) -> bool:
    """Whether a check of a host's concern holds before the first converge: what the image puts on the boot partition, and the name."""
    part = check.id.removeprefix(f"host.{check.subject}.")
    concern_name, _, rest = part.partition(".")
    if rest.startswith("argument.") or rest.removeprefix("file.").startswith(_BROUGHT):
        return True
    if concern_name == "base":
        return rest in {"claim.hostname", "file./etc/hostname", f"file.{NAMES_FILE}", "sysctl.kernel.hostname"}
    return concern_name == "pi_boot" and (rest.startswith("claim.c") or rest == f"file.{CONFIG_FILE}")


def _brought(check: Check) -> bool:
    """Whether a check is about what the image brings for enrolment: program, configuration, service, and the timer at work."""
    return check.id.startswith(tuple(f"host.{check.subject}.{NAME}.{kind}." for kind in ("file", "unit", "package")))


def _capped(check: Check) -> Check:
    """No claim from an emulated machine is worth more than that; of config.txt there is only the text, for nothing reads it there."""
    best = Evidence.EMULATED
    if CONFIG_FILE in check.id:
        best = Evidence.RENDERED
    elif ".claim.config." in check.id:
        best = Evidence.PARSED
    order = list(Evidence)
    return check.model_copy(update={"best": min(check.best, best, key=order.index)})


def _claims(plan: Plan, device: DevicePlan, given: Given, identity: str, disk: Layout) -> Iterator[_Claim]:
    yield "hostname", "the node calls itself", device.name, "cat /proc/sys/kernel/hostname", False
    interface = primary(device)
    addresses = " ".join(sorted(interface.addresses))
    shown = f"ip -o addr show dev {interface.name} scope global | awk '{{print $4}}' | LC_ALL=C sort | paste -sd ' '"
    yield "addresses", f"{interface.name} has the addresses", addresses, shown, False
    for gateway in gateways(plan, interface):
        version = ip_interface(gateway).version
        found = f"ip -{version} route show default | sed -n 's/^default via \\([^ ]*\\).*/\\1/p'"
        yield f"gateway.{version}", f"its IPv{version} router is", gateway, found, False
    yield from _ssh(given)
    yield (
        "user",
        f"user {USER} is",
        f"{USER_ID}:/home/{USER}:/bin/bash",
        f"getent passwd {USER} | cut -d: -f3,6,7",
        False,
    )
    yield "passwords", "accounts with a password", "0", "getent shadow | cut -d: -f2 | grep -cv '^[*!]'", True
    yield "sudo", f"{USER} becomes", "root", "id -un", True
    if given.root_ca is not None:
        digest = hashlib.sha256(given.root_ca).hexdigest()
        yield (
            "root-ca.file",
            "the site's root certificate is",
            digest,
            f"sha256sum <{ROOT_CA_FILE} | cut -c 1-64",
            False,
        )
        trusted = (
            f"openssl verify -no-CApath -CAfile /etc/ssl/certs/ca-certificates.crt {ROOT_CA_FILE} | sed 's/^.*: //'"
        )
        yield "root-ca.trusted", "programs of the node trust the site's root", "OK", trusted, False
    if given.token is not None:
        # a trial reaches no authority, a node in its rack does
        owned = f"test \"$(stat -c '%U:%G %a' {SEED_TOKEN_FILE})\" = 'root:root 600'"
        command = f"if test -e {SEED_TOKEN_FILE}; then {owned}; else {program_path(NAME)} good >/dev/null; fi && echo yes || echo no"
        yield "token", "the enrolment token is there for root alone, or has brought a certificate", "yes", command, True
    yield "identity", "the identity that was placed is", identity, _noted(), False
    seed = f"/dev/disk/by-partuuid/{disk.partuuid(SEED)}"
    # the token's name is in the tar before the token
    left = f"test -b {seed} && grep -a -c -e 'PRIVATE KEY' -e '{SEED_TOKEN_FILE.lstrip('/')}' {seed}"
    yield "seed.wiped", "lines with a private key or a token left on the seed partition", "0", left, True
    yield "root.grown", "the root reaches the end of the card", "yes", _grown(disk), False
    # it asks the authority until it has a certificate, and says that it has none: no fault of the image
    failed = f"systemctl --failed --no-legend --plain | grep -cv '^{SERVICE} '"
    yield "units", "units that failed", "0", failed, False


def _ssh(given: Given) -> Iterator[_Claim]:
    public = " ".join(given.host_key_public.split()[:2])
    derived = f"ssh-keygen -y -f {HOST_KEY_FILE} | cut -d ' ' -f 1,2"
    yield "host-key", "its SSH host key is", public, derived, True
    yield "host-key.mode", "its SSH host key belongs to", "root:root 600", f"stat -c '%U:%G %a' {HOST_KEY_FILE}", True
    yield "host-keys", "SSH host keys that it has", "1", "ls /etc/ssh/ssh_host_*_key | wc -l", False
    lines = "".join(f"{line}\n" for line in given.authorized)
    if lines:
        path = f"/home/{USER}/.ssh/authorized_keys"
        expected = f"{USER}:{USER} 600 {hashlib.sha256(lines.encode()).hexdigest()}"
        command = f'echo "$(stat -c "%U:%G %a" {path}) $(sha256sum <{path} | cut -c 1-64)"'
        yield "authorized-keys", f"keys that log in as {USER} are", expected, command, True
    yield "password-login", "sshd takes passwords:", "no", "sshd -T | sed -n 's/^passwordauthentication //p'", True


def _noted() -> str:
    return 'python3 -c \'import json; print(json.load(open("/var/lib/pinion/identity.json"))["sha256"])\''


def _grown(disk: Layout) -> str:
    """Whether less than 2 MiB of the disk lie behind the root, and the file system fills the partition."""
    lines = [
        f"p=$(basename $(readlink -f /dev/disk/by-partuuid/{disk.partuuid(ROOT)}))",
        "d=$(basename $(dirname $(readlink -f /sys/class/block/$p)))",
        "s=$(cat /sys/class/block/$p/size)",
        "left=$(( $(cat /sys/class/block/$d/size) - $(cat /sys/class/block/$p/start) - s ))",
        "fs=$(stat -f -c '%b * %S / 512' /)",
        # stat counts without the file system's own tables: an eighth is more than those ever take
        '[ "$left" -lt 4096 ] && [ $(( $fs * 8 / 7 )) -ge "$s" ] && echo yes || echo "no: $left sectors left, $(( $fs )) of $s used"',
    ]
    return "; ".join(lines)
