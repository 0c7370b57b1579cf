"""Every host of a site to its planned state: pyinfra @pinion/<site> deploys/site.py [--dry] [--diff] [-y]."""

from __future__ import annotations

from pathlib import Path

from pyinfra import local

local.include(str(Path(__file__).parent / "os_tuning.py"))
