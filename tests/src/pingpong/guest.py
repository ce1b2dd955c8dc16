# What both sides of a turn do to a file system: `change ROOT SEED` and `list ROOT`.
# Runs on Cenote's mount and, in the guest, on the mount of OpenZFS's kernel module.
import errno, hashlib, os, random, stat, sys


def files_below(root):
    for place, directories, names in os.walk(root):
        directories[:] = sorted(d for d in directories if d != ".zfs")
        for name in sorted(names) + directories:
            yield os.path.join(place, name)


def noise(rng, size):
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(size)
    if kind == 1:
        return (b"%08x text " % rng.getrandbits(32) * (size // 14 + 1))[:size]
    return (rng.randbytes(min(size, 50)) + bytes(size))[:size]


def length(rng):
    return rng.randrange(rng.choice([1, 100, 3000, 130000, 700000]) + 1)


def make(rng, place):
    path = os.path.join(place, "%s-%d" % (rng.choice("abcdefg"), rng.randrange(10**6)))
    kind = rng.randrange(12)
    if kind < 3:
        os.mkdir(path, 0o750)
    elif kind == 3:
        os.symlink("t/" * rng.randrange(1, 200), path)
    elif kind == 4:
        os.mkfifo(path)
    elif kind == 5:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(rng.randrange(200), rng.randrange(200)))
    else:
        with open(path, "wb") as f:
            f.write(noise(rng, length(rng)))
        os.chmod(path, rng.randrange(0o10000))
        os.chown(path, rng.randrange(3000), rng.randrange(3000))
    return path


def edit(rng, path):
    kind = rng.randrange(5)
    if kind == 0:
        os.truncate(path, rng.randrange(300000))
    elif kind < 3:
        with open(path, "r+b") as f:
            f.seek(rng.randrange(os.path.getsize(path) * 2 + 1))
            f.write(noise(rng, length(rng)))
    elif kind == 3:
        name = "user.n%d" % rng.randrange(4)
        try:
            os.setxattr(path, name, noise(rng, rng.randrange(1, 5000)))
            if rng.randrange(3) == 0:
                os.removexattr(path, name)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSPC):
                raise
    else:
        os.utime(path, ns=(10**18, rng.randrange(2 * 10**18)))


def change(root, seed):
    rng = random.Random(seed)
    for _ in range(250):
        paths = list(files_below(root))
        regular = [p for p in paths if stat.S_ISREG(os.lstat(p).st_mode)]
        directories = [p for p in paths if stat.S_ISDIR(os.lstat(p).st_mode)] + [root]
        kind = rng.randrange(20)
        place = rng.choice(directories)
        if kind < 8 or not regular:
            make(rng, place)
        elif kind < 13:
            edit(rng, rng.choice(regular))
        elif kind < 15:
            os.unlink(rng.choice(regular))
        elif kind < 17:
            source = rng.choice(regular)
            os.rename(source, os.path.join(place, os.path.basename(source)))
        elif kind == 17:
            os.link(rng.choice(regular), os.path.join(place, "link-%d" % rng.randrange(10**6)))
        elif place != root and not os.listdir(place):
            os.rmdir(place)


def show(root):
    for path in [root] + list(files_below(root)):
        st = os.lstat(path)
        row = [os.path.relpath(path, root), "%o" % st.st_mode, st.st_uid, st.st_gid]
        row += [st.st_mtime_ns, st.st_nlink, st.st_ino if path != root else "root"]
        if stat.S_ISREG(st.st_mode):
            with open(path, "rb") as f:
                row += [st.st_size, hashlib.sha256(f.read()).hexdigest()]
        elif stat.S_ISLNK(st.st_mode):
            row += [os.readlink(path)]
        elif stat.S_ISCHR(st.st_mode):
            row += [st.st_rdev]
        if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
            for name in sorted(os.listxattr(path)):
                row += [name, hashlib.sha256(os.getxattr(path, name)).hexdigest()]
        print(*row)


if sys.argv[1] == "change":
    change(sys.argv[2], int(sys.argv[3]))
else:
    show(sys.argv[2])
