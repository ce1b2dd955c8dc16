//! What programs expect of a mount beyond single operations: files removed while in use, handles
//! that outlive a mount, permissions revoked by a change, and mounts that follow each other at
//! once.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::python::python;
use cenote_tests::site::Site;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A capability as the kernel stores it: version 2, effective, `CAP_NET_BIND_SERVICE`.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const NOBODY: u32 = 65_534;

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

#[test]
fn what_is_gone_is_shown_while_it_is_used() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/fs")?;
    let root = site.path("tank/fs");
    let removed = root.join("removed");
    fs::create_dir(&removed)?;
    let directory = File::open(&removed)?;
    fs::remove_dir(&removed)?;
    let shown = directory.metadata()?;
    ensure!(shown.is_dir() && shown.nlink() == 0, "{shown:?}");
    ensure!(rustix::fs::fstatfs(&directory)?.f_bfree > 0);
    drop(directory);
    // Another directory at its place, with its number perhaps, is another.
    fs::create_dir(&removed)?;
    ensure!(fs::metadata(&removed)?.nlink() == 2);
    let replaced = root.join("replaced");
    fs::create_dir(&replaced)?;
    let directory = File::open(&replaced)?;
    fs::rename(&removed, &replaced)?;
    ensure!(directory.metadata()?.nlink() == 0, "replaced");
    ensure!(fs::metadata(&replaced)?.nlink() == 2);
    let path = root.join("file");
    fs::write(&path, "contents")?;
    let named = rustix::fs::open(&path, OFlags::PATH, Mode::empty())?;
    fs::hard_link(&path, root.join("other"))?;
    fs::remove_file(&path)?;
    ensure!(rustix::fs::fstat(&named)?.st_nlink == 1, "one name is left");
    fs::remove_file(root.join("other"))?;
    let shown = rustix::fs::fstat(&named)?;
    ensure!(shown.st_nlink == 0 && shown.st_size == 8, "{shown:?}");
    drop((directory, named));
    site.finish()
}

/// A handle is valid in the next mount, too, as long as the file exists.
#[test]
fn handles_outlive_the_mount() -> Result<()> {
    const SCRIPT: &str = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
step, root, kept = sys.argv[1:]
names = ['file', 'a/b', 'a/b/deep', 'gone']
if step == 'take':
    for name in names:
        handle = ctypes.create_string_buffer(b'\\x80\\0\\0\\0' + b'\\0' * 136)
        number = ctypes.c_int()
        path = os.path.join(root, name).encode()
        if libc.name_to_handle_at(-100, path, handle, ctypes.byref(number), 0) < 0:
            sys.exit('no handle: ' + os.strerror(ctypes.get_errno()))
        open(os.path.join(kept, name.replace('/', '-')), 'wb').write(handle.raw)
else:
    place = os.open(root, os.O_RDONLY)
    for name in names:
        handle = open(os.path.join(kept, name.replace('/', '-')), 'rb').read()
        found = libc.open_by_handle_at(place, handle, os.O_RDONLY)
        if name == 'gone':
            assert found < 0 and ctypes.get_errno() == errno.ESTALE, found
            continue
        assert found >= 0, name + ': ' + os.strerror(ctypes.get_errno())
        assert os.fstat(found).st_ino == os.stat(os.path.join(root, name)).st_ino, name
        if name == 'a/b':
            above = os.open('..', os.O_RDONLY, dir_fd=found)
            assert os.fstat(above).st_ino == os.stat(os.path.join(root, 'a')).st_ino
            assert os.listdir(found) == ['deep']
";
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/fs")?;
    let root = site.path("tank/fs");
    let kept = site.cenote().subdirectory("handles")?;
    fs::create_dir_all(root.join("a/b"))?;
    for name in ["file", "a/b/deep", "gone"] {
        fs::write(root.join(name), name)?;
    }
    if !python(SCRIPT, &["take", text(&root)?, text(&kept)?], None)? {
        return site.finish();
    }
    fs::remove_file(root.join("gone"))?;
    // The number may be another file's next.
    fs::write(root.join("new"), "new")?;
    python(SCRIPT, &["use", text(&root)?, text(&kept)?], None)?;
    // A kernel that has seen none of them yet.
    site.export()?;
    site.import("")?;
    python(SCRIPT, &["use", text(&root)?, text(&kept)?], None)?;
    site.finish()
}

