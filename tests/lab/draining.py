"""A runtime that is taken away from under requests: those that it has are answered, those that come are refused, and none is cut off."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from lab.serving_rack import ServingRack, reference, until

#: Requests that are under way or wait when it is taken away: more than it has slots.
UNDER_WAY = 6
#: Seconds for which these last, of the 30 that they have: longer than the kubelet's probes wait for one another.
LASTS = 12.0
#: curl(1): nobody let it in.
REFUSED = "7"
#: What becomes of a request, as HTTP's status and curl's exit code: answered, refused, and refused by a server that is beginning.
FINE = {"200/0", f"000/{REFUSED}", "503/22"}
_ASKING = "/run/pinion-test-asks"


@contextmanager
def others_ask(rack: ServingRack, name: str, asker: str) -> Iterator[Counter[str]]:
    """Have *asker* ask *name* again and again, four at a time, while the block lasts; afterwards how often it was told what."""
    wanted = reference(rack)
    body = {"prompt": wanted["prompt"], "n_predict": len(wanted["tokens"]), "temperature": 0}
    ask = shlex.join(
        [
            *(
                "curl",
                "--silent",
                "--fail",
                "--max-time",
                "60",
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code}/",
            ),
            *("--data", json.dumps(body), rack.url(name, "/completion")),
        ]
    )
    script = f"while test -e {_ASKING}; do {ask}; echo $?; sleep 0.05; done"
    told: Counter[str] = Counter()
    rack.on(asker, f"touch {_ASKING}")
    try:
        with ThreadPoolExecutor() as pool:
            said = [pool.submit(rack.on, asker, script) for _ in range(4)]
            try:
                yield told
            finally:
                rack.on(asker, f"rm {_ASKING}")
            for each in said:
                told.update(each.result().split())
    finally:
        rack.on(asker, f"rm -f {_ASKING}")


def answers_and_refuses(rack: ServingRack, name: str, engine: int, taken_away: str) -> None:
    """Run the command *taken_away* on *name*, which ends *engine*, under requests; nobody is cut off, and it serves again.

    The engine is frozen while it answers, so that the answers last.
    """
    connected = "ss -Htn state established sport = :8080 | wc -l"
    new = f"curl --silent --output /dev/null --max-time 5 {rack.url(name, '/health')}; echo $?"
    with others_ask(rack, name, "pi-02" if name != "pi-02" else "pi-01") as told, ThreadPoolExecutor() as pool:
        rack.on(name, f"kill -STOP {engine}")
        try:
            answers = [pool.submit(rack.completion, "mgmt-1", name) for _ in range(UNDER_WAY)]
            until(lambda: int(rack.on(name, connected)) >= UNDER_WAY, "all of them are connected", rack, name)
            rack.on(name, f"systemd-run --quiet {taken_away}")
            until(lambda: rack.on("mgmt-1", new).strip() == REFUSED, "who comes now is refused at once", rack, name)
            frozen = time.monotonic()
            while time.monotonic() - frozen < LASTS:
                assert rack.on("mgmt-1", new).strip() == REFUSED, "and stays so"
                assert not any(answer.done() for answer in answers), [each.exception() for each in answers]
                time.sleep(0.5)
        finally:
            rack.on(name, f"kill -CONT {engine} 2>/dev/null; true")
        assert [answer.result()["tokens"] for answer in answers] == [reference(rack)["tokens"]] * UNDER_WAY
        until(lambda: rack.serves(name), "it serves again", rack, name)
    assert set(told) <= FINE, told
    assert {"200/0", f"000/{REFUSED}"} <= set(told), told
    assert "pinion_drain" not in rack.on(name, "nft list tables")
