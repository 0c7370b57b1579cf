"""Users and groups, by the shadow programs."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

from .command import reason, run
from .machine import HostError, UserState
from .wanted import User

_SHADOW = Path("/etc/shadow")
_PASSWD = Path("/etc/passwd")
#: userdel(8), exit values.
_NO_SUCH_USER, _IN_USE = 6, 8


class Accounts:
    """Implements `machine.Accounts`. Nobody gets a password: ``*`` in shadow matches none and does not lock the account."""

    def read(self, user: User) -> UserState | None:
        try:
            entry = pwd.getpwnam(user.name)
        except KeyError:
            return None
        return UserState(
            comment=entry.pw_gecos,
            home=entry.pw_dir,
            shell=entry.pw_shell,
            groups=frozenset(group for group in user.groups if _is_member(user.name, entry.pw_gid, group)),
            home_exists=_owns(entry.pw_uid, entry.pw_dir),
            whole=_has_shadow(user.name) and _has_group(entry.pw_gid),
        )

    def put(self, user: User) -> None:
        details = ["-c", user.comment, "-d", user.home, "-s", user.shell]
        if not self.exists(user.name):
            own_group = ["-g", user.name] if _group_exists(user.name) else ["-U"]
            system = ["-r"] if user.system else []
            run(["useradd", *system, "-M", *own_group, "-p", "*", *details, user.name])
        else:
            run(["pwconv"])  # adds what a killed useradd left out of /etc/shadow
            entry = pwd.getpwnam(user.name)
            if not _has_group(entry.pw_gid):
                run(["groupadd", "-g", str(entry.pw_gid), user.name])
            current = (entry.pw_gecos, entry.pw_dir, entry.pw_shell)
            if current != (user.comment, user.home, user.shell):
                run(["usermod", *details, user.name])
        entry = pwd.getpwnam(user.name)
        for group in user.groups:
            if not _is_member(user.name, entry.pw_gid, group):
                run(["gpasswd", "-a", user.name, group])
        if user.create_home and not _owns(entry.pw_uid, user.home):
            _make_home(user.home, entry.pw_uid, entry.pw_gid)

    def remove(self, name: str) -> str | None:
        done = run(["userdel", name], check=False)
        if done.returncode == _IN_USE:
            return reason(done)
        if done.returncode not in {0, _NO_SUCH_USER}:
            raise HostError(f"userdel {name}: exit {done.returncode}: {reason(done)}")
        return None

    def exists(self, name: str) -> bool:
        # Not through NSS: a name that only a directory service knows is not ours to change.
        return any(line.startswith(f"{name}:") for line in _PASSWD.read_text(errors="surrogateescape").splitlines())


def _make_home(home: str, uid: int, gid: int) -> None:
    path = Path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    os.chown(path, uid, gid, follow_symlinks=False)


def _owns(uid: int, home: str) -> bool:
    path = Path(home)
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == uid


def _is_member(name: str, primary: int, group: str) -> bool:
    try:
        entry = grp.getgrnam(group)
    except KeyError:
        return False
    return name in entry.gr_mem or entry.gr_gid == primary


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _has_group(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True


def _has_shadow(name: str) -> bool:
    return any(line.startswith(f"{name}:") for line in _SHADOW.read_text(errors="surrogateescape").splitlines())
