//! Files that programs map, while others write, copy and look for holes.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::python::python;
use cenote_tests::site::Site;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// Runs a script with the path of a file, on a mount.
fn on_a_mount(script: &str) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "")?;
    let path = site.path("tank").join("file");
    python(script, &[text(&path)?], None)?;
    site.finish()
}

/// One process stores through a mapping, another writes to the same pages: neither undoes the
/// other. (xfstests generic/346.)
#[test]
fn mappings_and_writes_keep_each_other() -> Result<()> {
    on_a_mount(
        "
import mmap, os, sys
PAGES = 256
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
# As some databases do: what has to be on disk at once goes another way than the rest.
w = os.open(sys.argv[1], os.O_WRONLY)
lost = 0
for turn in range(40):
    os.ftruncate(f, 0)
    os.ftruncate(f, PAGES * 4096)
    m = mmap.mmap(f, PAGES * 4096)
    mark = b'%08d' % turn
    child = os.fork()
    if child == 0:
        for page in range(PAGES):
            m[page * 4096 + 2048:page * 4096 + 2056] = mark
        os._exit(0)
    for page in range(PAGES):
        os.pwrite(w if turn % 2 else f, mark, page * 4096)
    os.waitpid(child, 0)
    for page in range(PAGES):
        lost += m[page * 4096:page * 4096 + 8] != mark
        lost += m[page * 4096 + 2048:page * 4096 + 2056] != mark
    m.close()
assert lost == 0, '%d lost' % lost
",
    )
}

/// A mapping shows what was written as soon as the write is done, also where its page is read in
/// at that moment.
#[test]
fn mappings_show_what_was_written() -> Result<()> {
    on_a_mount(
        "
import mmap, os, random, signal, sys
PAGES = 64
path = sys.argv[1]
os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
os.truncate(path, PAGES * 4096)
r = os.open(path, os.O_RDONLY)
m = mmap.mmap(r, PAGES * 4096, prot=mmap.PROT_READ)
toucher = os.fork()
if toucher == 0:
    while True:
        sum(m[page * 4096] for page in range(PAGES))
w = os.open(path, os.O_WRONLY)
stale = 0
try:
    for turn in range(20000):
        page = random.randrange(PAGES)
        mark = b'%08d' % turn
        os.pwrite(w, mark, page * 4096)
        stale += m[page * 4096:page * 4096 + 8] != mark
finally:
    os.kill(toucher, signal.SIGKILL)
    os.waitpid(toucher, 0)
assert stale == 0, '%d stale' % stale
",
    )
}

/// Data stored through a mapping is visible to `SEEK_DATA` before it is written back.
#[test]
fn stores_are_no_holes() -> Result<()> {
    const STORE: &str = "
import mmap, os, subprocess, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
SIZE = 8 << 20
os.ftruncate(f, SIZE)
other = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(f, SIZE)
for place in range(1 << 20, SIZE, 2 << 20):
    m[place:place + 5] = b'words'
    data = os.lseek(other, place - (1 << 20), os.SEEK_DATA)
    hole = os.lseek(f, data, os.SEEK_HOLE)
    assert data <= place < hole < SIZE and place - data < 1 << 17, (place, data, hole)
    # Again, where the page is known to be stored.
    m[place + 100:place + 105] = b'words'
    assert os.lseek(f, place - (1 << 19), os.SEEK_DATA) == data
for place in range(0, SIZE, 1 << 20):
    m[place + 9000:place + 9005] = b'words'
subprocess.run(['cp', '--sparse=auto', sys.argv[1], sys.argv[2]], check=True)
with open(sys.argv[2], 'rb') as copy:
    assert copy.read() == m[:], 'the copy differs'
";
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O recordsize=64K")?;
    let root = site.path("tank");
    let copy = site.cenote().subdirectory("copy")?.join("file");
    for name in ["first", "second"] {
        if !python(STORE, &[text(&root.join(name))?, text(&copy)?], None)? {
            return Ok(());
        }
    }
    site.finish()
}

/// A time that is set after a store stays: what the kernel sends off later does not set another.
#[test]
fn times_that_are_set_stay() -> Result<()> {
    on_a_mount(
        "
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 1 << 20)
m = mmap.mmap(f, 1 << 20)
m[70000:70005] = b'words'
os.utime(f, (1000000000, 1100000000))
assert os.fstat(f).st_mtime == 1100000000
m.flush()
assert os.fstat(f).st_mtime == 1100000000, 'sent off later'
m[70000:70005] = b'other'
m.flush()
assert os.fstat(f).st_mtime > 1100000000, 'a store changes the file'
",
    )
}

/// More look for data at once than there are workers, each in a file with stores that have to be
/// sent off first. All get an answer.
#[test]
fn seekers_do_not_starve_the_stores_they_wait_for() -> Result<()> {
    on_a_mount(
        "
import mmap, os, signal, sys
signal.alarm(120)
SIZE = 1 << 20
children = []
for number in range(150):
    child = os.fork()
    if child == 0:
        f = os.open('%s-%d' % (sys.argv[1], number), os.O_RDWR | os.O_CREAT)
        os.ftruncate(f, SIZE)
        m = mmap.mmap(f, SIZE)
        for turn in range(20):
            for place in range(0, SIZE, 65536):
                m[place + turn * 8:place + turn * 8 + 8] = b'%08d' % number
            assert os.lseek(f, 4096, os.SEEK_DATA) <= 65536
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
",
    )
}

/// Where a file system is mounted twice, what one mount writes is seen through the other, in files
/// that are open for both there, too.
#[test]
fn nothing_old_is_shown_beside_another_mount() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let other = site.cenote().subdirectory("other")?;
    site.ok(&format!("cenote mount tank {}", text(&other)?))?;
    let paths = [site.path("tank").join("file"), other.join("file")];
    fs::write(&paths[0], "before")?;
    let mut both = fs::OpenOptions::new();
    let both = both.read(true).write(true).open(&paths[1])?;
    let mut bytes = [0; 6];
    for text in ["before", "after_", "later_"] {
        fs::write(&paths[0], text)?;
        both.read_exact_at(&mut bytes, 0)?;
        ensure!(bytes == text.as_bytes(), "{bytes:?}");
    }
    both.write_all_at(b"last__", 0)?;
    ensure!(fs::read(&paths[0])? == b"last__");
    drop(both);
    // A program that another test starts has our descriptors until it runs: the mount is busy then.
    let end = Instant::now() + Duration::from_secs(10);
    while !Command::new("umount").arg(&other).status()?.success() {
        ensure!(Instant::now() < end, "the mount stays busy");
        std::thread::sleep(Duration::from_millis(20));
    }
    site.finish()
}
