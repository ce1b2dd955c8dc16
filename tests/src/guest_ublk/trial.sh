# What the guest does. Lines that begin with 'trial: ' are for people.
set -u
say() { echo "trial: [$(cut -d' ' -f1 /proc/uptime)] $*"; }
fails() {
    say "failed: $*"
    tail -n 20 /tmp/serve.log /tmp/fio.log /tmp/daemon.log 2>/dev/null
    echo w >/proc/sysrq-trigger
    dmesg | grep -v '\] *? ' | tail -150
    exit 1
}

# Waits for something, a minute at most.
await() {
    for try in $(seq 600); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

# Serves a file: its arguments. The program takes commands from descriptor 3.
serve() {
    rm -f /tmp/in
    mkfifo /tmp/in
    : >/tmp/serve.log
    cenote-ublk-serve "$@" </tmp/in >/tmp/serve.log 2>&1 &
    server=$!
    exec 3>/tmp/in
    for try in $(seq 900); do
        grep -q ^serving /tmp/serve.log && break
        kill -0 $server 2>/dev/null || return 1
        sleep 0.1
    done
    disk=$(sed -n 's/^serving.* at //p' /tmp/serve.log)
    [ -b "$disk" ]
}

# Gives it a command, and says how its answer must begin.
tell() {
    before=$(grep -c -E '^(ok|error)' /tmp/serve.log)
    echo "$1" >&3
    for try in $(seq 600); do
        [ "$(grep -c -E '^(ok|error)' /tmp/serve.log)" -gt "$before" ] && break
        sleep 0.1
    done
    answer=$(grep -E '^(ok|error)' /tmp/serve.log | tail -1)
    case "$answer" in
    "$2"*) ;;
    *) fails "'$1' was answered '$answer', and not '$2'" ;;
    esac
}

# Kills it as nothing else does.
murder() {
    exec 3>&-
    kill -9 $server
    wait $server 2>/dev/null
    rm -f /tmp/stall
}

is_left() { cenote-ublk-serve --left 2>/dev/null | grep -q " $1\$"; }
has_requests() { # how many at least wait in the device
    set -- "$1" $(cat "/sys/block/${disk#/dev/}/inflight")
    [ $(($2 + $3)) -ge "$1" ]
}
is_gone() { [ ! -e "$disk" ]; }

files() {
    truncate -s 600M /data.img
    serve /data.img --name one --stall /tmp/stall || fails serve
    lsblk -o NAME,SIZE,PHY-SEC,LOG-SEC,OPT-IO,DISC-GRAN,RO "$disk"
    [ "$(cat /sys/block/ublkb0/queue/write_cache)" = 'write back' ] || fails 'no write cache'
    [ "$(cat /sys/block/ublkb0/queue/fua)" = 1 ] || fails 'no FUA'
    tell open 'ok: false'
    sleep 1000 <"$disk" &
    sleeper=$!
    sleep 1
    tell open 'ok: true'
    tell stop 'error: /dev/ublkb0 is in use: sleep'
    kill $sleeper
    wait $sleeper
    say 'what a program has open is not stopped'

    touch /tmp/stall
    fio --name=h --filename="$disk" --direct=1 --rw=randwrite --bs=4k --iodepth=100 \
        --ioengine=libaio --size=100M >/tmp/fio.log 2>&1 &
    fio=$!
    await has_requests 64 || fails 'fio does not write'
    tell 'stop force' ok
    wait $fio && fails 'fio did not notice'
    is_gone || fails 'the device is still there'
    tell stop 'error: /dev/ublkb0 has been stopped'
    murder
    say 'requests that hang were given up'

    serve /data.img --name one || fails serve
    mkfs.ext4 -q "$disk" && mkdir -p /a && mount "$disk" /a || fails mkfs
    tell stop 'error: /dev/ublkb0 is in use: it is mounted at /a'
    cp -a /usr/bin /a/ && sync
    tell 'stop force' ok
    (echo x >/a/new && sync /a/new) 2>/dev/null && fails 'the mount works without a device'
    umount /a
    await is_gone || fails 'the device is still there'
    murder
    say 'a mounted device went by force'

    serve /data.img --name one || fails serve
    tell leave ok
    await is_left one || fails 'nothing was left'
    murder
    serve /data.img --name one --recover || fails recover
    murder
    serve /data.img --name one --recover --stall /tmp/stall || fails recover
    touch /tmp/stall
    dd if="$disk" of=/dev/null bs=1M count=1 iflag=direct 2>/tmp/dd.log &
    dd=$!
    await has_requests 1 || fails 'dd does not read'
    murder
    kill -0 $dd || fails 'dd did not wait'
    cenote-ublk-serve --remove one || fails remove
    wait $dd && fails 'dd read from nothing'
    is_gone || fails 'the device is still there'
    say 'what was left was taken over, and removed'

    serve /data.img --name all --stall /tmp/stall || fails serve
    touch /tmp/stall
    fio --name=h --filename="$disk" --direct=1 --rw=randread --bs=4k --iodepth=100 \
        --ioengine=libaio --size=20M >/tmp/fio.log 2>&1 &
    fio=$!
    await has_requests 64 || fails 'fio does not read'
    murder
    serve /data.img --name all --recover || fails recover
    wait $fio || fails 'fio failed'
    tell stop ok
    murder
    say 'killed with all tags in service, and taken over'
}

