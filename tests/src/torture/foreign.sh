# The turn of OpenZFS's kernel module: foreign.sh SECONDS. The power is cut when it ends.
set -eu
share=/mnt/share
root=/mnt/tank
mkdir -p $root
: >$share/begun
# Imports claim the logs, mounts replay them.
zpool import -f -N -R $root -d $share/devices tank
for name in $(cat $share/names); do
    zfs mount tank/$name
    python3 $share/guest.py list $root/tank/$name >$share/theirs-$name
done
zpool status -v tank >$share/status
zfs create tank/theirs
zpool sync tank
python3 $share/foreign.py $root/tank/theirs $share/ledger $1
