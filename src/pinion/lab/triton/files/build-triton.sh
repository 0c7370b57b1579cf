# Installs Triton from the hashed requirements. Runs as root while the layer is built.
useradd --system --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin triton
python3 -m venv /tmp/installer
/tmp/installer/bin/pip install --no-compile --no-cache-dir --no-deps --only-binary :all: --require-hashes --requirement /opt/tritonserver/requirements.txt \
  --target /opt/tritonserver/wheel
cd /opt/tritonserver
find wheel -mindepth 1 -maxdepth 1 ! -name pytriton ! -name nvidia_pytriton.libs -exec rm -r {} +
find wheel/pytriton -mindepth 1 -maxdepth 1 ! -name tritonserver -exec rm -r {} +
# Triton finds its libraries from where it lies in the wheel, so the folders of NVIDIA's image are links.
for folder in bin backends caches; do ln -s "wheel/pytriton/tritonserver/$folder" "$folder"; done
cp wheel/pytriton/tritonserver/python_backend_stubs/3.13/triton_python_backend_stub backends/python/
rm -r wheel/pytriton/tritonserver/python_backend_stubs
chmod 0755 bin/tritonserver backends/python/triton_python_backend_stub
# The wheel's own libpython wants the standard library of the machine that it was built on; Debian's fits Debian's and gets its updates.
ln -sf /usr/lib/*-linux-gnu/libpython3.13.so.1.0 wheel/nvidia_pytriton.libs/libpython3-*.so.1.0
install -d /srv/triton-models
apt-get purge -y --autoremove python3-venv
# A layer whose Triton cannot be loaded is none.
ldd bin/tritonserver backends/python/libtriton_python.so backends/python/triton_python_backend_stub | tee /tmp/libraries
if grep "not found" /tmp/libraries; then exit 1; fi
python3 -c "import numpy, onnxruntime"
