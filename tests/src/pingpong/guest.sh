# A turn of OpenZFS's kernel module: guest.sh SEED. The shared directory holds devices and scripts.
set -eu
seed=$1
share=/mnt/share
root=/mnt/tank
mkdir -p $root
: >$share/begun
zpool import -N -R $root -d $share/devices tank
for key in $share/key; do [ -e "$key" ] && zfs load-key -L file://$key tank/shared || true; done
zfs mount tank/shared
where=$root/tank/shared
python3 $share/guest.py list $where >$share/theirs-before
for snapshot in $(zfs list -H -o name -t snapshot tank/shared 2>/dev/null | cut -d@ -f2); do
    python3 $share/guest.py list $where/.zfs/snapshot/$snapshot >$share/theirs-$snapshot
done
# What Cenote cloned, as it left it, and then changed.
for clone in $(zfs list -H -o name -r tank | grep /ours- || true); do
    zfs mount $clone
    python3 $share/guest.py list $root/$clone >$share/theirs-before-${clone#tank/}
    python3 $share/guest.py change $root/$clone $seed
    python3 $share/guest.py list $root/$clone >$share/theirs-after-${clone#tank/}
    if [ $((seed % 5)) = 0 ]; then
        zfs promote $clone
        zfs promote tank/shared
    fi
done
# One of Cenote's clones goes, with its livelist.
last=$(zfs list -H -o name -r tank | grep /ours- | tail -n +2 | head -n 1)
[ -z "$last" ] || zfs destroy -r $last
# Whose checkpoint it is does not matter.
if [ "$(zpool get -Hp -o value checkpoint tank)" != - ]; then
    zpool checkpoint -d -w tank
fi
# The oldest of Cenote's snapshots goes, unless a clone began as it.
oldest=$(zfs list -H -o name -s creation -t snapshot tank/shared | grep @ours- | head -n 1)
zfs release kept $oldest 2>/dev/null || true
zfs destroy $oldest 2>/dev/null || zfs list -H -o clones $oldest | grep -q /
# There and back.
zfs snapshot tank/shared@back-$seed
python3 $share/guest.py list $where >$share/back
python3 $share/guest.py change $where $((seed + 500000))
zfs rollback tank/shared@back-$seed
python3 $share/guest.py list $where | cmp - $share/back
zfs destroy tank/shared@back-$seed

zfs snapshot tank/shared@turn-$seed
zfs bookmark tank/shared@turn-$seed tank/shared#mark-$seed
[ $((seed % 2)) = 0 ] && zfs hold kept tank/shared@turn-$seed || true
if [ $((seed % 3)) = 0 ]; then
    zfs clone -o canmount=noauto tank/shared@turn-$seed tank/clone-$seed
fi
python3 $share/guest.py change $where $seed
sync
python3 $share/guest.py list $where >$share/theirs-after
[ $((seed % 4)) = 3 ] && zpool checkpoint tank || true
zpool scrub -w tank
zpool status -v tank >$share/status
zpool export tank
