"""Sending and receiving by OpenZFS's library, driven through openzfs-ref.

usage: rival.py OPENZFS-REF send DIRECTORY SNAPSHOT BASE|- FLAGS      to nowhere
       rival.py OPENZFS-REF receive DIRECTORY TARGET STREAM           to the end of the sync

Prints bytes, seconds, seconds of the processor, and KiB at the peak as JSON. Import and export are not counted.
"""

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import tempfile
import time
import types


def load(path):
    loader = importlib.machinery.SourceFileLoader("openzfs_ref", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("openzfs_ref", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def send(ref, pool, snapshot, base, flags):
    """Like the pool's own send, but for the copy that it makes of everything."""
    total = [0]
    out = os.open("/dev/null", os.O_WRONLY)

    def write(_os, buffer, length, _argument):
        os.write(out, (ctypes.c_char * length).from_address(buffer))
        total[0] += length
        return 0

    proto = ctypes.CFUNCTYPE(ref.INT, ref.PTR, ref.PTR, ref.INT, ref.PTR)

    class Params(ctypes.Structure):
        _fields_ = [("func", proto), ("arg", ref.PTR), ("dryrun", ref.INT)]

    params, offset = Params(func=proto(write)), ctypes.c_int64(0)
    error = pool.lib.dmu_send(snapshot.encode(), base.encode() if base != "-" else None, "e" in flags,
                              "L" in flags, "c" in flags, "w" in flags, 0, 0, 0, None, out,
                              ctypes.byref(offset), ctypes.byref(params))
    pool.zp.check(error, "send %s" % snapshot)
    return total[0]


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    program, what, directory, name = sys.argv[1:5]
    temporary = tempfile.mkdtemp(prefix="rival-")
    os.environ["OPENZFS_REF_TMP"] = temporary
    ref = load(program)
    zpool = ref.bench_zpool(types.SimpleNamespace(arc=256 << 20))
    pool_name = name.split("/")[0].split("@")[0]
    with zpool.import_pool(directory, pool_name, readonly=what == "send") as pool:
        start, used = time.monotonic(), processor()
        if what == "send":
            size = send(ref, pool, name, sys.argv[5], sys.argv[6])
        else:
            size = os.stat(sys.argv[5]).st_size
            pool.receive(name, sys.argv[5])
            pool.sync()
        answer = {"bytes": size, "seconds": time.monotonic() - start, "cpu": processor() - used,
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    print(json.dumps(answer), flush=True)
    for file in os.listdir(temporary):
        os.unlink(os.path.join(temporary, file))
    os.rmdir(temporary)
    ref.leave(0)


main()