/// Changing a program takes its capabilities, changing its list as a stranger its setgid bit.
#[test]
fn changes_take_privileges_away() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O acltype=posix")?;
    for xattr in ["sa", "dir"] {
        let dataset = format!("tank/{xattr}");
        site.ok(&format!("zfs create -o xattr={xattr} {dataset}"))?;
        let root = site.path(&dataset);
        fs::set_permissions(site.path("tank"), fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("source"), [1; 5000])?;
        let path = root.join("program");
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)?;
        let changes: [(&str, &dyn Fn() -> Result<()>); 5] = [
            ("write", &|| Ok(file.write_all_at(b"other", 0)?)),
            ("truncate", &|| Ok(file.set_len(100)?)),
            ("allocate", &|| {
                let flags = FallocateFlags::empty();
                Ok(rustix::fs::fallocate(&file, flags, 0, 4096)?)
            }),
            ("chown", &|| {
                Ok(std::os::unix::fs::chown(&path, Some(1), None)?)
            }),
            ("copy", &|| {
                let source = File::open(root.join("source"))?;
                rustix::fs::copy_file_range(&source, Some(&mut 0), &file, Some(&mut 0), 5000)?;
                Ok(())
            }),
        ];
        for (what, change) in changes {
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(&path, "security.capability", &CAPABILITY, flags)?;
            rustix::fs::setxattr(&path, "user.kept", b"kept", flags)?;
            change()?;
            let mut value = [0; 64];
            let left = rustix::fs::getxattr(&path, "security.capability", &mut value[..]);
            ensure!(left == Err(Errno::NODATA), "{xattr}, {what}: {left:?}");
            let kept = rustix::fs::getxattr(&path, "user.kept", &mut value[..])?;
            ensure!(&value[..kept] == b"kept", "{xattr}, {what}");
        }
        rights_of_users(&path).context(xattr)?;
    }
    site.finish()
}

/// A user in the file's group may keep its setgid bit, another not.
fn rights_of_users(path: &Path) -> Result<()> {
    const SET_LIST: &str = "
import os, struct, sys
entries = b''.join(struct.pack('<HHI', tag, 7, 0xffffffff) for tag in (1, 4, 0x20))
os.setxattr(sys.argv[1], 'system.posix_acl_access', struct.pack('<I', 2) + entries)
";
    const ALLOCATE: &str = "
import os, sys
os.posix_fallocate(os.open(sys.argv[1], os.O_WRONLY), 0, 8192)
";
    std::os::unix::fs::chown(path, Some(NOBODY), Some(77))?;
    let mode = || Ok::<_, std::io::Error>(fs::metadata(path)?.mode() & 0o7777);
    for (group, after) in [(77, 0o2777), (78, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o2755))?;
        if !python(SET_LIST, &[text(path)?], Some((NOBODY, group)))? {
            return Ok(());
        }
        ensure!(mode()? == after, "a list by group {group}: {:o}", mode()?);
    }
    for (group, after) in [(77, 0o2766), (78, 0o766)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o6766))?;
        python(ALLOCATE, &[text(path)?], Some((NOBODY, group)))?;
        ensure!(
            mode()? == after,
            "allocated by group {group}: {:o}",
            mode()?
        );
    }
    Ok(())
}

