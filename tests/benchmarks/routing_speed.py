"""How long one decision takes, and how many requests a second are simulated: `python tests/benchmarks/routing_speed.py`.

Processor time of one core: what else runs on the machine counts little. Prints the Python and the processor with it.
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path

from pinion.plan import plan
from pinion.routing import (
    Hop,
    ModelForms,
    Objectives,
    PiModel,
    PiState,
    PoolState,
    Request,
    RoutingPolicy,
    State,
    decide,
)
from pinion.simulation.baselines import ROUTERS
from pinion.simulation.engine import Simulation
from pinion.simulation.load import synthetic
from pinion.simulation.scenario import load_scenario
from pinion.simulation.stated import simulated
from pinion.site.find import site_file
from pinion.site.loader import load

TIMES = 100_000
POLICY = RoutingPolicy(
    site="rack", models=(ModelForms("tiny", "tiny-1", "tiny-13"),), objectives=Objectives(edge_p95=0.3)
)
STATE = State(
    PiState({"tiny": PiModel(289.9, 33.84, 2048)}, free_slots=1),
    PoolState(("tiny",), first_token=0.02),
    (Hop(0.001), Hop(0.001)),
)
REQUESTS = {
    "stays on the Pi": Request(20, 32, confidence=0.9),
    "goes to the pool, four reasons": Request(600, 200, confidence=0.2, budget=5.0),
}


def main() -> None:
    """Print both tables."""
    print(f"Python {platform.python_version()}, {_processor()}, one core")
    for name, request in REQUESTS.items():
        taken = min(_decisions(request) for _ in range(5))
        print(f"decide: {taken * 1e6:5.1f} us  {name}")
    site = load(site_file("dc-rack-12"))
    for pis, rate in ((200, 15.0), (5_000, 1_000.0)):
        scenario = load_scenario("thousand")
        changed = scenario.model_copy(
            update={"pis": pis, "duration": TIMES / rate, "load": scenario.load.model_copy(update={"rate": rate})}
        )
        setting = simulated(site, plan(site), changed).setting
        for name, router in ROUTERS.items():
            started = time.process_time()
            arrivals = synthetic(changed.load, changed.duration, pis, setting.policy, 1)
            outcome = Simulation(setting, router, 1).run(arrivals)
            taken = time.process_time() - started
            requests = sum(map(len, outcome.answers.values())) + outcome.refused
            print(f"simulated: {requests / taken:8,.0f} requests a second  {pis:,} Pis, {name}")


def _decisions(request: Request) -> float:
    """Seconds that one decision takes, on average of many."""
    started = time.process_time()
    for _ in range(TIMES):
        decide(request, STATE, POLICY)
    return (time.process_time() - started) / TIMES


def _processor() -> str:
    told = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if sys.platform == "linux" else []
    return next((line.partition(": ")[2] for line in told if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
