# Sanoid takes and prunes snapshots of a tree, hour by hour of days that pass in minutes.
hours=480
[ "$SIZE" = small ] && hours=30
zfs create tank/sanoid/below
mkdir "$SCRATCH/conf"
cat >"$SCRATCH/conf/sanoid.conf" <<CONF
[tank/sanoid]
use_template = all
recursive = yes
[template_all]
frequently = 0
hourly = 24
daily = 7
monthly = 1
yearly = 0
autosnap = yes
autoprune = yes
CONF
# It insists on its defaults below /usr/share, where they may not be installed.
cat >"$SCRATCH/keep" <<KEEP
[ -e /usr/share/sanoid ] ||
    mount -t overlay none -o "lowerdir=$UNPACKED/usr/share:/usr/share" /usr/share
exec sanoid --configdir=$SCRATCH/conf --cache-dir=$SCRATCH/cache --run-dir=$SCRATCH/run \\
    --take-snapshots --prune-snapshots --force-update
KEEP

start=$(date -ud '2026-01-30 22:00' +%s)
for hour in $(seq 0 $((hours - 1))); do
    now=$((start + hour * 3600))
    date -ud "@$now" '+%F %T' >"$CLOCK.new"
    mv "$CLOCK.new" "$CLOCK"
    date -ud "@$now" '+%F_%T' >now
    date -ud "@$now" '+%F_%T' >below/now
    timed unshare -m sh -e "$SCRATCH/keep" >>"$SCRATCH/said" 2>&1 || {
        tail "$SCRATCH/said"
        exit 1
    }
done
if grep -iE "error|warn|cannot|critical" "$SCRATCH/said"; then exit 1; fi

for place in . below; do
    cd "$place"
    ls .zfs/snapshot >"$SCRATCH/list"
    count() { grep -c "_$1\$" "$SCRATCH/list" || true; }
    # One that is just as old as the oldest may be stays.
    most=$((hours < 25 ? hours : 25)) days=$((hours / 24 + 1))
    [ "$(count hourly)" -le $most ] && [ "$(count hourly)" -ge $((hours < 24 ? hours : 24)) ]
    [ "$(count daily)" -le 8 ] && [ "$(count daily)" -ge $((days < 7 ? days : 7)) ]
    [ "$(count monthly)" -le 2 ]
    while read -r name; do
        taken=${name#autosnap_}
        [ "$(cat ".zfs/snapshot/$name/now")" = "${taken%_*}" ]
    done <"$SCRATCH/list"
done
