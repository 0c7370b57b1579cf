# Runs in new mount, process and IPC namespaces. ROOT, LOWERS, REPOSITORY, MODELS, ACCOUNT and PROGRAM come from the environment; "$@" are Triton's options.
mount --make-rprivate /
# Without an upper folder: all that Triton could write to is gone with it.
mount -t overlay overlay -o "ro,lowerdir=$LOWERS" "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$ROOT/dev"
for node in null zero random urandom; do : > "$ROOT/dev/$node"; mount --bind "/dev/$node" "$ROOT/dev/$node"; done
mkdir "$ROOT/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
mount --bind "$REPOSITORY" "$ROOT$MODELS"
mount -o remount,bind,ro "$ROOT$MODELS"
cd "$ROOT"
# Not by exec: this shell ends with whoever started it, and everything here with this shell; a program that changes its user would not.
chroot "$ROOT" setpriv --reuid="$ACCOUNT" --regid="$ACCOUNT" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$PROGRAM" "$@" &
wait "$!"
