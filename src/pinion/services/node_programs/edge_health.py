#!/usr/bin/python3 -I
"""Ask the edge runtime whether it answers: edge-health URL [--wait SECONDS] [--restart UNIT].

--wait: give it that long to come up, as after its start. --restart: when it does not answer three times in a row, have systemd restart
that unit, if it runs; a server that hangs stays alive for systemd. Exit: 0 it answers, 1 it does not, 2 could not ask.
"""

from __future__ import annotations

import argparse
import http.client
import subprocess
import sys
import time
import urllib.error
import urllib.request

#: Seconds that an answer may take, and seconds between two questions.
PATIENCE, PAUSE = 5.0, 0.25
#: Unanswered questions until a server counts as hung, and the seconds between them.
MISSED, BETWEEN = 3, 2.0


def answers(url: str) -> str | None:
    """None when *url* answers with 200, else why not."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE) as response:
            return None if response.status == 200 else f"HTTP {response.status}"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def watch(url: str, unit: str) -> int:
    """Restart *unit* when it runs and *url* does not answer."""
    why = None
    for attempt in range(MISSED):
        if attempt:
            time.sleep(BETWEEN)
        why = answers(url)
        if why is None:
            return 0
    active = subprocess.run(["systemctl", "is-active", "--quiet", unit], timeout=30, check=False).returncode == 0
    print(f"{url}: {why}{f', restarting {unit}' if active else ''}", flush=True)
    if active:
        # It would not hear that it is to end, nor finish what it is asked.
        subprocess.run(["systemctl", "kill", "--signal=KILL", unit], timeout=30, check=False)
        subprocess.run(["systemctl", "--no-block", "restart", unit], timeout=30, check=False)
    return 1


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="edge-health", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--restart", metavar="UNIT")
    options = parser.parse_args(arguments)
    try:
        if options.restart is not None:
            return watch(options.url, options.restart)
        end = time.monotonic() + options.wait
        while (why := answers(options.url)) is not None and time.monotonic() < end:
            time.sleep(PAUSE)
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        print(f"edge-health: {error}", file=sys.stderr)
        return 2
    if why is not None:
        print(f"{options.url}: {why}")
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
