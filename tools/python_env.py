#!/usr/bin/env python3
"""Make or refresh the project's virtual environment from the hashed lock files.

Runs before anything is installed: standard library only. pip installs uv from `requirements/bootstrap.txt`, uv installs the rest
(seconds instead of minutes). uv does not read pip's configuration, so an index, a mirror or a certificate that this machine has set
for pip is handed over. Where uv fails, pip does the whole job.

The environment is current when its stamp matches the digest of lock files, pyproject.toml and interpreter. A run that was killed
leaves no stamp, so the next one finishes the job.

Example: python3 tools/python_env.py --venv .venv
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BOOTSTRAP_LOCK = REPOSITORY / "requirements" / "bootstrap.txt"
LOCK = REPOSITORY / "requirements" / "dev.txt"
#: The lab's stand-in for a Pulumi plugin is a distribution of its own.
STAND_IN = REPOSITORY / "stand-ins" / "kubernetes"
STAMP = "pinion-stamp.json"

#: pip option -> the variable by which uv takes the same thing.
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}


class CannotBuildError(Exception):
    """The environment could not be made; the text says why."""


def digest_of_inputs(python: str) -> str:
    """Return a SHA-256 over all that decides what the environment holds, and where it lies."""
    digest = hashlib.sha256()
    for path in (
        BOOTSTRAP_LOCK,
        LOCK,
        REPOSITORY / "pyproject.toml",
        STAND_IN / "pyproject.toml",
        *sorted((REPOSITORY / "requirements").glob("*.in")),
    ):
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes() + b"\0")
    version = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    digest.update(f"{version}\0{REPOSITORY}".encode())
    return digest.hexdigest()


def is_current(venv: Path, digest: str) -> bool:
    """Tell whether `venv` was finished for this digest and its interpreter still starts."""
    try:
        stamp = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return False
    if stamp.get("digest") != digest:
        return False
    probe = subprocess.run(
        [str(venv / "bin" / "python"), "-c", "import pinion, pinion_kubernetes_stand_in, pip"],
        capture_output=True,
        check=False,
    )
    return probe.returncode == 0


def uv_environment(venv: Path) -> dict[str, str]:
    """Return the environment for uv: this machine's own, plus what pip is configured with and uv would not see."""
    environment = dict(os.environ, VIRTUAL_ENV=str(venv), UV_PYTHON_DOWNLOADS="never", UV_LINK_MODE="copy")
    listing = subprocess.run(
        [str(venv / "bin" / "python"), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    # Later sections override earlier ones, as in pip: file, then :env:.
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2].strip()
        target = PIP_TO_UV.get(option)
        if target and target not in os.environ:
            environment[target] = value.strip().strip("'\"").replace("\\n", " ").strip()
    return environment


def run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    """Run one step, say how long it took.

    Raises:
        CannotBuildError: the command ended with another status than 0; its last lines are in the text.
    """
    started = time.monotonic()
    print(f"env: {what} …", flush=True)
    result = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0:
        tail = "\n".join(result.stdout.splitlines()[-25:])
        raise CannotBuildError(f"{what} failed (status {result.returncode}):\n{tail}")
    print(f"env: {what}: {time.monotonic() - started:.1f} s", flush=True)


def install_locked(venv: Path) -> None:
    """Install exactly what the lock names: by uv, else by pip."""
    python = str(venv / "bin" / "python")
    run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(BOOTSTRAP_LOCK)], "uv from its lock")
    command = [
        str(venv / "bin" / "uv"),
        "pip",
        "sync",
        "--compile-bytecode",
        "--require-hashes",
        str(BOOTSTRAP_LOCK),
        str(LOCK),
    ]
    try:
        run(command, "packages from the lock", uv_environment(venv))
    except CannotBuildError as error:
        print(f"env: {error}\nenv: uv could not do it here, trying pip", flush=True)
        run(
            [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)],
            "packages from the lock, by pip",
        )


def build(venv: Path, python: str, digest: str) -> None:
    """Bring `venv` to the locked state, from whatever is there.

    Raises:
        CannotBuildError: a step failed; the stamp is then missing, so the next run starts over.
    """
    (venv / STAMP).unlink(missing_ok=True)
    usable = (
        subprocess.run([str(venv / "bin" / "python"), "-c", "import pip"], capture_output=True, check=False).returncode
        == 0
        if (venv / "bin" / "python").exists()
        else False
    )
    if not usable:
        shutil.rmtree(venv, ignore_errors=True)
        run([python, "-m", "venv", str(venv)], f"new environment {venv}")
    install_locked(venv)
    own = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-e",
    ]
    run([*own, str(REPOSITORY), "-e", str(STAND_IN)], "pinion itself and the lab's stand-in, editable")
    # a hundred short-lived processes follow, and where PYTHONDONTWRITEBYTECODE is set each would compile them for itself
    sources = [str(REPOSITORY / name) for name in ("src", "stand-ins", "infra", "plugins", "deploys")]
    run([str(venv / "bin" / "python"), "-m", "compileall", "-q", *sources], "its bytecode")
    temporary = venv / (STAMP + ".new")
    temporary.write_text(json.dumps({"digest": digest}) + "\n")
    temporary.replace(venv / STAMP)


def main() -> int:
    """Parse arguments; 0 when the environment is ready, 2 when it could not be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=REPOSITORY / ".venv", help="where it lies (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="interpreter to build with (default: this one)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    arguments = parser.parse_args()
    venv: Path = arguments.venv.absolute()
    started = time.monotonic()
    if sys.version_info < (3, 11):  # noqa: UP036 - this file may be started by any python3
        print(f"env: Python 3.11 or newer is needed, this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    venv.parent.mkdir(parents=True, exist_ok=True)
    with (venv.parent / f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = digest_of_inputs(arguments.python)
        changed = not is_current(venv, digest)
        try:
            if changed:
                build(venv, arguments.python, digest)
        except CannotBuildError as error:
            print(f"env: {error}", file=sys.stderr)
            return 2
    seconds = time.monotonic() - started
    if arguments.json:
        print(json.dumps({"venv": str(venv), "changed": changed, "seconds": round(seconds, 1)}))
    else:
        print(f"env: {venv} is {'ready' if changed else 'current'} ({seconds:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
