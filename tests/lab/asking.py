"""Ask a model server as fast as it answers, from the place where this runs: python3 asking.py URL THREADS FILE [MOST].

Each request is one connection of its own: a new one must never be led to a server that goes. Ends when FILE is gone or, where MOST is
stated, after so many requests; prints one line of JSON: how many were asked, what came of those that were not answered, the 95th
percentile and the longest wait in seconds. Standard library only: it runs on machines of the lab.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

PATIENCE = 30.0


def main(url: str, threads: int, file: Path, most: int | None) -> None:
    """Ask, and print what came of it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["The "]}
    length = {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [2]}
    body = json.dumps({"inputs": [text, length]}).encode()
    failed, took, guard, asked = Counter[str](), list[float](), threading.Lock(), 0

    def ask() -> None:
        nonlocal asked
        while file.exists():
            with guard:
                if most is not None and asked >= most:
                    return
                asked += 1
            began, why = time.monotonic(), None
            try:
                request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Connection": "close"})
                with opener.open(request, timeout=PATIENCE) as answer:
                    if not json.load(answer)["outputs"]:
                        why = "no outputs"
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                why = str(error)
            with guard:
                took.append(time.monotonic() - began)
                if why is not None:
                    failed[why] += 1

    workers = [threading.Thread(target=ask) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took.sort()
    told = {"asked": asked, "failed": dict(failed), "p95": took[-(-len(took) * 95 // 100) - 1], "longest": took[-1]}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
