"""What a host must be: concerns, and the things that they consist of."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from pinion.plan.model.base import Planned
from pinion.plan.model.devices import DeviceKind
from pinion.site.catalog import Evidence


class HostUser(Planned):
    """A system or login user; nobody has a password. *groups* are the further groups that it must be in.

    *create_home* makes *home*, owned by the user, mode 0700. Keys and sudo rights are files of the concern.
    """

    name: str
    system: bool
    comment: str
    home: str
    create_home: bool
    shell: str
    groups: tuple[str, ...] = ()


class HostDirectory(Planned):
    """A folder with its owner and *mode* (octal text). What is in it is nobody's concern here; taken back only when it is empty."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0755"


class HostMaterial(Planned):
    """What only the operator's machine has, or makes for this one run: *placeholder* in a file's content gives way to it in the request.

    *kind* says what: of the authority of *site* its root certificate, that one's SHA-256, the intermediate with its key, the provisioners
    for hosts with the subjects *names*, the name of the one for the host with the subject *issuer* (unstated: the operator's), or a
    one-time token of that one for a certificate with *names* from the authority at the URL *authority*. Of the
    cluster whose API server is at the URL *authority*: the certificate of its authority, or a token for the node *names* to join with. The
    latter leaves something in the cluster, and is made only for a host that says that it needs it.
    """

    placeholder: str
    kind: Literal[
        "root",
        "fingerprint",
        "intermediate",
        "intermediate-key",
        "provisioners",
        "issuer",
        "token",
        "cluster-authority",
        "cluster-token",
    ]
    site: str
    authority: str = ""
    names: tuple[str, ...] = ()
    issuer: str = ""


class HostApproval(Planned):
    """A certificate that the host asks its cluster for and nobody in there judges, so the operator's machine does: at the API server
    *server*, the kubelet of *node* may serve under that name and at *addresses*, and as nothing else.

    *asks* is a read-only shell command: while it succeeds, the host waits for an answer.
    """

    server: str
    node: str
    addresses: tuple[str, ...]
    asks: str


class HostFile(Planned):
    """A file with its whole content. *mode* is octal text (``0644``).

    When it changes, the units in *notify* are reloaded and those in *restart* restarted, if they run.
    *validate_command* is a shell command with ``%s`` for the candidate file, which must succeed before the file is put in place.
    *run* are shell commands that make the change count (``update-grub``), each once after all files are placed; they may run again.
    *confirm* marks a file that could lock us out: after the reload a fresh login must succeed, or the host puts the old file back.
    *needs_reboot* marks one that is read at boot only: the host then says that it needs a reboot, until it had one.
    *secret* keeps the content out of diffs, logs and journals. *evidence* caps what its check can claim.
    *materials* are what the operator's machine puts into the content. *unless* is a read-only shell command: while it succeeds, the file
    is neither placed nor looked at, for the host has what the file is good for (a one-time token, and the certificate that it brings); it
    has materials as the content has, or nothing in their place where the operator's machine has not made them.
    *for_packages* marks what the package system reads, a pin or a source: it is placed, and its *run* has run, before any package comes.
    It reloads and restarts nothing.
    """

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0644"
    content: str
    notify: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    validate_command: str | None = None
    confirm: bool = False
    needs_reboot: bool = False
    secret: bool = False
    materials: tuple[HostMaterial, ...] = ()
    unless: str | None = None
    for_packages: bool = False
    evidence: Evidence | None = None

    @model_validator(mode="after")
    def _nothing_restarts_before_packages(self) -> Self:
        # A check could not foretell it: whether the unit runs is known when packages have come.
        if self.for_packages and (self.notify or self.restart):
            raise ValueError(f"{self.path} is for packages and restarts {', '.join((*self.notify, *self.restart))}")
        return self


class HostSysctl(Planned):
    """A kernel parameter. *source* says where the value comes from; *namespaced* whether a network namespace has its own.

    *live* false means that the host cannot show or set it (a container): it is in the sysctl file, and nothing more is claimed.
    """

    key: str
    value: str
    source: str
    namespaced: bool
    live: bool


