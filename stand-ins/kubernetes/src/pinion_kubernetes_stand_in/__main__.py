"""Run the stand-in as the engine runs a plugin: ``python -m pinion_kubernetes_stand_in ENGINE_ADDRESS``."""

from __future__ import annotations

from pinion_kubernetes_stand_in.plugin import main

raise SystemExit(main())
