# The three programs of a stand-alone NetBox, without systemd. When this shell ends, the process namespace ends with it.
install -d -o postgres -g postgres /run/netbox-postgresql
install -d -o netbox -g netbox /run/netbox-redis /run/netbox
runuser -u postgres -- /usr/lib/postgresql/17/bin/postgres -D /srv/netbox/postgresql -c config_file=/etc/netbox/postgresql.conf -c hba_file=/srv/netbox/postgresql/pg_hba.conf &
runuser -u netbox -- redis-server --port 0 --unixsocket /run/netbox-redis/redis.sock --save "" --appendonly no --dir /tmp --loglevel warning &
cd /opt/netbox/root
export PYTHONPATH=/opt/netbox/plugins
for plugin in /opt/netbox/plugins/*/; do # each has tables of its own
    [ -e "$plugin" ] || continue
    until runuser -u netbox -- /usr/lib/postgresql/17/bin/pg_isready --quiet --host=/run/netbox-postgresql; do sleep 0.1; done
    runuser -u netbox -- env NETBOX_ROOT=/opt/netbox/root /opt/netbox/venv/bin/netbox migrate --no-input "$(basename "$plugin")"
done
runuser -u netbox -- env NETBOX_ROOT=/opt/netbox/root NETBOX_BIND="$NETBOX_BIND" /opt/netbox/venv/bin/gunicorn --config /opt/netbox/root/gunicorn.py netbox.wsgi
