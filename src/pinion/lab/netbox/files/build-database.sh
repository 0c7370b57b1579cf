# Migrates an empty database and collects the static files. Runs as root while the layer is built.
bin=/usr/lib/postgresql/17/bin
work=$(mktemp -d)
chmod 755 "$work"
install -d -o postgres -g postgres "$work/data" /run/netbox-postgresql
install -d -o netbox -g netbox /run/netbox-redis
runuser -u postgres -- $bin/initdb --pgdata="$work/data/postgresql" --auth=peer --encoding=UTF8 --locale=C.UTF-8
# Nothing here needs to survive a crash: a half-built layer is thrown away.
runuser -u postgres -- $bin/pg_ctl start --wait --pgdata="$work/data/postgresql" --log=/dev/null --options="-c listen_addresses= -c unix_socket_directories=/run/netbox-postgresql -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=256MB"
runuser -u netbox -- redis-server --port 0 --unixsocket /run/netbox-redis/redis.sock --save "" --daemonize yes --dir /tmp --pidfile /tmp/netbox-redis.pid
runuser -u postgres -- psql --quiet --host=/run/netbox-postgresql --command='CREATE ROLE netbox LOGIN' --command='CREATE DATABASE netbox OWNER netbox' postgres
export NETBOX_ROOT=/opt/netbox/root
runuser -u netbox -- /opt/netbox/venv/bin/netbox migrate --no-input
runuser -u netbox -- /opt/netbox/venv/bin/netbox collectstatic --no-input
runuser -u postgres -- psql --quiet --host=/run/netbox-postgresql --command='VACUUM (FREEZE, ANALYZE)' netbox
redis-cli -s /run/netbox-redis/redis.sock shutdown nosave || true
runuser -u postgres -- $bin/pg_ctl stop --wait --mode=fast --pgdata="$work/data/postgresql"
tar --create --file=/opt/netbox/database.tar --directory="$work/data" postgresql
rm -rf "$work" /opt/netbox/root/conf/configuration.py /tmp/netbox-redis.pid