class HostKernelArgument(Planned):
    """An argument on the kernel command line, in the one line of *file*; another value of the same key gives way to it.

    The host says that it needs a reboot until the running kernel has it. *live* false means that the host has no kernel of its own (a
    container): the argument is in the file, and nothing more is claimed.
    """

    argument: str
    source: str
    file: str
    live: bool = True


class HostModule(Planned):
    """A kernel module that is loaded at boot and, where *live*, at once. Its options are a file in /etc/modprobe.d."""

    name: str
    source: str
    live: bool = True


class HostUnit(Planned):
    """A systemd unit (service, timer, mount …) and the state that it must be in. A *masked* one is neither enabled nor active.

    *evidence* caps what its check can claim. *after_boot* as for `HostClaim`: while the host waits for a boot because of one of these,
    the unit is enabled and neither started nor stopped.
    """

    name: str
    enabled: bool
    active: bool
    masked: bool = False
    evidence: Evidence | None = None
    after_boot: tuple[str, ...] = ()


#: Seconds after which a claim's command is cut off: what only reads answers at once, and a few tries at a service that is starting fit in.
CLAIM_SECONDS = 60.0


class HostClaim(Planned):
    """Something that must be true of the host as a whole, beyond what its parts say.

    *command* is read-only POSIX shell, run as root; its trimmed output must be *expected*. *name* is unique within the concern.
    *evidence* caps what the check can claim: what a container only holds as text is `rendered` or `parsed` there. *after_boot* are the
    things (`Concern.boot_reasons`) that count from the next boot on and that it hangs on: while the host waits for a boot because of one
    of them, it need not hold yet. *settles* marks one that a run sets going and does not wait for: until it holds, *command* says how far
    it has come. *command* is cut off after *seconds*.
    """

    name: str
    claim: str
    command: str
    expected: str
    evidence: Evidence | None = None
    after_boot: tuple[str, ...] = ()
    settles: bool = False
    seconds: float = CLAIM_SECONDS


class Concern(Planned):
    """One concern of a host, whole: a role and a deploy of the same name consume the same entry.

    Applied in this order: files *for_packages*, packages, users, directories, files (all validated before the first is placed), kernel
    arguments, the files' *run*, modules, sysctls, units, restarts and reloads. *packages_absent* must not be installed. Of
    *packages_need_reboot*, which are among *packages*, the host says when they come that it needs a reboot, until it had one. *files* are
    written by rename. *sysctls* are also in one of *files*, for the next boot. *approval* is given when all that is done.
    """

    name: str
    packages: tuple[str, ...] = ()
    packages_absent: tuple[str, ...] = ()
    packages_need_reboot: tuple[str, ...] = ()
    users: tuple[HostUser, ...] = ()
    directories: tuple[HostDirectory, ...] = ()
    files: tuple[HostFile, ...] = ()
    kernel_arguments: tuple[HostKernelArgument, ...] = ()
    modules: tuple[HostModule, ...] = ()
    sysctls: tuple[HostSysctl, ...] = ()
    units: tuple[HostUnit, ...] = ()
    approval: HostApproval | None = None
    claims: tuple[HostClaim, ...] = ()

    @property
    def boot_reasons(self) -> tuple[str, ...]:
        """What of it counts from the next boot on, in the words with which the host says what it waits for."""
        files = (file.path for file in self.files if file.needs_reboot)
        lines = (argument.file for argument in self.kernel_arguments)
        return (*files, *dict.fromkeys(lines), *map(package_reason, self.packages_need_reboot))


def package_reason(name: str) -> str:
    """How a host says that it waits for a boot because of the package *name*."""
    return f"package {name}"


class HostPlan(Planned):
    """What one host must be. *address* is where SSH reaches it (no mask); *groups* are its inventory groups."""

    name: str
    kind: DeviceKind
    address: str
    user: str
    groups: tuple[str, ...]
    concerns: dict[str, Concern]
    evidence: Evidence
    origin: str
