# zfs-auto-snapshot takes and prunes snapshots of a tree, hour by hour of days that pass in minutes.
hours=480
[ "$SIZE" = small ] && hours=30
zfs create tank/zfs-auto-snapshot/below
zfs create -o com.sun:auto-snapshot=false tank/zfs-auto-snapshot/left-out
zfs create -o com.sun:auto-snapshot:daily=false tank/zfs-auto-snapshot/hourly-only

keep() {
    timed zfs-auto-snapshot --quiet "$@" // >>"$SCRATCH/said" 2>&1 || {
        tail "$SCRATCH/said"
        exit 1
    }
}

start=$(date -ud '2026-01-30 22:00' +%s)
for hour in $(seq 0 $((hours - 1))); do
    now=$((start + hour * 3600))
    date -ud "@$now" '+%F %T' >"$CLOCK.new"
    mv "$CLOCK.new" "$CLOCK"
    for place in . below hourly-only; do date -ud "@$now" '+%F-%H%M' >$place/now; done
    keep --label=hourly --keep=24
    [ "$(date -ud "@$now" +%H)" = 00 ] || continue
    keep --label=daily --keep=7
done
[ ! -s "$SCRATCH/said" ] || { cat "$SCRATCH/said"; exit 1; }

days=$(((hours + 21) / 24))
for place in . below hourly-only left-out; do
    ls "$place/.zfs/snapshot" >"$SCRATCH/list"
    hourly=$((hours < 24 ? hours : 24)) daily=$((days < 7 ? days : 7))
    [ "$place" = hourly-only ] && daily=0
    [ "$place" = left-out ] && hourly=0 daily=0
    [ "$(grep -c hourly- "$SCRATCH/list" || true)" = $hourly ]
    [ "$(grep -c daily- "$SCRATCH/list" || true)" = $daily ]
    while read -r name; do
        taken=${name#zfs-auto-snap_}
        [ "$(cat "$place/.zfs/snapshot/$name/now")" = "${taken#*ly-}" ]
    done <"$SCRATCH/list"
done
