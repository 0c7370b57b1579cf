# PID 1 of the hello container: serves /www on $PORT and ends at once when it is asked to, which httpd alone as PID 1 would not.
trap 'kill "$server"; exit 0' TERM INT
/bin/busybox httpd -f -p "$PORT" -h /www &
server=$!
wait "$server"
