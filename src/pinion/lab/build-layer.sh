#!/bin/bash
# Builds one layer. Runs in mount, pid, ipc and uts namespaces of its own, so all that it mounts and starts ends with it.
#
#   TARGET    folder to build: $TARGET/fs becomes the layer
#   LOWER     lower folders of the parents, topmost first, joined by ':'; empty for the base
#   INPUT     folder with: packages, files/, script, sources, apt.conf, options, binds (source<TAB>target<TAB>ro or rw), environment (NAME=value, NUL-separated)
#   RELEASE   Debian release
set -euo pipefail
umask 022
mkdir -p "$TARGET/fs"
hostname lab-build

if [[ -z $LOWER ]]; then
  options=()
  while IFS= read -r option; do options+=(--aptopt="$option"); done <"$INPUT/options"
  # manual pages and translations are not read in a lab machine
  mmdebstrap --quiet --mode=root --variant=minbase --include="$(paste -sd, "$INPUT/packages")" "${options[@]}" \
    --aptopt='Acquire::GzipIndexes "true"' --aptopt='Acquire::Languages "none"' --skip=cleanup/apt/lists \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='force-unsafe-io' "$RELEASE" "$TARGET/fs" - <"$INPUT/sources"
  root=$TARGET/fs
else
  mkdir -p "$TARGET/work" "$TARGET/merged"
  root=$TARGET/merged
  mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$TARGET/fs,workdir=$TARGET/work" "$root"
fi

# what a program expects around it: proc, sys, a small /dev
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"

# this machine's names, mirror, proxy and certificates, for the time of the build only
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mkdir -p "$root/run/lock" "$root/run/pinion" "$root/var/lib/apt/lists/partial"
cp -r "$INPUT/." "$root/run/pinion/"
cat /etc/resolv.conf >"$root/run/pinion/resolv.conf" 2>/dev/null || true
if [[ ! -e $root/etc/resolv.conf && ! -L $root/etc/resolv.conf ]]; then : >"$root/etc/resolv.conf"; fi
mount --bind "$root/run/pinion/resolv.conf" "$root/etc/resolv.conf"
cat "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" >"$root/run/pinion/ca.crt" 2>/dev/null || true
mkdir -p "$root/etc/apt/sources.list.d" "$root/usr/local/sbin"
rm -f "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d/0000main.sources" "$root/etc/apt/apt.conf.d/99mmdebstrap"
cp "$INPUT/sources" "$root/etc/apt/sources.list.d/debian.sources"
cp "$INPUT/apt.conf" "$root/etc/apt/apt.conf.d/99build"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"

environment=()
while IFS= read -r -d '' variable; do environment+=("$variable"); done <"$INPUT/environment"
made=()
while IFS=$'\t' read -r source target access; do
  [[ -e $source ]] || continue
  [[ -e $root$target ]] || made+=("$root$target")
  if [[ -d $source ]]; then mkdir -p "$root$target"; else mkdir -p "$(dirname "$root$target")"; touch "$root$target"; fi
  mount --bind "$source" "$root$target"
  if [[ $access == ro ]]; then mount -o remount,bind,ro "$root$target"; fi
done <"$INPUT/binds"

inside() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
    SSL_CERT_FILE=/run/pinion/ca.crt PIP_CERT=/run/pinion/ca.crt REQUESTS_CA_BUNDLE=/run/pinion/ca.crt "${environment[@]}" \
    chroot "$root" "$@"
}

if [[ -n $LOWER && -s $INPUT/packages ]]; then
  inside apt-get -q update
  inside xargs -a /run/pinion/packages apt-get -q -y --no-install-recommends install
fi
if [[ -d $INPUT/files ]]; then cp -r --no-preserve=mode,ownership "$INPUT/files/." "$root/"; fi
if [[ -s $INPUT/script ]]; then inside bash -eu /run/pinion/script; fi

rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/apt/apt.conf.d/99build" "$root/etc/apt/sources.list.d/debian.sources"
if [[ -z $LOWER ]]; then umount "$root/etc/resolv.conf"; : >"$root/etc/resolv.conf"; fi
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/cache/apt/*.bin "$root"/var/log/apt/* "$root"/var/log/dpkg.log "$root"/tmp/*
# a process that the script left behind would hold the mounts; we are pid 1 of our namespace, so this spares us
kill -KILL -1 2>/dev/null || true
cut -f2 "$INPUT/binds" | while IFS= read -r target; do umount "$root$target" 2>/dev/null || true; done
umount -R "$root/dev" "$root/proc" "$root/sys" "$root/run" || true
umount "$root/etc/resolv.conf" 2>/dev/null || true
if ((${#made[@]})); then rm -df "${made[@]}"; fi
if [[ -n $LOWER ]]; then umount -R "$root" 2>/dev/null || umount --lazy -R "$root"; rmdir "$TARGET/merged"; rm -rf "$TARGET/work"; fi
sync -f "$TARGET"
