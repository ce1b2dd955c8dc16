# bzfs's tests of local replication (its LocalTestCase), of the package 1.25.0.
[ "$SIZE" = small ] && chosen='_basic_' || chosen=test_
run "$(cat <<KNOWN
KNOWN
)" <<TESTS
# Beside it lies an argparse of Python 2's days, which what zfs-autobackup's tests need brings.
mkdir "$SCRATCH/python"
cp -r "$UNPACKED"/python/bzfs* "$SCRATCH/python"
export TMPDIR="$SCRATCH" PYTHONPATH="$SCRATCH/python"
cd "$SCRATCH"
python3 - "$chosen" <<'PYTHON'
import sys, unittest
from bzfs_main.loggers import set_logging_runtime_defaults
from bzfs_tests.itest.ibase import ParametrizedTestCase
from bzfs_tests.itest.test_local import LocalTestCase
set_logging_runtime_defaults()
cases = ParametrizedTestCase.parametrize(LocalTestCase, {
    "ssh_mode": "local", "verbose": True, "min_pipe_transfer_size": 1024**2, "affix": "",
    "skip_missing_snapshots": "continue", "no_privilege_elevation": False,
    "encrypted_dataset": False})
suite = unittest.TestSuite(case for case in cases if sys.argv[1] in case.id())
unittest.TextTestRunner(verbosity=2).run(suite)
PYTHON
TESTS
for pool in wb_src wb_dst; do zpool destroy $pool; done
