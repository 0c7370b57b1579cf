"""Hailo's server hailo-ollama: where it reads its settings, where it keeps the models that it pulls, and what its unit says. Pure.

By its source (hailo-ai/hailo_model_zoo_genai 5.1.1, src/apps/server/main.cpp and src/library/utils/path.cpp): it reads the file of its own
name in a folder of its own name below $XDG_CONFIG_HOME, and keeps the models in the folder `blob` beside its manifests, which its package
has below /usr/share. Where it listens is in the file alone.
"""

from __future__ import annotations

import json

SETTINGS = "/etc/pinion/hailo-ollama/hailo-ollama.json"
STORE = "/var/lib/hailo-ollama"
#: It answers as soon as it serves, with or without a model (docs/USAGE.rst).
HEALTH = "/hailo/v1/list"
COMMAND = "/usr/bin/hailo-ollama"
_BLOBS = "/usr/share/hailo-ollama/models/blob"
#: Where models are pulled from, and how often it looks whether it is to end (ms): the vendor's own (config/hailo-ollama.json).
_LIBRARY, _POLL = {"host": "dev-public.hailo.ai", "port": 443}, 200


def settings(address: str, port: int) -> str:
    """The text of `SETTINGS`: it listens at *address* alone, and not everywhere as its package's own settings say."""
    told = {"server": {"host": address, "port": port}, "library": _LIBRARY, "main_poll_time_ms": _POLL}
    return json.dumps(told, indent=1) + "\n"


def service() -> list[str]:
    """What its unit says beside the command: its folders, and the chip's device and no other."""
    return [
        f"Environment=HOME=/nonexistent XDG_CONFIG_HOME={SETTINGS.rsplit('/', 2)[0]}",
        "# The one folder that it writes to lies among its package's files; what it pulls is kept apart from them.",
        f"BindPaths={STORE}:{_BLOBS}",
        "DevicePolicy=closed",
        "DeviceAllow=/dev/hailo0 rw",
    ]