/// Whatever changes a file's contents or group takes the same bits away as on the kernel's own file
/// systems. A stranger's `open(O_TRUNC)` left setuid, and each write by somebody outside the group
/// setgid of a file that the group may not execute.
#[test]
fn privileges_go_as_on_other_file_systems() -> Result<()> {
    const COMPARE: &str = "
import os, sys
def opened(name, flags, act=lambda file: None):
    file = os.open(name, flags)
    act(file)
    os.close(file)
APPEND = os.O_WRONLY | os.O_APPEND
def allocate(file):
    os.posix_fallocate(file, 0, 9000)
def copy(file):
    os.copy_file_range(os.open('source', os.O_RDONLY), file, 100)
WAYS = {
    'open': lambda name: opened(name, os.O_RDWR),
    'open(O_TRUNC)': lambda name: opened(name, os.O_WRONLY | os.O_TRUNC),
    'truncate': lambda name: os.truncate(name, 10),
    'ftruncate': lambda name: opened(name, os.O_WRONLY, lambda file: os.ftruncate(file, 10)),
    'write': lambda name: opened(name, os.O_RDWR, lambda file: os.pwrite(file, b'x', 0)),
    'append': lambda name: opened(name, APPEND, lambda file: os.write(file, b'x')),
    'allocate': lambda name: opened(name, os.O_WRONLY, allocate),
    'copy': lambda name: opened(name, os.O_WRONLY, copy),
}
OWNER_WAYS = {'chgrp': lambda name: os.chown(name, -1, 78)}
ROOT_WAYS = WAYS | {'chown': lambda name: os.chown(name, 2, 79)}
# The user, its groups, and what it does with files of user 1 and group 77.
WHO = [(65534, [65534], WAYS), (65534, [77], WAYS), (65534, [65534, 77], WAYS),
    (1, [77, 78], WAYS | OWNER_WAYS), (1, [78], OWNER_WAYS), (0, [0], ROOT_WAYS)]
MODES = [0o6777, 0o4777, 0o2777, 0o6767, 0o2767, 0o2666]
def run(root):
    os.chdir(root)
    os.chmod('.', 0o755)
    open('source', 'w').write('s' * 5000)
    found = {}
    for user, groups, ways in WHO:
        files = {(mode, way): f'{mode:o}-{way}-{user}-{groups}' for mode in MODES for way in ways}
        for (mode, way), name in files.items():
            open(name, 'w').write('x' * 5000)
            os.chown(name, 1, 77)
            os.chmod(name, mode)
            os.stat(name)
        child = os.fork()
        if child == 0:
            os.setgroups(groups[1:])
            os.setresgid(*groups[:1] * 3)
            os.setresuid(user, user, user)
            for (mode, way), name in files.items():
                ways[way](name)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, 'not allowed'
        for name in files.values():
            found[name] = f'{os.stat(name).st_mode:o}'
    return found
here, there = map(run, sys.argv[1:])
wrong = {name: (mode, there[name]) for name, mode in here.items() if mode != there[name]}
assert not wrong, wrong
assert here['6777-open(O_TRUNC)-65534-[65534]'] == '100777'
";
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let reference = site.cenote().subdirectory("reference")?;
    let root = site.path("tank");
    python(COMPARE, &[text(&root)?, text(&reference)?], None)?;
    site.finish()
}

/// The kernel starts a program with the mode that it remembers: after a stranger had changed a
/// setuid program, it ran as its owner until something asked for its mode.
#[test]
fn what_strangers_may_do_with_files() -> Result<()> {
    const CHANGE: &str = "
import errno, os, subprocess, sys
for path in sys.argv[1:]:
    runs_as = lambda: subprocess.check_output([path, '-u']).strip()
    assert runs_as() == b'0', 'setuid has no effect'
    size = os.stat(path).st_size
    runs_as()
    file = os.open(path, os.O_RDWR)
    if path.endswith('write'):
        os.pwrite(file, b'x', size)
    else:
        os.posix_fallocate(file, size, 4096)
    os.close(file)
    assert runs_as() == b'65534', path
";
    const ATTRIBUTES: &str = "
import errno, os, sys
path = sys.argv[1]
wrong = {'system.foo': errno.EOPNOTSUPP, 'system.nfs4_acl': errno.EOPNOTSUPP,
    'user.': errno.EINVAL, 'trusted.a': errno.EPERM}
unknown = ['foo.bar', 'foo', '.user.a', '/user.a', 'USER.a', 'os2.a', 'freebsd:system:a']
for name in unknown:
    wrong[name] = errno.EOPNOTSUPP
    try:
        os.getxattr(path, name)
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP, (name, error)
    else:
        sys.exit(name + ' was read')
for name, wanted in wrong.items():
    try:
        os.setxattr(path, name, b'1')
    except OSError as error:
        assert error.errno == wanted, (name, error)
    else:
        sys.exit(name + ' was set')
os.setxattr(path, 'user.a', b'1')
assert os.listxattr(path) == ['user.a'], os.listxattr(path)
";
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let root = site.path("tank");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
    let mut programs = Vec::new();
    for number in 0..4 {
        for way in ["write", "allocate"] {
            let path = root.join(format!("{number}-{way}"));
            fs::copy("/usr/bin/id", &path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4777))?;
            programs.push(path);
        }
    }
    let words = programs.iter().map(|path| text(path));
    let words: Vec<&str> = words.collect::<Result<_>>()?;
    let stranger = Some((NOBODY, NOBODY));
    python(CHANGE, &words, stranger)?;
    let flags = XattrFlags::empty();
    rustix::fs::setxattr(&programs[0], "trusted.secret", b"x", flags)?;
    python(ATTRIBUTES, &words[..1], stranger)?;
    let mut names = [0; 64];
    let length = rustix::fs::listxattr(&programs[0], &mut names[..])?;
    ensure!(
        names[..length].starts_with(b"trusted.secret\0"),
        "root sees it"
    );
    site.finish()
}

