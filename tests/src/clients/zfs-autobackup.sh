# zfs-autobackup's own tests, of the package 4.0rc2 with its sources. Each name is followed by the
# reason why that case fails.
for i in 0 1 2; do
    [ ! -e /dev/ram$i ] || [ -L /dev/ram$i ] || {
        echo "/dev/ram$i is in use"
        exit 1
    }
    truncate -s 512M "$SCRATCH/ram$i"
    ln -sf "$SCRATCH/ram$i" /dev/ram$i
done
trap 'rm -f /dev/ram0 /dev/ram1 /dev/ram2' EXIT
run "$(cat <<KNOWN
test_initial_abortedresume a receive that OpenZFS refuses in a full pool has room here
test_resume_encrypt_with_no_key as above
test_colored it asks for colours in a log, and none of ZFS
KNOWN
)" <<TESTS
cd "$UNPACKED/zfs_autobackup/tests"
PYTHONPATH=..:$UNPACKED/python python3 -m unittest discover -v .
TESTS
for pool in test_source1 test_source2 test_target1; do zpool destroy $pool; done
