"""The concern `container_runtime`: containerd on GPU servers, with NVIDIA's runtime and devices by CDI."""

from __future__ import annotations

from pinion.plan.concerns.gpu_driver import PIN_FILE
from pinion.plan.context import HostContext
from pinion.plan.kubelet import CONTAINERD_MODULES, CRI, containerd_file, cri, network_plugins, runc
from pinion.plan.kubelet import CONTAINERD_UNIT as UNIT
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostUnit
from pinion.site.node_concerns import ContainerRuntime

NAME = "container_runtime"
#: Where NVIDIA's toolkit and others describe devices (Container Device Interface specification).
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
#: Of NVIDIA Container Toolkit 1.18 and later: writes the description anew when the driver or its devices change.
CDI_UNIT = "nvidia-cdi-refresh.path"


def container_runtime(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers with GPUs; a lab machine's containerd belongs to the lab's cluster."""
    settings = host.settings.container_runtime
    if settings is None or host.kind is not DeviceKind.GPU_SERVER or host.lab:
        return None
    return Concern(
        name=NAME,
        packages=("containerd", "nvidia-container-toolkit", "runc"),
        files=(containerd_file(NAME, configuration(settings)),),
        modules=CONTAINERD_MODULES,
        units=(
            HostUnit(name=UNIT, enabled=True, active=True),
            HostUnit(name=CDI_UNIT, enabled=True, active=True),
        ),
        claims=(
            HostClaim(
                name="runtimes",
                claim="containerd's runtimes are",
                command="containerd config dump | sed -n 's/^ *\\[plugins.*\\.containerd\\.runtimes\\.\\([a-z]*\\)\\]$/\\1/p' "
                "| sort | paste -sd ' '",
                expected="nvidia runc",
            ),
            HostClaim(
                name="devices",
                claim="all GPUs are described for containers as",
                command="nvidia-ctk cdi list 2>/dev/null | grep -x nvidia.com/gpu=all",
                expected="nvidia.com/gpu=all",
                after_boot=(PIN_FILE,) if host.settings.gpu_driver is not None else (),
            ),
        ),
    )


def configuration(settings: ContainerRuntime) -> list[str]:
    """The lines of containerd's configuration."""
    folders = ", ".join(f'"{folder}"' for folder in CDI_FOLDERS)
    return [
        *cri(settings.pause),
        "# containerd, docs/cri/config.md: devices by name (nvidia.com/gpu=0), described in these folders",
        "enable_cdi = true",
        f"cdi_spec_dirs = [{folders}]",
        "",
        *network_plugins(),
        "",
        f"[{CRI}.containerd]",
        "# a pod that wants no GPU has nothing to do with NVIDIA's runtime; those that do name the class, or their device by CDI",
        'default_runtime_name = "runc"',
        "",
        *runc(),
        "",
        "# NVIDIA Container Toolkit, installation guide",
        f"[{CRI}.containerd.runtimes.nvidia]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{CRI}.containerd.runtimes.nvidia.options]",
        'BinaryName = "/usr/bin/nvidia-container-runtime"',
        "SystemdCgroup = true",
    ]
