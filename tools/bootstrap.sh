#!/usr/bin/env bash
# What everything else needs before it can start: Python 3.11 or newer with venv. Silent when it is there; on Debian installs it.
#   bash tools/bootstrap.sh
set -euo pipefail

python=$([[ -x /usr/bin/python3 ]] && echo /usr/bin/python3 || echo python3)
probe='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
if "$python" -c "$probe" 2>/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "bootstrap: Python 3.11 or newer with venv is needed; on Debian, as root: apt-get install -y python3 python3-venv" >&2
    exit 2
fi
echo "bootstrap: installing python3 and python3-venv"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get -qq -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends python3 python3-venv ca-certificates)
"${install[@]}" </dev/null >/dev/null 2>&1 || { apt-get -qq update && "${install[@]}" </dev/null >/dev/null; }
/usr/bin/python3 -c "$probe"
