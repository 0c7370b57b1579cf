"""The Plan: everything that follows from a Site, typed, frozen, ordered and serialisable.

Invariants:

* Pure data: addresses and prefixes are text in their canonical form, so the JSON is the same bytes on any machine.
* Every collection is a tuple in a defined order (natural order of names, or the order of the site file where that has meaning).
* Executors obey: whatever a template, role, deploy or resource needs to know is a field here.
* `origin` names the key of the site file that an object follows from (``pis.pi 3``), so that drift is told in the user's words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pinion.site.catalog import Evidence
from pinion.site.model import Delivery, Purpose


class Planned(BaseModel):
    """Base of everything in a plan: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- networks ---------------------------------------------------------------------------------------------------------


class RangePlan(Planned):
    """An inclusive span of host addresses. *prefix* is the prefix (by text) that contains it; *dhcp* tells who hands it out."""

    name: str
    start: str
    end: str
    prefix: str
    dhcp: bool = False


class PrefixPlan(Planned):
    """One prefix of a VLAN. *gateway* is the router's address without mask, or None when the prefix is not routed."""

    prefix: str
    family: Literal[4, 6]
    gateway: str | None


class VlanPlan(Planned):
    """One VLAN. *fabric* is false for out-of-band networks, which no fabric port carries. *mtu* is the layer-3 MTU of its hosts."""

    name: str
    vid: int
    purpose: Purpose
    description: str
    mtu: int
    fabric: bool
    prefixes: tuple[PrefixPlan, ...]
    ranges: tuple[RangePlan, ...]
    origin: str


# --- devices and cables -----------------------------------------------------------------------------------------------


class DeviceKind(StrEnum):
    """What a device is to the site. Also the slug of its NetBox device role."""

    SWITCH = "switch"
    MANAGEMENT_HOST = "management-host"
    PI = "pi"
    GPU_SERVER = "gpu-server"


class DeviceStatus(StrEnum):
    """Whether a device serves the site. NetBox's own words for it."""

    ACTIVE = "active"
    DECOMMISSIONING = "decommissioning"  #: stated as leaving: recorded, its ports shut, and nothing else


class PortMode(StrEnum):
    """IEEE 802.1Q mode of a port."""

    ACCESS = "access"
    TRUNK = "trunk"


class CableEnd(Planned):
    """The far end of a cable."""

    device: str
    interface: str


class InterfacePlan(Planned):
    """One interface of a device.

    *type* is NetBox's slug. *addresses* carry their mask (``10.0.0.1/24``). *untagged_vlan* and *tagged_vlans* are VLAN names.
    *cable* is set on both ends; the end with *owns_cable* is the one whose device creates it.
    """

    name: str
    type: str
    enabled: bool = True
    management_only: bool = False
    mac: str | None = None
    mtu: int | None = None
    description: str = ""
    mode: PortMode | None = None
    untagged_vlan: str | None = None
    tagged_vlans: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    cable: CableEnd | None = None
    owns_cable: bool = False


class DeviceTypePlan(Planned):
    """One model of hardware that the site uses. *slug* is NetBox's natural key within a manufacturer."""

    manufacturer: str
    model: str
    slug: str
    units: int


class DevicePlan(Planned):
    """One device with its interfaces, addresses and cables as one unit.

    *position* is the lowest rack unit that it fills, None when it is not mounted by unit. *primary_address* carries its mask.
    """

    name: str
    kind: DeviceKind
    device_type: str
    platform: str
    rack: str
    position: int | None
    serial: str
    description: str
    interfaces: tuple[InterfacePlan, ...]
    primary_address: str | None
    lab: bool
    status: DeviceStatus = DeviceStatus.ACTIVE
    origin: str

    @property
    def leaving(self) -> bool:
        """Whether the site file states it under `decommissioned`."""
        return self.status is DeviceStatus.DECOMMISSIONING

    def interface(self, name: str) -> InterfacePlan:
        """The interface called *name*; `KeyError` when there is none."""
        for interface in self.interfaces:
            if interface.name == name:
                return interface
        raise KeyError(name)


class RackPlan(Planned):
    """One rack and its height in units."""

    name: str
    units: int
    description: str
    origin: str


class PlatformPlan(Planned):
    """An operating system that some device runs. *slug* is the catalogue's key."""

    slug: str
    name: str
    evidence: Evidence


# --- switches ---------------------------------------------------------------------------------------------------------


class SwitchVlan(Planned):
    """A VLAN as a switch holds it."""

    vid: int
    name: str


class SwitchPort(Planned):
    """One front port. A port without a peer is shut, and so is that of a node that leaves.

    *access_vlan* and *trunk_vlans* are VLAN identifiers.
    """

    name: str
    description: str
    enabled: bool
    mode: PortMode | None
    access_vlan: int | None = None
    trunk_vlans: tuple[int, ...] = ()
    mtu: int | None = None
    origin: str


class Svi(Planned):
    """A routed VLAN interface. *address* carries its mask; *virtual* means that a pair of switches shares it (anycast gateway)."""

    vid: int
    address: str
    virtual: bool
    mtu: int


