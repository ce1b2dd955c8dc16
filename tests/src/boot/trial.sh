#!/bin/bash
# What the guest does at a start, as 'trial=' on the command line of its kernel says. It speaks on
# the console; the machine outside reads that.
set -eEu
exec >/dev/ttyS0 2>&1 </dev/null
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
phase=$(sed 's/.*trial=\([a-z]*\).*/\1/' /proc/cmdline)
say() { echo "trial: $*"; }
fails() {
    trap - ERR
    say "failed at line $1: $2"
    systemctl --no-pager --failed
    systemctl --no-pager --full status cenote zfs-mount zfs-import-cache 'zfs-load-key@*' \
        srv-legacy.mount
    zpool status
    zfs list -o name,mounted,keystatus
    journalctl --no-pager -b -u cenote -u 'zfs*' -u srv-legacy.mount | tail -40
    systemctl poweroff
    exit 1
}
trap 'fails $LINENO "$BASH_COMMAND"' ERR

# Waits for something, a minute at most.
await() {
    for try in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    say "never: $*"
    return 1
}

mounts_are_there() {
    for name in home byfile vault; do
        [ "$(cat "/tank/$name/word")" = "$name" ] || return 1
    done
    [ "$(cat /srv/legacy/word)" = legacy ] || return 1
    [ "$(curl -sS http://127.0.0.1:8080/word)" = home ]
}

# The log, the spare and the cache device are there, and the volume has its contents.
devices_are_there() {
    zpool status tank >/run/devices
    for line in 'd3 *ONLINE' 'd4 *AVAIL' 'd5 *ONLINE'; do
        grep -q "virtio-$line" /run/devices || return 1
    done
    volume_is_there
}

volume_is_there() {
    rm -f /run/volume.img
    cenote volume export tank/volume /run/volume.img >/dev/null
    cmp /run/volume.img /etc/zfs/volume.img
}

scrub_is_whole() {
    zpool status tank | grep 'scrub repaired 0B in .* with 0 errors'
}

check_mounts() {
    await mounts_are_there
    devices_are_there
    zpool status -x | grep 'all pools are healthy'
}

# Files that are confirmed by fsync one after the other; each is reported once it is.
write_and_report() {
    mkdir -p "$1"
    for number in $(seq 100000); do
        echo "$number" >"$1/$number" && sync "$1/$number" || return 0
        echo "$2 $number"
    done
}

