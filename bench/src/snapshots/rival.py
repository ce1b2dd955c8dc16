"""Snapshots by OpenZFS's library, driven through openzfs-ref: made, and destroyed, one by one and together.

usage: rival.py OPENZFS-REF DIRECTORY POOL DATASETS SNAPSHOTS     prints seconds as JSON
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import time


def load(path):
    loader = importlib.machinery.SourceFileLoader("openzfs_ref", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("openzfs_ref", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def main():
    program, directory, pool_name, datasets, snapshots = sys.argv[1:]
    datasets, snapshots = int(datasets), int(snapshots)
    temporary = tempfile.mkdtemp(prefix="rival-")
    os.environ["OPENZFS_REF_TMP"] = temporary
    ref = load(program)
    zpool = ref.Zpool()
    lib, nv = zpool.lib, zpool.nv
    lib.dsl_dataset_snapshot.argtypes = [ref.PTR, ref.PTR, ref.PTR]
    lib.dsl_destroy_snapshots_nvl.argtypes = [ref.PTR, ref.INT, ref.PTR]
    seconds = {}

    def timed(name, work):
        start = time.monotonic()
        work()
        seconds[name] = time.monotonic() - start

    def check(error):
        if error:
            raise SystemExit("OpenZFS says %d" % error)

    with zpool.import_pool(directory, pool_name) as pool:
        heads = ["%s/rival%d" % (pool_name, n) for n in range(datasets)]
        for head in heads:
            check(lib.dmu_objset_create(head.encode(), 4, 0, None, None, None))
        pool.sync()
        errors = nv.make()
        tree = nv.make({head + "@tree": True for head in heads})
        timed("tree", lambda: check(lib.dsl_dataset_snapshot(tree, None, errors)))

        def one_by_one(first, last):
            for n in range(first, last):
                check(lib.dmu_objset_snapshot_one(heads[0].encode(), b"n%d" % n))

        def destroy(first, last):
            names = nv.make({"%s@n%d" % (heads[0], n): True for n in range(first, last)})
            check(lib.dsl_destroy_snapshots_nvl(names, 0, errors))

        half = snapshots // 2
        timed("first half", lambda: one_by_one(0, half))
        timed("second half", lambda: one_by_one(half, snapshots))
        timed("destroy", lambda: destroy(0, snapshots))
    print(json.dumps(seconds), flush=True)
    for name in os.listdir(temporary):
        os.unlink(os.path.join(temporary, name))
    os.rmdir(temporary)
    ref.leave(0)


main()
