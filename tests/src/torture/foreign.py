# Small synced files on a mount of OpenZFS: foreign.py ROOT LEDGER SECONDS. What is acknowledged is
# written to the ledger, which lies on another machine.
import hashlib, os, random, sys, time

root, ledger, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
rng = random.Random(seconds)


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


with open(ledger, "w") as acknowledged:
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        data = rng.randbytes(rng.randrange(rng.choice([100, 5000, 200000])))
        draft, name = os.path.join(root, "draft"), "f%d" % number
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, os.path.join(root, name))
        sync(root)
        acknowledged.write("%s %s\n" % (name, hashlib.sha256(data).hexdigest()))
        acknowledged.flush()
        os.fsync(acknowledged.fileno())