make() {
    before=$(date +%s%N)
    dpkg -i /packages/*.deb >/run/dpkg.log 2>&1 || { cat /run/dpkg.log; return 1; }
    say "installed in $((($(date +%s%N) - before) / 1000000)) ms"
    await systemctl is-active cenote.service
    systemctl is-enabled cenote.service zfs-mount.service zfs.target
    id=/dev/disk/by-id/virtio
    zpool create -O compression=zstd tank mirror $id-d1 $id-d2 log $id-d3 spare $id-d4 cache $id-d5
    head -c 4M /dev/urandom >/etc/zfs/volume.img
    cenote volume import /etc/zfs/volume.img tank/volume >/dev/null
    zfs set cenote:nbd=on tank/volume
    zfs create tank/home
    zfs create -o mountpoint=legacy tank/legacy
    mkdir -p /srv/legacy
    echo "tank/legacy /srv/legacy zfs defaults,_netdev 0 0" >>/etc/fstab
    systemctl daemon-reload
    mount /srv/legacy
    head -c 32 /dev/urandom >/etc/zfs/byfile.key
    zfs create -o encryption=on -o keyformat=raw -o keylocation=file:///etc/zfs/byfile.key \
        tank/byfile
    printf 'correct horse battery staple' >/etc/zfs/vault.key
    zfs create -o encryption=on -o keyformat=passphrase tank/vault </etc/zfs/vault.key
    unit=$(systemd-escape --template=zfs-load-key@.service tank/vault)
    mkdir -p "/etc/systemd/system/$unit.d"
    printf '[Service]\nLoadCredential=zfs-load-key:/etc/zfs/vault.key\n' \
        >"/etc/systemd/system/$unit.d/key.conf"
    systemctl daemon-reload
    systemctl enable "$unit" zfs-scrub-monthly@tank.timer zfs-scrub-weekly@tank.timer
    for name in home byfile vault; do echo "$name" >"/tank/$name/word"; done
    echo legacy >/srv/legacy/word
    printf '%s\n' '[Unit]' After=cenote.service BindsTo=cenote.service '[Service]' Type=oneshot \
        RemainAfterExit=yes \
        'ExecStart=/usr/bin/cenote http start --listen 127.0.0.1:8080 tank/home' \
        'ExecStop=/usr/bin/cenote http stop' '[Install]' WantedBy=cenote.service \
        >/etc/systemd/system/cenote-http.service
    systemctl daemon-reload
    systemctl enable --now cenote-http.service
    live_for_an_hour
    check_mounts
}

# More transaction groups than the uberblock ring has places: the labels of devices that are not
# written in each group are old then.
live_for_an_hour() {
    before=$(date +%s%N)
    for number in $(seq 300); do
        echo "$number" >/tank/home/number
        zpool sync tank
    done
    say "300 groups took $((($(date +%s%N) - before) / 1000000)) ms"
}

# The mounts are back, and no unit failed. Then the daemon is killed under rsync.
again() {
    check_mounts
    [ -z "$(systemctl --failed --no-legend)" ]
    systemctl --no-pager --full status cenote | sed 's/^/status: /'
    systemctl is-active zfs-scrub-monthly@tank.timer
    systemctl start zfs-scrub@tank.service
    await scrub_is_whole
    mkdir /tank/home/copy
    rsync -a /usr/share/ /tank/home/copy/ >/run/rsync.log 2>&1 &
    rsync=$!
    write_and_report /tank/home/killed acked >/run/acked 2>/run/writer.log &
    writer=$!
    await grep -q 'acked 40$' /run/acked
    kill -0 "$rsync"
    killed=$(date +%s%N)
    kill -9 "$(systemctl show --property=MainPID --value cenote)"
    # A command in this moment waits for the daemon of the unit, and starts none.
    zfs snapshot tank/home@killed
    pid=$(systemctl show --property=MainPID --value cenote)
    cenote daemon status | grep "as process $pid "
    code=0
    wait "$rsync" || code=$?
    say "rsync ended with $code: $(head -1 /run/rsync.log)"
    [ "$code" != 0 ]
    wait "$writer" || true
    say "the writer saw: $(head -1 /run/writer.log)"
    await mounts_are_there
    say "mounts were back after $((($(date +%s%N) - killed) / 1000000)) ms"
    for number in $(sed 's/.* //' /run/acked); do
        [ "$(cat "/tank/home/killed/$number")" = "$number" ]
    done
    say "$(wc -l </run/acked) files were acknowledged, and all are there"
    systemctl --no-pager --full status cenote | sed 's/^/status: /'
    [ "$(systemctl show --property=NRestarts --value cenote)" = 1 ]
    await test -z "$(systemctl --failed --no-legend)"
    check_mounts
    rsync -a /usr/share/ /tank/home/copy/
    [ -z "$(rsync -ain --checksum /usr/share/ /tank/home/copy/ | grep '^>' || true)" ]
    say "rsync completed the copy"
    live_for_an_hour
    # Now the machine loses its power, whenever the one outside likes.
    rsync -a /usr/lib/ /tank/home/lib/ >/dev/null 2>&1 &
    write_and_report /tank/home/cut cut
}

after() {
    check_mounts
    [ -z "$(systemctl --failed --no-legend)" ]
    for path in /tank/home/cut/*; do
        number=${path##*/}
        # The last ones may have had no fsync.
        if [ "$(cat "$path")" = "$number" ]; then echo "has $number"; fi
    done
    zpool scrub -w tank
    scrub_is_whole
    zpool status -x | grep 'all pools are healthy'
    upgrade
}

# A disk of the mirror is not there at the start: the spare takes over.
lost() {
    await mounts_are_there
    volume_is_there
    say "health: $(cenote health 2>&1 | head -3 | tr '\n' ' ')"
    await spare_is_in_use
    zpool wait -t resilver tank
    zpool status tank | sed 's/^/status: /'
    zpool status tank | grep -q 'virtio-d3 *ONLINE'
    cenote health | sed 's/^/trial: health: /'
    # Health names what is missing, and does not call it well.
    if cenote health >/dev/null; then return 1; fi
    cenote health | grep -q d2
    zpool scrub -w tank
    scrub_is_whole
}

spare_is_in_use() { zpool status tank | grep 'virtio-d4 *INUSE'; }

# An upgrade has the unit start another daemon, and all that was mounted is back.
upgrade() {
    first=$(systemctl show --property=MainPID --value cenote)
    # Nobody is there to type its passphrase again: with it, the old daemon would stay.
    zfs unmount tank/vault
    zfs unload-key tank/vault
    dpkg -i /packages/*.deb >/run/dpkg.log 2>&1 || { cat /run/dpkg.log; return 1; }
    sed -n 's/^cenote: /status: /p' /run/dpkg.log
    second=$(systemctl show --property=MainPID --value cenote)
    [ "$second" != 0 ]
    [ "$second" != "$first" ]
    cenote daemon status | grep "as process $second "
    [ "$(cat /tank/home/word)" = home ]
    [ "$(cat /tank/byfile/word)" = byfile ]
    [ "$(cat /srv/legacy/word)" = legacy ]
    [ -z "$(systemctl --failed --no-legend)" ]
    zpool status -x | grep 'all pools are healthy'
}

say "$phase begins after $(cut -d' ' -f1 /proc/uptime) s"
systemctl is-system-running --wait || true
"$phase"
say "$phase is whole"
systemctl poweroff 2>/dev/null
