"""systemd units as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def command(program: str, flags: Mapping[str, str | None]) -> str:
    """A command line of *program* (words between blanks) with ``--name=value`` flags, one a line. None leaves the value out.

    `ValueError` for a character that systemd would take for something else.
    """
    words = [
        *program.split(),
        *(f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()),
    ]
    for word in words:
        if set(word) & set("%$\"'\\ \n"):
            raise ValueError(f"{word!r}: not a word that a unit can take unquoted")
    return " \\\n  ".join(words)


def service(
    description: str,
    start: str,
    *,
    after: Sequence[str] = (),
    requires: Sequence[str] = (),
    service: Sequence[str] = (),
) -> str:
    """A service that is always restarted after a second, and is told to the boot by ``WantedBy=multi-user.target``."""
    lines = [
        "[Unit]",
        f"Description={description}",
        f"After={' '.join(('network.target', *after))}",
        *([f"Requires={' '.join(requires)}"] if requires else []),
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        *service,
        f"ExecStart={start}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


#: Service lines of a program that runs until it is stopped.
KEPT_RUNNING = ("Restart=always", "RestartSec=1", "TimeoutStopSec=8", "OOMScoreAdjust=-200")

#: Service lines of a program that needs no privilege and writes nothing but its own data.
CONFINED = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectControlGroups=yes",
    "RestrictSUIDSGID=yes",
    "RestrictNamespaces=yes",
    "LockPersonality=yes",
)
