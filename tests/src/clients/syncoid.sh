# Syncoid replicates a tree over local pipes: with snapshots of its own, from bookmarks, after an
# interruption, and with clones.
rounds=12 files=400
[ "$SIZE" = small ] && rounds=3 files=40
src=tank/syncoid/src dst=tank/syncoid/dst
zfs create $src
zfs create $src/below
zfs create -V 8M -s $src/volume

run() {
    syncoid --quiet "$@" >"$SCRATCH/said" 2>&1 || {
        cat "$SCRATCH/said"
        exit 1
    }
    # It can do without pv, mbuffer and lzop.
    grep -v ' not available on ' "$SCRATCH/said" >"$SCRATCH/rest" || true
    if grep -iE 'critical|warn|error|cannot' "$SCRATCH/rest"; then exit 1; fi
}
change() {
    for i in $(seq $files); do
        head -c $((RANDOM * 3)) /dev/urandom >"$1/$((RANDOM % (files * 2)))"
    done
    rm -f "$1/$((RANDOM % files))"
}
same() {
    diff -r --no-dereference "$PWD/src/$1" "$PWD/dst/$1"
}

# A whole tree, with syncoid's own snapshots, of which one stays on each side.
change src
change src/below
for round in $(seq "$rounds"); do
    run --recursive $src $dst
    same .
    [ "$(zfs list -Ht snapshot -o name $src | wc -l)" = 1 ]
    [ "$(zfs list -Ht snapshot -o name $dst | wc -l)" = 1 ]
    change src
    [ $((round % 2)) = 0 ] || change src/below
done
[ "$(zfs get -Hpo value volsize $dst/volume)" = 8388608 ]

# Existing snapshots only; a bookmark takes the place of one that is gone.
zfs create $src/kept
change src/kept
zfs snapshot $src/kept@one
run --no-sync-snap --create-bookmark $src/kept $dst/kept
change src/kept
zfs snapshot $src/kept@two
zfs destroy $src/kept@one
run --no-sync-snap --create-bookmark $src/kept $dst/kept
same kept
zfs snapshot $src/kept@three
run --no-sync-snap --create-bookmark $src/kept $dst/kept
[ "$(zfs list -Ht bookmark -o name -r $src/kept | tail -1)" = "$src/kept#three" ]

# A receive that was interrupted is gone on with.
zfs create $src/large
head -c 24M /dev/urandom >src/large/file
zfs snapshot $src/large@all
zfs send $src/large@all | head -c 9M | zfs receive -s $dst/large && exit 1
token=$(zfs get -Ho value receive_resume_token $dst/large)
[ "$token" != - ]
run --no-sync-snap $src/large $dst/large
[ "$(zfs get -Ho value receive_resume_token $dst/large)" = - ]
same large

# A clone arrives as a clone.
zfs clone $src/kept@three $src/trial
change src/trial
zfs snapshot $src/trial@end
run --recursive --no-sync-snap $src $dst
same trial
[ "$(zfs get -Ho value origin $dst/trial)" = $dst/kept@three ]