# The status of one that did not get back what an earlier one had is no success.
is_running() { cenote daemon status 2>/dev/null | grep -q 'is running'; }

daemon() {
    cenote daemon run >>/tmp/daemon.log 2>&1 &
    daemon=$!
    await is_running || fails 'no daemon'
}

# Writes with fio and verifies it; the daemon is killed in the middle.
fio_over_death() {
    fio --name=v --directory="$1" --size=48M --rw=randwrite --bs=16k --ioengine=psync \
        --fsync=16 --verify=crc32c --do_verify=1 --verify_fatal=1 >/tmp/fio.log 2>&1 &
    fio=$!
    sleep 4
    kill -9 $daemon
    wait $daemon 2>/dev/null
    say 'the daemon is dead'
    kill -0 $fio || fails 'fio ended too early'
    daemon
    say 'there is another one'
    cenote daemon resume || fails resume
    wait $fio || fails 'fio failed'
}

pool() {
    daemon
    zpool create -f tank /dev/vdc || fails create
    for type in ext4 xfs; do
        zfs create -s -V 1G tank/$type || fails "create $type"
        cenote ublk serve tank/$type || fails "serve $type"
        disk=/dev/zvol/tank/$type
        lsblk -no PHY-SEC,OPT-IO,DISC-GRAN "$(readlink -f $disk)"
        mkfs.$type -q $disk && mkdir -p /$type && mount $disk /$type || fails "mkfs.$type"
        cenote ublk stop tank/$type 2>/tmp/told && fails 'it was stopped while mounted'
        cp -a /usr/lib/x86_64-linux-gnu/security /usr/bin /$type/ && sync || fails copy
        (cd /$type && find . -type f | sort | xargs sha256sum) >/tmp/$type.sums
        before=$(zfs get -Hpo value used tank/$type)
        cp -a /$type/bin /$type/more && sync && rm -r /$type/more && sync
        fstrim /$type || fails fstrim
        fio_over_death /$type
        (cd /$type && sha256sum --quiet -c /tmp/$type.sums) || fails sums
        say "$type over the death of the daemon: $(grep -c ': OK' /tmp/fio.log) faults"
        umount /$type || fails umount
        case $type in
        ext4) e2fsck -fn $disk >/tmp/fsck.log 2>&1 || fails e2fsck ;;
        xfs) xfs_repair -n $disk >/tmp/fsck.log 2>&1 || fails xfs_repair ;;
        esac
        zfs snapshot tank/$type@s
        cenote ublk serve tank/$type@s || fails "serve a snapshot"
        mount -o ro /dev/zvol/tank/$type@s /$type 2>/tmp/told ||
            mount -o ro,norecovery /dev/zvol/tank/$type@s /$type || fails 'mount a snapshot'
        (cd /$type && sha256sum --quiet -c /tmp/$type.sums) || fails 'sums of the snapshot'
        umount /$type
        say "$type is whole, and its snapshot"
    done
    zfs set volsize=1280M tank/xfs
    cenote ublk stop tank/xfs || fails stop
    cenote ublk serve tank/xfs || fails serve
    [ "$(lsblk -bdno SIZE "$(readlink -f /dev/zvol/tank/xfs)")" = 1342177280 ] || fails size
    mount /dev/zvol/tank/xfs /xfs && xfs_growfs /xfs >/dev/null || fails grow
    (cd /xfs && sha256sum --quiet -c /tmp/xfs.sums) || fails sums
    umount /xfs
    say 'a volume grew'
}

