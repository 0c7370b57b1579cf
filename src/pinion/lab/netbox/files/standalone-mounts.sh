# Runs in new mount, process, network and IPC namespaces. WORK, LOWERS and DATA come from the environment.
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$LOWERS,upperdir=$WORK/upper,workdir=$WORK/overlay" "$WORK/root"
mount -t proc proc "$WORK/root/proc"
mount -t tmpfs tmpfs "$WORK/root/run"
mount -t tmpfs tmpfs "$WORK/root/tmp" -o mode=1777
mount -t tmpfs tmpfs "$WORK/root/dev"
for node in null zero random urandom tty; do : > "$WORK/root/dev/$node"; mount --bind "/dev/$node" "$WORK/root/dev/$node"; done
mkdir -p "$WORK/root/dev/shm" "$WORK/root$DATA"
mount -t tmpfs tmpfs "$WORK/root/dev/shm" -o mode=1777
mount --bind "$WORK/data" "$WORK/root$DATA"
ip link set lo up
exec chroot "$WORK/root" /bin/bash -eu /opt/netbox/standalone.sh
