"""Loop devices, attached by one call each; the names of our files tell whose they are."""
import errno, fcntl, os, stat, struct

LOOP_CTL_GET_FREE = 0x4C82
LOOP_CONFIGURE = 0x4C0A
READ_ONLY = 1
# Between asking for a free device and taking it another process may have taken it.
ATTEMPTS = 64


def attach(file, flags=0):
    """Attaches a free loop device to `file`, makes its node in /dev, and returns its number."""
    control = os.open("/dev/loop-control", os.O_RDWR)
    backing = os.open(file, os.O_RDONLY if flags & READ_ONLY else os.O_RDWR)
    try:
        for _ in range(ATTEMPTS):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            node = f"/dev/loop{number}"
            if not os.path.exists(node):
                os.mknod(node, 0o660 | stat.S_IFBLK, os.makedev(7, number))
            device = os.open(node, os.O_RDONLY if flags & READ_ONLY else os.O_RDWR)
            # struct loop_config: fd, block size, loop_info64 (flags at 52, name at 56), reserved.
            config = struct.pack("II52xI64s112x64x", backing, 0, flags, file.encode()[-63:])
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, config)
                return number
            except OSError as error:
                os.unlink(node)
                if error.errno != errno.EBUSY:
                    raise
            finally:
                os.close(device)
        raise OSError(errno.EBUSY, "no free loop device")
    finally:
        os.close(backing)
        os.close(control)