# What the property brings and takes, and what becomes of disks that are open.
property() {
    zfs create tank/auto && zfs set cenote:ublk=on tank/auto || fails 'set the property'
    zfs create -s -V 96M tank/auto/a && zfs create -s -V 128M tank/auto/own || fails create
    a=/dev/zvol/tank/auto/a
    b=/dev/zvol/tank/auto/b
    [ -b $a ] || fails 'no disk by the property'
    zfs set snapdev=visible tank/auto && zfs snapshot tank/auto/a@s || fails snapshot
    [ -b $a@s ] || fails 'no disk of a snapshot'
    zfs rename tank/auto/a tank/auto/b || fails rename
    [ -b $b ] && [ -b $b@s ] && [ ! -e $a ] || fails 'the links did not follow'
    zpool create -f own /dev/zvol/tank/auto/own 2>/tmp/told && fails 'a pool on its own disk'
    grep -q 'would wait for itself' /tmp/told || fails "$(cat /tmp/told)"
    zfs destroy tank/auto/own || fails destroy
    mkfs.ext4 -q $b && mkdir -p /b && mount $b /b || fails mkfs
    zfs destroy -r tank/auto/b 2>/tmp/told && fails 'destroyed while mounted'
    zpool export tank 2>/tmp/told && fails 'exported while mounted'
    [ -b $b ] || fails 'the refusals took the disk away'
    say 'the property makes disks, and what is mounted stays'

    head -c 8000000 /dev/urandom >/tmp/random
    cp /tmp/random /b/data || fails copy
    kill $daemon
    wait $daemon
    [ -b "$(readlink -f $b)" ] || fails 'the disk went with the daemon'
    daemon
    cenote daemon resume || fails resume
    sync && echo 3 >/proc/sys/vm/drop_caches
    cmp /tmp/random /b/data || fails 'the file changed'
    umount /b && e2fsck -fn $b >/tmp/fsck.log 2>&1 || fails e2fsck
    say 'a disk that was open outlived the end of the daemon'

    dd if=/tmp/random of=$b bs=64k oflag=direct conv=notrunc iflag=fullblock count=100 2>/dev/null
    kill -9 $daemon
    wait $daemon 2>/dev/null
    daemon
    cenote daemon resume || fails resume
    cmp -n 6553600 /tmp/random $b || fails 'what was answered and not flushed is lost'
    say 'what was not flushed outlived the death of the daemon'

    zfs set cenote:ublk=off tank/auto || fails 'set the property'
    [ ! -e $b ] && [ ! -e /dev/zvol/tank/auto ] || fails 'the links stayed'
    zfs set cenote:ublk=on tank/auto && [ -b $b ] || fails 'set the property'
    zpool export tank || fails export
    ls /dev/ublkb* /dev/zvol 2>/dev/null && fails 'there are devices of an exported pool'
    zpool import -d /dev/vdc tank && [ -b $b ] || fails import
    zfs destroy -r tank/auto || fails destroy
    ls /dev/zvol/tank/auto 2>/dev/null && fails 'the links stayed'
    say 'disks go and come with their pool'
}

# Requests a second; only their ratio means anything here.
rate() {
    fio --name=r --filename="$1" --direct=1 --rw=randread --bs=4k --iodepth="$2" \
        --ioengine=libaio --size=64M --runtime=8 --time_based >/tmp/fio.log 2>&1 || fails rate
    grep -o 'IOPS=[0-9.k]*' /tmp/fio.log | head -1
}

measure() {
    zfs create -V 128M tank/fast && cenote ublk serve tank/fast || fails serve
    dd if=/dev/urandom of=/dev/zvol/tank/fast bs=1M count=128 oflag=direct 2>/dev/null
    modprobe nbd && cenote nbd serve --unix /run/v.nbd tank/fast || fails 'serve over NBD'
    nbd-client -unix /run/v.nbd -N tank/fast /dev/nbd0 >/tmp/nbd.log 2>&1 || fails nbd-client
    for depth in 1 16; do
        ublk=$(rate /dev/zvol/tank/fast $depth)
        nbd=$(rate /dev/nbd0 $depth)
        say "4 KiB random reads, $depth at once: ublk $ublk, nbd-client $nbd"
    done
    nbd-client -d /dev/nbd0 >/dev/null 2>&1
    cenote nbd stop >/dev/null 2>&1
    cenote ublk stop tank/fast || fails stop
}

cenote-ublk-serve memory:1000000 2>/tmp/told && fails 'without a driver it must refuse'
grep -q 'modprobe ublk_drv' /tmp/told || fails "$(cat /tmp/told)"
modprobe ublk_drv || fails modprobe
files
pool
measure
property
cenote ublk status
cenote ublk stop || fails stop
zpool export tank || fails export
cenote daemon stop || fails 'stop the daemon'
ls /dev/ublkb* 2>/dev/null && fails 'there are devices left'
say 'all is well'