class SwitchPlan(Planned):
    """What one ToR switch must hold. *management_interface* is never configured by us.

    *management_address* carries its mask; *management_port* is the SSH port.
    """

    name: str
    platform: str
    driver: Literal["eos"]
    model: str
    management_interface: str
    management_address: str
    management_port: int = 22
    vlans: tuple[SwitchVlan, ...]
    ports: tuple[SwitchPort, ...]
    svis: tuple[Svi, ...]
    evidence: Evidence
    origin: str


# --- flows ------------------------------------------------------------------------------------------------------------


class FlowPlan(Planned):
    """Who opens connections to whom, on which ports. What no flow names is refused; answers belong to the flow.

    *peers* says in words who they are; *sources* are their addresses, each a prefix, an address or a span (``10.0.0.1-10.0.0.8``).
    They talk to all devices of *kinds*, and to those in *hosts*: names of devices or of groups of Pis.
    """

    name: str
    peers: str
    sources: tuple[str, ...]
    kinds: tuple[DeviceKind, ...] = ()
    hosts: tuple[str, ...] = ()
    protocol: Literal["tcp", "udp"]
    ports: tuple[int, ...]
    why: str
    origin: str


# --- hosts ------------------------------------------------------------------------------------------------------------


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

    *kind* says what: of the authority of *site* its root certificate, that one's SHA-256, the intermediate with its key, the public key
    that tokens are checked with, or a one-time token for a certificate with *names* from the authority at the URL *authority*. Of the
    cluster whose API server is at the URL *authority*: the certificate of its authority, or a token for the node *names* to join with. The
    latter leaves something in the cluster, and is made only for a host that says that it needs it.
    """

    placeholder: str
    kind: Literal[
        "root",
        "fingerprint",
        "intermediate",
        "intermediate-key",
        "provisioner",
        "token",
        "cluster-authority",
        "cluster-token",
    ]
    site: str
    authority: str = ""
    names: tuple[str, ...] = ()


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
    is neither placed nor looked at, for the host has what the file is good for (a one-time token, and the certificate that it brings).
    *for_packages* marks what the package system reads, a pin or a source: it is placed, and its *run* has run, before any package comes.
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


# --- cluster ----------------------------------------------------------------------------------------------------------


class Taint(Planned):
    """A Kubernetes taint."""

    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodePlan(Planned):
    """One Kubernetes node: *address* is the kubelet's node address (no mask)."""

    name: str
    kind: DeviceKind
    address: str
    labels: dict[str, str]
    taints: tuple[Taint, ...] = ()
    origin: str


class NamespacePlan(Planned):
    """A namespace with a ServiceAccount for its workloads and a NetworkPolicy that denies all traffic that no other policy allows."""

    name: str
    service_account: str
    default_deny: bool = True


class ReleasePlan(Planned):
    """One Helm release. *chart* is a folder of `charts/`; *values* its values, complete. *port* answers HTTP at *probe_path*."""

    name: str
    namespace: str
    chart: str
    values: dict[str, object]
    port: int
    probe_path: str
    origin: str


class ClusterPlan(Planned):
    """The site's Kubernetes cluster. *server* is the API server's URL."""

    server: str
    control_plane: str
    pod_prefix: str
    service_prefix: str
    nodes: tuple[NodePlan, ...]
    namespaces: tuple[NamespacePlan, ...]
    releases: tuple[ReleasePlan, ...]


# --- the whole --------------------------------------------------------------------------------------------------------


class TrafficClassPlan(Planned):
    """One traffic class, its share as a fraction of the link."""

    name: str
    share: float
    dscp: int
    delivery: Delivery


class RolloutPlan(Planned):
    """How a fleet run goes: *canary* hosts, then the share *second* of all (a fraction), then the rest.

    *limits* is the most hosts of an inventory group in one wave.
    """

    canary: int = 1
    second: float = 0.1
    limits: dict[str, int] = {}


class AuthorityPlan(Planned):
    """Who gives the hosts their certificates: step-ca at *url*, on *host* where the site runs it; for names in *domain* and *networks*."""

    url: str
    host: str | None
    domain: str
    networks: tuple[str, ...]


class Plan(Planned):
    """Everything that follows from one Site. *schema_version* is raised when the meaning or the shape of the JSON changes."""

    schema_version: Literal[1] = 1
    site: str
    region: str
    description: str
    racks: tuple[RackPlan, ...]
    vlans: tuple[VlanPlan, ...]
    traffic_classes: tuple[TrafficClassPlan, ...]
    device_types: tuple[DeviceTypePlan, ...]
    platforms: tuple[PlatformPlan, ...]
    devices: tuple[DevicePlan, ...]
    switches: tuple[SwitchPlan, ...]
    flows: tuple[FlowPlan, ...]
    hosts: tuple[HostPlan, ...]
    rollout: RolloutPlan = RolloutPlan()
    cluster: ClusterPlan | None
    authority: AuthorityPlan | None = None

    def vlan(self, name: str) -> VlanPlan:
        """The VLAN called *name*; `KeyError` when there is none."""
        for vlan in self.vlans:
            if vlan.name == name:
                return vlan
        raise KeyError(name)

    def device(self, name: str) -> DevicePlan:
        """The device called *name*; `KeyError` when there is none."""
        for device in self.devices:
            if device.name == name:
                return device
        raise KeyError(name)
