# Processes take turns at a database that lives in a mapping, in each way of writing it: what one
# commits the next has to see, and a copy without holes has to have it all.
rounds=400
[ "$SIZE" = small ] && rounds=40

cat >turns.py <<'PYTHON'
import lmdb, os, random, struct, subprocess, sys

PROCESSES, ROUNDS = 4, int(sys.argv[1])


def number(value):
    return struct.unpack('<Q', value[:8])[0] if value else 0


def totals(txn):
    values = ((key, number(value)) for key, value in txn.cursor())
    sums = {key: value for key, value in values}
    return sums.pop(b'total'), sum(sums.values())


def work(open_it, seed):
    choice, env = random.Random(seed), open_it()
    for turn in range(ROUNDS):
        with env.begin(write=True) as txn:
            key = b'%04d' % choice.randrange(200)
            count = struct.pack('<Q', number(txn.get(key)) + 1)
            txn.put(key, count + os.urandom(choice.randrange(3000)))
            txn.put(b'total', struct.pack('<Q', number(txn.get(b'total')) + 1))
        if turn % 7 == 0:
            with env.begin() as txn:
                total, entries = totals(txn)
                assert total == entries, (total, entries)


for writemap in False, True:
    for sync in False, True:
        name = f'writemap-{writemap}-sync-{sync}'
        options = {'map_size': 64 << 20, 'writemap': writemap, 'sync': sync, 'metasync': sync}
        open_it = lambda: lmdb.open(name, **options)
        children = []
        for seed in range(PROCESSES):
            child = os.fork()
            if child == 0:
                try:
                    work(open_it, seed)
                except BaseException as error:
                    print(name, repr(error), flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(child)
        assert not any([os.waitpid(child, 0)[1] for child in children]), name
        env = open_it()
        with env.begin(write=True) as txn:
            txn.put(b'last', bytes(8) + b'word')
        copy = name + '-copy'
        os.mkdir(copy)
        subprocess.run(['cp', '--sparse=auto', name + '/data.mdb', copy], check=True)
        subprocess.run(['cmp', name + '/data.mdb', copy + '/data.mdb'], check=True)
        with env.begin() as txn:
            assert totals(txn) == (PROCESSES * ROUNDS,) * 2, name
PYTHON
/usr/bin/python3 turns.py "$rounds"
