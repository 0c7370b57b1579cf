"""How a kubeconfig is stated: as its path, or, which Pulumi takes too, as its text. Imports nothing, so that who only asks stays quick."""

from __future__ import annotations


def is_text(kubeconfig: str) -> bool:
    """Whether this is a kubeconfig itself (YAML or JSON), and not the path of one."""
    return "\n" in kubeconfig.strip() or kubeconfig.lstrip().startswith("{")
