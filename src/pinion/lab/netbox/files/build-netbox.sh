# Installs NetBox from the hashed requirements. Runs as root while the layer is built.
useradd --system --home-dir /opt/netbox --shell /usr/sbin/nologin netbox
python3 -m venv /opt/netbox/venv
/opt/netbox/venv/bin/pip install --no-compile --no-cache-dir --require-hashes --requirement /opt/netbox/requirements.txt
# Byte code belongs in the layer: an instance would compile it anew at each first start. Some packages ship files for other Pythons.
/opt/netbox/venv/bin/python -W ignore -m compileall -q -j 2 /opt/netbox/venv/lib || true
/opt/netbox/venv/bin/netbox setup --target /opt/netbox/root
rm -f /opt/netbox/root/conf/configuration.py
install -d -o netbox -g netbox /opt/netbox/root/static /opt/netbox/root/media /opt/netbox/root/reports /opt/netbox/root/scripts
apt-get purge -y --autoremove gcc libc6-dev libpq-dev python3-dev
# The lab runs PostgreSQL and Redis by units of its own.
rm -rf /var/lib/postgresql/17 /etc/postgresql/17
