"""The concern `access`: who may log in and how, for every host: administrators, their keys and certificates, a hardened SSH server.

Who the administrators are is stated in the section `access` of the site file, and the concern has no settings beside it.
"""

from __future__ import annotations

import base64
import hashlib

from pinion.plan.context import HostContext
from pinion.plan.model import Concern, HostClaim, HostFile, HostUnit, HostUser
from pinion.site.model import Access

NAME = "access"
#: sshd takes the first value that it reads, and Debian's sshd_config reads this folder first.
SSHD_FILE = "/etc/ssh/sshd_config.d/10-pinion.conf"
#: Administrators' keys lie where only root writes, so that a stolen session cannot add one.
KEYS_FOLDER = "/etc/ssh/authorized_keys.d"
#: Authorities whose certificates count, and for whom a certificate must be made out, one file a user.
AUTHORITIES_FILE = "/etc/ssh/pinion-user-ca.pub"
PRINCIPALS_FOLDER = "/etc/ssh/auth_principals.d"
ADMIN_USER = "ops"

#: sshd_config(5). Keyword, value, and the source of the choice.
_SSHD = (
    ("PermitRootLogin", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("PasswordAuthentication", "no", "keys only: a site has no passwords"),
    ("KbdInteractiveAuthentication", "no", "keys only: PAM would ask for a password here"),
    ("PermitEmptyPasswords", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("X11Forwarding", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("AllowAgentForwarding", "no", "an agent forwarded to a host can be used by its root"),
    ("LoginGraceTime", "30", "CIS Debian Linux 12 Benchmark 5.1 asks for 60 seconds or less"),
    ("ClientAliveInterval", "60", "with the next: a dead session ends after three minutes"),
    ("ClientAliveCountMax", "3", "sshd_config(5), its default"),
    ("LogLevel", "VERBOSE", "the journal then says which key logged in"),
    (
        "AuthorizedKeysFile",
        f".ssh/authorized_keys {KEYS_FOLDER}/%u",
        "the image's own key; administrators have a place of their own below",
    ),
)
#: For administrators alone, after all else: a key that one of them has put into a home opens nothing once he has left the site file.
_SSHD_ADMINISTRATORS = (
    ("AuthorizedKeysFile", f"{KEYS_FOLDER}/%u", "the site file's keys open the account, and none of its home"),
    ("AuthorizedKeysCommand", "none", "nor those of a program"),
)
#: Where the site has an authority.
_SSHD_AUTHORITY = (
    (
        "TrustedUserCAKeys",
        AUTHORITIES_FILE,
        "sshd_config(5): a certificate that one of these keys signed is as good as a key",
    ),
    (
        "AuthorizedPrincipalsFile",
        f"{PRINCIPALS_FOLDER}/%u",
        "sshd_config(5): what a certificate must be made out to; a user without a file takes none",
    ),
)
#: The candidate is judged as part of the whole configuration, in the place where sshd will read it: first.
_SSHD_VALIDATE = "cat %s /etc/ssh/sshd_config | /usr/sbin/sshd -t -f /dev/stdin"
#: What the running server must say of itself (sshd -T prints keywords in lower case).
_SSHD_CLAIMED = ("permitrootlogin", "passwordauthentication", "kbdinteractiveauthentication", "x11forwarding")


def access(host: HostContext) -> Concern:
    """The concern for *host*: every host has it."""
    stated = host.site.access
    return Concern(
        name=NAME,
        users=_administrators(stated),
        files=(*_admin_files(stated), _sshd_file(stated)),
        units=(HostUnit(name="ssh.service", enabled=True, active=True),),
        claims=_claims(stated),
    )


def _administrators(stated: Access) -> tuple[HostUser, ...]:
    if not stated.admins and not stated.authorities:
        return ()
    ops = HostUser(
        name=ADMIN_USER,
        system=False,
        comment="Site administrators",
        home=f"/home/{ADMIN_USER}",
        create_home=True,
        shell="/bin/bash",
        groups=("adm", "systemd-journal"),
    )
    return (ops,)


def _admin_files(stated: Access) -> tuple[HostFile, ...]:
    listed = []
    if stated.admins:
        listed.append((f"{KEYS_FOLDER}/{ADMIN_USER}", stated.admins))
    if stated.authorities:
        listed += [(AUTHORITIES_FILE, stated.authorities), (f"{PRINCIPALS_FOLDER}/{ADMIN_USER}", stated.principals)]
    if not listed:
        return ()
    rights = HostFile(
        path=f"/etc/sudoers.d/60-pinion-{ADMIN_USER}",
        mode="0440",
        content=f"{ADMIN_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
        validate_command="/usr/sbin/visudo -cf %s",
    )
    return (*(HostFile(path=path, content="".join(f"{line}\n" for line in lines)) for path, lines in listed), rights)


def _sshd(stated: Access) -> tuple[tuple[str, str, str], ...]:
    """sshd's keywords, values and sources on a host of a site with *stated*."""
    return (*_SSHD, *_SSHD_AUTHORITY) if stated.authorities else _SSHD


def _sshd_file(stated: Access) -> HostFile:
    lines = ["# Kept by Pinion (concern access); changes made here are undone by the next run."]
    for keyword, value, source in _sshd(stated):
        lines += [f"# {source}", f"{keyword} {value}"]
    if _administrators(stated):
        lines.append(f"Match User {ADMIN_USER}")
        for keyword, value, source in _SSHD_ADMINISTRATORS:
            lines += [f"  # {source}", f"  {keyword} {value}"]
        # what is read after this file is for everybody again
        lines.append("Match all")
    return HostFile(
        path=SSHD_FILE,
        mode="0600",
        content="\n".join(lines) + "\n",
        notify=("ssh.service",),
        validate_command=_SSHD_VALIDATE,
        confirm=True,
    )


def _claims(stated: Access) -> tuple[HostClaim, ...]:
    configured = {keyword.lower(): value for keyword, value, _ in _sshd(stated)}
    claimed = (*_SSHD_CLAIMED, "trustedusercakeys") if stated.authorities else _SSHD_CLAIMED
    effective = [
        HostClaim(
            name=f"sshd.{keyword}",
            claim=f"sshd's effective {keyword} is",
            command=f"/usr/sbin/sshd -T 2>/dev/null | sed -n 's/^{keyword} //p'",
            expected=configured[keyword],
        )
        for keyword in claimed
    ]
    offered = (
        "ssh -o BatchMode=yes -o PreferredAuthentications=none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        " -o LogLevel=ERROR nobody@127.0.0.1 2>&1 | sed -n 's/.*Permission denied (\\(.*\\)).*/\\1/p'"
    )
    running = HostClaim(
        name="sshd.offered", claim="the running sshd offers these ways to log in", command=offered, expected="publickey"
    )
    return (*effective, running, *_administrator_claims(stated))


def _administrator_claims(stated: Access) -> tuple[HostClaim, ...]:
    """That the keys of the site file, and no others, open an administrator's account."""
    if not _administrators(stated):
        return ()
    asked = f"/usr/sbin/sshd -T -C user={ADMIN_USER},host=localhost,addr=127.0.0.1 2>/dev/null"
    found = [
        HostClaim(
            name=f"administrators.{keyword.lower()}",
            claim=f"for administrators sshd's effective {keyword.lower()} is",
            command=f"{asked} | sed -n 's/^{keyword.lower()} //p'",
            expected=value,
        )
        for keyword, value, _ in _SSHD_ADMINISTRATORS
    ]
    fingerprints = sorted(fingerprint(key) for key in stated.admins)
    keys = HostClaim(
        name="administrators.keys",
        claim="the keys that open an administrator's account are",
        command=(
            f"ssh-keygen -lf {KEYS_FOLDER}/{ADMIN_USER} 2>/dev/null | cut -d' ' -f2 | LC_ALL=C sort | paste -sd ' ' | grep . || echo none"
        ),
        expected=" ".join(fingerprints) or "none",
    )
    return (*found, keys)


def fingerprint(key: str) -> str:
    """The fingerprint of a public *key* in OpenSSH's form, as ssh-keygen(1) prints it: SHA-256, base64 without padding."""
    blob = base64.b64decode(key.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
