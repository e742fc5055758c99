#!/bin/busybox sh
# The first program of the machine: the host's files become the root, read-only below a layer in memory, so that
# nothing that happens here reaches the host except through /vm.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod "$module"; done

nine="trans=virtio,version=9p2000.L,msize=512000"
$b mount -t 9p -o "$nine,cache=loose,ro" host /host
$b mount -t tmpfs memory /memory
$b mkdir /memory/changed /memory/work
$b mount -t overlay -o lowerdir=/host,upperdir=/memory/changed,workdir=/memory/work root /root
$b mkdir -p /root/vm
$b mount -t 9p -o "$nine,cache=none" vm /root/vm
$b mount --move /dev /root/dev
$b mount --move /proc /root/proc
. /root/vm/environment

if [ "$VM_SYSTEMD" = yes ]; then
    $b cp /root/vm/vm.service /root/etc/systemd/system/vm.service
    exec $b switch_root /root /lib/systemd/systemd --unit=vm.service
fi
exec $b switch_root /root /bin/sh "$VM_MAIN"
