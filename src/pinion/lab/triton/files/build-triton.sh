# Installs Triton from the hashed requirements. Runs as root while the layer is built.
useradd --system --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin triton
# Python 3.11 beside this release's own: Debian 12's, from the same mirror.
sed 's/trixie/bookworm/g' /run/pinion/sources >/etc/apt/sources.list.d/bookworm.sources
apt-get -q update
apt-get -q -y --no-install-recommends install libpython3.11 python3.11-minimal python3-venv
rm /etc/apt/sources.list.d/bookworm.sources /var/lib/apt/lists/*bookworm*

python3 -m venv /tmp/installer
/tmp/installer/bin/pip install --no-compile --no-cache-dir --no-deps --only-binary :all: --require-hashes --requirement /opt/tritonserver/requirements.txt \
  --implementation cp --python-version 3.11 --target /opt/tritonserver/wheel
apt-get -q -y purge --autoremove python3-venv

# Where that Python looks for packages: it takes no path from its environment.
packages=/usr/local/lib/python3.11/dist-packages
mkdir -p "$packages"
cd /opt/tritonserver
mv wheel/numpy wheel/numpy.libs wheel/numpy-* wheel/onnxruntime wheel/onnxruntime-* "$packages/"
rm -r wheel/bin
find wheel/pytriton -mindepth 1 -maxdepth 1 ! -name tritonserver -exec rm -r {} +
# Triton finds its libraries from where it lies in the wheel, so the folders of NVIDIA's image are links.
for folder in bin backends caches; do ln -s "wheel/pytriton/tritonserver/$folder" "$folder"; done
cp wheel/pytriton/tritonserver/python_backend_stubs/3.11/triton_python_backend_stub backends/python/
rm -r wheel/pytriton/tritonserver/python_backend_stubs wheel/nvidia_pytriton.libs/libpython3-*
chmod 0755 bin/tritonserver backends/python/triton_python_backend_stub
install -d /srv/triton-models
# Libraries of the system that any of it is linked to; a layer in which one is missing is none.
programs="bin/tritonserver backends/python/libtriton_python.so backends/python/triton_python_backend_stub caches/local/libtritoncache_local.so"
{
  ldd $programs /usr/bin/python3.11 /usr/bin/bash /usr/bin/openssl
  # numpy's own libraries are found by those that need them only
  find /usr/lib/python3.11/lib-dynload "$packages" -name '*.libs' -prune -o -name '*.so*' -type f -print0 | xargs -0 ldd
} >/tmp/libraries
if grep "not found" /tmp/libraries; then exit 1; fi
awk '$2 == "=>" { print $3 } $1 ~ "^/" && NF == 2 { print $1 }' /tmp/libraries | grep -e '^/lib' -e '^/usr/lib' | sort -u >/tmp/paths
{ cat /tmp/paths; xargs -a /tmp/paths realpath; } | sort -u >libraries
# Byte code of what a start imports: later nobody can write it. It names no time, so that the same files give the same image.
find /usr/lib/python3.11 "$packages" -name __pycache__ -prune -exec rm -r {} +
PYTHONPATH=backends/python PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 python3.11 - <<'END'
import argparse, asyncio, base64, concurrent.futures, fcntl, http.client, json, pathlib, py_compile, struct, subprocess, sys, tempfile, urllib.request

import numpy, onnxruntime

for module in list(sys.modules.values()):
    source = getattr(module, "__file__", None) or ""
    if source.endswith(".py"):
        py_compile.compile(source, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
END