/// A read of an extended attribute during its replacement returns the old value or the new one.
/// (xfstests generic/037.)
#[test]
fn values_are_replaced_as_a_whole() -> Result<()> {
    const TURNS: u32 = 3000;
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O xattr=dir")?;
    let path = site.path("tank").join("file");
    fs::write(&path, "")?;
    let set = |value: &[u8]| rustix::fs::setxattr(&path, "user.a", value, XattrFlags::empty());
    set(b"short")?;
    std::thread::scope(|scope| {
        let setter = scope.spawn(|| {
            for turn in 0..TURNS {
                set([&b"short"[..], b"something longer"][turn as usize % 2])?;
            }
            Ok::<(), Errno>(())
        });
        while !setter.is_finished() {
            let mut value = [0; 64];
            let length = rustix::fs::getxattr(&path, "user.a", &mut value[..])?;
            let found = &value[..length];
            let is_whole = found == b"short" || found == b"something longer";
            ensure!(is_whole, "{:?}", String::from_utf8_lossy(found));
        }
        Ok(setter.join().expect("no panic")?)
    })?;
    site.finish()
}

#[test]
fn times_of_reads_are_set_as_a_change() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let path = site.path("tank").join("file");
    fs::write(&path, "")?;
    let before = fs::metadata(&path)?;
    std::thread::sleep(Duration::from_millis(20));
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(1_000_000_000, 0),
        last_modification: time(0, rustix::fs::UTIME_OMIT),
    };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
    let after = fs::metadata(&path)?;
    ensure!(after.atime() == 1_000_000_000 && after.modified()? == before.modified()?);
    let changed = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    ensure!(changed(&after) > changed(&before), "ctime stayed");
    site.finish()
}

/// The kernel ends a connection a little after `umount` returns.
#[test]
fn a_mount_follows_another_at_once() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create -o mountpoint=legacy tank/fs")?;
    let place = site.cenote().subdirectory("place")?;
    let at = text(&place)?;
    let unmount = || -> Result<()> {
        let mut busy = 0;
        // A child of another test may have a copy of what is open there for a moment.
        while !Command::new("umount").arg(at).status()?.success() {
            busy += 1;
            ensure!(busy < 100, "{at} stays busy");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    };
    site.ok(&format!("cenote mount tank/fs {at}"))?;
    for turn in 0..100 {
        fs::write(place.join("turn"), turn.to_string())?;
        unmount()?;
        site.ok(&format!("cenote mount tank/fs {at}"))?;
        ensure!(fs::read_to_string(place.join("turn"))? == turn.to_string());
    }
    unmount()?;
    site.finish()
}

/// The last mount that was unmounted was remembered until the next one, with its files and its
/// key: `zfs unload-key` said that the dataset is busy.
#[test]
fn a_mount_that_is_gone_keeps_no_key() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let location = format!("-o keylocation=file://{}", key.display());
    let encryption = "-o encryption=on -o keyformat=passphrase -o pbkdf2iters=100000";
    site.ok(&format!("zfs create {encryption} {location} tank/e"))?;
    fs::write(site.path("tank/e").join("file"), "contents")?;
    site.ok("zfs unmount tank/e")?;
    site.ok("zfs unload-key tank/e")?;
    site.ok("zfs mount -l tank/e")?;
    ensure!(fs::read_to_string(site.path("tank/e").join("file"))? == "contents");
    site.ok("zfs unmount -u tank/e")?;
    let status = site.ok("zfs get -H -o value keystatus tank/e")?;
    ensure!(status == "unavailable\n", "{status}");
    site.finish()
}
