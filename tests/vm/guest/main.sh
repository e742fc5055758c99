#!/bin/sh
# Plays the scenarios and switches the machine off. It is the first process itself, or a service of systemd.
. /vm/environment
exec >>/vm/log 2>&1
if [ "$VM_SYSTEMD" = no ]; then
    mount -t sysfs sys /sys
    mount -t cgroup2 cgroup /sys/fs/cgroup
    mount -t tmpfs run /run
    mkdir -p /dev/shm /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t devpts pts /dev/pts
    ln -s /proc/self/fd /dev/fd
fi
# containerd's overlays cannot lie on this root, which is one itself; not over /tmp, where the project may lie
mkdir -p /scratch
mount -t tmpfs scratch /scratch
export TMPDIR=/scratch
mkdir -p /lib/modules
ln -s "$VM_MODULES" "/lib/modules/$(uname -r)"
"$VM_BUSYBOX" ip link set lo up
modprobe bfq # io.bfq.weight exists only with it
cd "$VM_PROJECT" && "$VM_PYTHON" -m pytest -p tests.vm.guest.session --noconftest -p no:cacheprovider \
    -o faulthandler_timeout="$VM_SCENARIO_SECONDS" -o testpaths= @/vm/scenarios
dmesg >/vm/dmesg
sync
"$VM_BUSYBOX" poweroff -f
