"""Run the stand-in as the engine runs a plugin: ``python -m pinion.lab.kubernetes_plugin ENGINE_ADDRESS``."""

from __future__ import annotations

from pinion.lab.kubernetes_plugin.plugin import main

raise SystemExit(main())
