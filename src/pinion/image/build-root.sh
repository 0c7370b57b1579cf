#!/bin/bash
# Builds the root file system of the base image as a tar archive. Runs in mount, pid, ipc and uts namespaces of its own.
#
#   INPUT     folder with: Packages, packages, files/ (with modes), script, initramfs, idle
#   POOL      folder of the .deb files that Packages names
#   TARGET    folder: root.tar is written there
#   RELEASE   Debian release
#   SOURCE_DATE_EPOCH   every time in the archive is at most this
set -euo pipefail
umask 022
hostname image-build
export LC_ALL=C.UTF-8 TZ=UTC

# What runs programs of the other architecture is known to the kernel as a whole: taken back at the end, and of no harm when it stays.
binfmt=/proc/sys/fs/binfmt_misc
[[ -e $binfmt/register ]] || mount -t binfmt_misc binfmt_misc "$binfmt"
registered=
if [[ $(dpkg --print-architecture) != arm64 && ! -e $binfmt/qemu-aarch64 ]]; then
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$binfmt/register"
  registered=1
fi
trap '[[ -z $registered ]] || echo -1 >"$binfmt/qemu-aarch64"' EXIT

# The archive is the pool and nothing else: no network, no mirror's mood. What is in the pool was checked against the lock.
archive=$TARGET/archive
mkdir -p "$archive/pool"
mount --bind -o ro "$POOL" "$archive/pool"
cp "$INPUT/Packages" "$archive/Packages"

# Hundreds of small files and a sync after each package: in memory this takes half the time. The packages need about 1.2 GiB.
mkdir "$TARGET/work"
if (($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) > 6291456)); then mount -t tmpfs -o size=4g,mode=0755 tmpfs "$TARGET/work"; fi
export TMPDIR=$TARGET/work

# its messages, and dpkg's, are what progress is read from
mmdebstrap --verbose --mode=root --variant=apt --architectures=arm64 --skip=check/qemu --format=tar \
  --include="$(paste -sd, "$INPUT/packages")" \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='force-unsafe-io' \
  --setup-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
  --setup-hook="cp '$INPUT/initramfs' \"\$1/etc/initramfs-tools/conf.d/pinion\"" \
  --essential-hook="cp '$INPUT/idle' \"\$1/idle\" && chroot \"\$1\" bash -eu /idle" \
  --customize-hook="chroot \"\$1\" bash -eu /idle back && rm \"\$1/idle\"" \
  --customize-hook="cp -r --preserve=mode '$INPUT/files/.' \"\$1/\"" \
  --customize-hook="cp '$INPUT/script' \"\$1/script\" && chroot \"\$1\" bash -eu /script && rm \"\$1/script\"" \
  "$RELEASE" "$TARGET/root.tar" "deb [trusted=yes] copy://$archive ./"
umount "$archive/pool"
rm -r "$archive"
umount "$TARGET/work" 2>/dev/null || true
sync -f "$TARGET"
