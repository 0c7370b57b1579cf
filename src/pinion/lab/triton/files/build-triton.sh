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
# A layer whose Triton cannot be loaded is none.
ldd bin/tritonserver backends/python/libtriton_python.so backends/python/triton_python_backend_stub >/tmp/libraries
if grep "not found" /tmp/libraries; then exit 1; fi
# This also leaves the byte code of what a start imports: later nobody can write it.
python3.11 -c "import json, pathlib, numpy, onnxruntime"
