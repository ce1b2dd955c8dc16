//! Files, directories and attributes as programs see them through a real mount.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{self, as_nobody, has_program, mount, mount_with};
use cenote_fuse::{
    DeviceNumber, Features, FileKind, FileSystemStatus, MemoryTree, NodeId, NullFileSystem,
    Timestamp,
};
use cenote_fuse::{Lifetime, NULL_DATA_SIZE};
use cenote_tests::skip;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::process::Command;

/// Bytes that differ from place to place, so that a shifted read shows.
fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

#[test]
fn attributes_arrive_whole() {
    let mut tree = MemoryTree::new();
    let node = tree.add_file(NodeId::ROOT, b"old", 12345, vec![(0, vec![1; 12345])]);
    let attr = tree.attr_mut(node);
    attr.ino = 0x1234_5678_9abc;
    attr.mode = 0o6751;
    attr.uid = 4_000_000_000;
    attr.gid = 77;
    attr.nlink = 9;
    attr.blocks = 1 << 33;
    attr.block_size = 1 << 17;
    attr.accessed = Timestamp::new(-1, 999_999_999);
    attr.modified = Timestamp::new(-5_000_000_000, 1);
    attr.changed = Timestamp::new(5_000_000_000, 123_456_789);
    attr.born = Some(Timestamp::new(-7, 5));
    let Some(mounted) = mount(tree) else { return };
    let path = mounted.path("old");
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(meta.ino(), 0x1234_5678_9abc);
    assert_eq!(meta.mode(), 0o106751);
    assert_eq!(
        (meta.uid(), meta.gid(), meta.nlink()),
        (4_000_000_000, 77, 9)
    );
    assert_eq!(
        (meta.size(), meta.blocks(), meta.blksize()),
        (12345, 1 << 33, 1 << 17)
    );
    assert_eq!((meta.atime(), meta.atime_nsec()), (-1, 999_999_999));
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (-5_000_000_000, 1));
    assert_eq!(
        (meta.ctime(), meta.ctime_nsec()),
        (5_000_000_000, 123_456_789)
    );
    let flags = AtFlags::STATX_FORCE_SYNC;
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let statx = rustix::fs::statx(rustix::fs::CWD, &path, flags, asked).unwrap();
    if statx.stx_mask & StatxFlags::BTIME.bits() != 0 {
        assert_eq!((statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec), (-7, 5));
        assert_eq!((statx.stx_size, statx.stx_ino), (12345, 0x1234_5678_9abc));
        assert_eq!(statx.stx_mtime.tv_sec, -5_000_000_000);
    }
}

#[test]
fn every_file_type() {
    let mut tree = MemoryTree::new();
    let kinds = [
        (
            "char",
            FileKind::CharDevice,
            DeviceNumber {
                major: 4095,
                minor: 0xf_ffff,
            },
        ),
        (
            "block",
            FileKind::BlockDevice,
            DeviceNumber {
                major: 8,
                minor: 300,
            },
        ),
        ("fifo", FileKind::Fifo, DeviceNumber::default()),
        ("socket", FileKind::Socket, DeviceNumber::default()),
    ];
    for (name, kind, device) in kinds {
        tree.add_special(NodeId::ROOT, name.as_bytes(), kind, device);
    }
    tree.add_directory(NodeId::ROOT, b"directory");
    let Some(mounted) = mount(tree) else { return };
    let meta = |name: &str| fs::symlink_metadata(mounted.path(name)).unwrap();
    assert!(meta("char").file_type().is_char_device());
    assert_eq!(rustix::fs::major(meta("char").rdev()), 4095);
    assert_eq!(rustix::fs::minor(meta("char").rdev()), 0xf_ffff);
    assert!(meta("block").file_type().is_block_device());
    assert_eq!(rustix::fs::minor(meta("block").rdev()), 300);
    assert!(meta("fifo").file_type().is_fifo());
    assert!(meta("socket").file_type().is_socket());
    assert!(meta("directory").is_dir());
    let listing = Command::new("ls")
        .arg("-la")
        .arg(mounted.root())
        .output()
        .unwrap();
    assert!(listing.status.success());
    let text = String::from_utf8(listing.stdout).unwrap();
    assert_eq!(text.lines().count(), 1 + 2 + 5, "{text}");
    assert!(text.contains("4095, 1048575"), "{text}");
}

#[test]
fn names_and_links() {
    let mut tree = MemoryTree::new();
    let long = vec![b'n'; 255];
    let odd = b"new\nline \\ \xff\xfe";
    tree.add_file(NodeId::ROOT, &long, 1, vec![(0, b"L".to_vec())]);
    let first = tree.add_file(NodeId::ROOT, odd, 1, vec![(0, b"O".to_vec())]);
    tree.link(NodeId::ROOT, b"second", first);
    let target = vec![b't'; 4000];
    tree.add_symlink(NodeId::ROOT, b"link", &target);
    tree.add_symlink(NodeId::ROOT, b"longest", &[b'x'; 4095]);
    tree.add_symlink(NodeId::ROOT, b"good", b"second");
    let Some(mounted) = mount(tree) else { return };
    let odd_path = mounted.root().join(OsStr::from_bytes(odd));
    assert_eq!(
        fs::read(mounted.root().join(OsStr::from_bytes(&long))).unwrap(),
        b"L"
    );
    assert_eq!(fs::read(&odd_path).unwrap(), b"O");
    let (one, two) = (
        fs::metadata(odd_path).unwrap(),
        fs::metadata(mounted.path("second")).unwrap(),
    );
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
    assert_eq!(
        fs::read_link(mounted.path("link"))
            .unwrap()
            .as_os_str()
            .as_bytes(),
        target
    );
    assert_eq!(
        fs::read_link(mounted.path("longest"))
            .unwrap()
            .as_os_str()
            .len(),
        4095
    );
    assert_eq!(fs::read(mounted.path("good")).unwrap(), b"O");
    let listed: BTreeSet<Vec<u8>> = fs::read_dir(mounted.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    assert!(listed.contains(&long) && listed.contains(&odd[..]));
    let too_long = fs::metadata(mounted.root().join("m".repeat(256))).unwrap_err();
    assert_eq!(
        too_long.raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
    assert_eq!(
        fs::metadata(mounted.path("absent")).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
}

/// All names with the cookies that follow them, by getdents on one descriptor.
fn listing(directory: &rustix::fd::OwnedFd) -> Vec<(Vec<u8>, u64)> {
    let mut space = vec![MaybeUninit::uninit(); 4096];
    let mut reader = rustix::fs::RawDir::new(directory, &mut space);
    let mut all = Vec::new();
    while let Some(entry) = reader.next() {
        let entry = entry.unwrap();
        all.push((
            entry.file_name().to_bytes().to_vec(),
            entry.next_entry_cookie(),
        ));
    }
    all
}

#[test]
fn a_big_directory_can_be_sought() {
    let mut tree = MemoryTree::new();
    let big = tree.add_directory(NodeId::ROOT, b"big");
    for number in 0..5000 {
        tree.add_file(big, format!("file-{number:05}").as_bytes(), 0, Vec::new());
    }
    for always in [true, false] {
        let changed = |options: &mut cenote_fuse::MountOptions| options.readdirplus_always = always;
        let Some(mounted) = mount_with(tree.clone(), changed) else {
            return;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = || rustix::fs::open(mounted.path("big"), flags, Mode::empty()).unwrap();
        let (one, two) = (open(), open());
        let whole = listing(&one);
        assert_eq!(whole.len(), 5002);
        let names: BTreeSet<_> = whole.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 5002);
        // A second reader, and one that comes back to the middle, see the same.
        assert_eq!(listing(&two), whole);
        for place in [0, 1, 2, 777, 2500, 4999, 5001] {
            let cookie = whole[place].1;
            rustix::fs::seek(&one, SeekFrom::Start(cookie)).unwrap();
            assert_eq!(listing(&one), whole[place + 1..], "from place {place}");
        }
        rustix::fs::seek(&one, SeekFrom::Start(0)).unwrap();
        assert_eq!(listing(&one), whole);
        // Attributes came along with the listing.
        let before = mounted.mount.metrics().operation("lookup");
        for (name, _) in &whole[2..] {
            fs::symlink_metadata(mounted.path("big").join(OsStr::from_bytes(name))).unwrap();
        }
        let lookups = mounted.mount.metrics().operation("lookup") - before;
        assert!(
            !always || lookups == 0,
            "{lookups} lookups after readdirplus"
        );
    }
}

#[test]
fn two_readers_in_turns() {
    let mut tree = MemoryTree::new();
    for number in 0..3000 {
        tree.add_file(NodeId::ROOT, format!("n{number}").as_bytes(), 0, Vec::new());
    }
    let Some(mounted) = mount(tree) else { return };
    let mut one = fs::read_dir(mounted.root()).unwrap();
    let mut two = fs::read_dir(mounted.root()).unwrap();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for step in 0..6000 {
        if step % 3 != 0 {
            first.extend(one.next().map(|entry| entry.unwrap().file_name()));
        }
        if step % 2 == 0 {
            second.extend(two.next().map(|entry| entry.unwrap().file_name()));
        }
    }
    first.extend(one.map(|entry| entry.unwrap().file_name()));
    second.extend(two.map(|entry| entry.unwrap().file_name()));
    assert_eq!(first.len(), 3000);
    assert_eq!(first, second);
}

#[test]
fn data_is_read_as_it_is() {
    let size = (5 << 20) + 777;
    let content = pattern(size);
    let mut tree = MemoryTree::new();
    let pieces = |step: usize| -> Vec<(u64, Vec<u8>)> {
        let chunks = content.chunks(step).enumerate();
        chunks
            .map(|(index, piece)| ((index * step) as u64, piece.to_vec()))
            .collect()
    };
    tree.add_file(NodeId::ROOT, b"whole", size as u64, pieces(size));
    tree.add_file(NodeId::ROOT, b"records", size as u64, pieces(128 << 10));
    // More pieces in a request than one writev may have.
    tree.add_file(NodeId::ROOT, b"tiny", size as u64, pieces(512));
    let Some(mounted) = mount(tree) else { return };
    for name in ["whole", "records", "tiny"] {
        let mut file = File::open(mounted.path(name)).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut position = 0;
        loop {
            let count = file.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            assert!(
                buffer[..count] == content[position..position + count],
                "{name} {position}"
            );
            position += count;
        }
        assert_eq!(position, size);
        let mut place = 12345_usize;
        for _ in 0..2000 {
            place = (place * 1_103_515_245 + 12345) % size;
            let want = &content[place..size.min(place + 4096)];
            let mut got = vec![0; 4096];
            let count = file.read_at(&mut got, place as u64).unwrap();
            assert!(got[..count] == *want, "{name} at {place}");
        }
        assert_eq!(file.read_at(&mut buffer, size as u64).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, u64::MAX / 4).unwrap(), 0);
    }
}

#[test]
fn many_readers_at_once() {
    let content = pattern(3 << 20);
    let mut tree = MemoryTree::new();
    tree.add_file(
        NodeId::ROOT,
        b"file",
        content.len() as u64,
        vec![(0, content.clone())],
    );
    let Some(mounted) = mount(tree) else { return };
    std::thread::scope(|scope| {
        for reader in 0..16_usize {
            let (content, path) = (&content, mounted.path("file"));
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                for round in 0..40 {
                    let size = [4096, 100, 1 << 20, 70_000][(reader + round) % 4];
                    let place = (reader * 7919 + round * 104_729) % (content.len() - size);
                    let mut got = vec![0; size];
                    file.read_exact_at(&mut got, place as u64).unwrap();
                    assert!(got == content[place..place + size]);
                }
            });
        }
    });
    assert_eq!(mounted.mount.metrics().channel_errors.get(), 0);
    assert_eq!(mounted.mount.metrics().malformed.get(), 0);
}

#[test]
fn mapped_and_executed() {
    let program = fs::read("/bin/echo").unwrap_or_default();
    let content = pattern(1_000_001);
    let mut tree = MemoryTree::new();
    let size = program.len() as u64;
    let node = tree.add_file(NodeId::ROOT, b"echo", size, vec![(0, program)]);
    tree.attr_mut(node).mode = 0o755;
    tree.add_file(
        NodeId::ROOT,
        b"map",
        content.len() as u64,
        vec![(0, content.clone())],
    );
    let Some(mounted) = mount(tree) else { return };
    let output = Command::new(mounted.path("echo"))
        .arg("hello")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"hello\n");
    if !mounted.mount.negotiated().direct_io_mmap() {
        skip!("this kernel maps no files that are read directly");
        return;
    }
    if !has_program("python3") {
        return;
    }
    let script = "import mmap,sys\nf=open(sys.argv[1],'rb')\n\
        m=mmap.mmap(f.fileno(),0,flags=mmap.MAP_SHARED,prot=mmap.PROT_READ)\n\
        sys.stdout.buffer.write(m[:])";
    let output = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(mounted.path("map"))
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout == content);
}

#[test]
fn holes_are_found() {
    let mut tree = MemoryTree::new();
    let extents = vec![(1 << 20, vec![1; 4096]), (3 << 20, vec![2; 8192])];
    tree.add_file(NodeId::ROOT, b"sparse", 10 << 20, extents);
    let Some(mounted) = mount(tree) else { return };
    let file = File::open(mounted.path("sparse")).unwrap();
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 5)), Ok((1 << 20) + 5));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    assert_eq!(seek(SeekFrom::Hole(5)), Ok(5));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 4096)), Ok(3 << 20));
    assert_eq!(seek(SeekFrom::Hole(3 << 20)), Ok((3 << 20) + 8192));
    assert_eq!(seek(SeekFrom::Data(4 << 20)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(10 << 20)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::End(0)), Ok(10 << 20));
    let whole = fs::read(mounted.path("sparse")).unwrap();
    assert_eq!(whole.len(), 10 << 20);
    assert_eq!(whole.iter().filter(|byte| **byte != 0).count(), 4096 + 8192);
}

#[test]
fn extended_attributes() {
    let mut tree = MemoryTree::new();
    let node = tree.add_file(NodeId::ROOT, b"file", 0, Vec::new());
    tree.set_xattr(node, b"user.small", b"value");
    tree.set_xattr(node, b"user.big", &pattern(65536));
    tree.set_xattr(node, b"trusted.empty", b"");
    let crowded = tree.add_file(NodeId::ROOT, b"crowded", 0, Vec::new());
    for number in 0..300 {
        let name = format!("user.{number:0>245}");
        tree.set_xattr(crowded, name.as_bytes(), b"");
    }
    tree.add_file(NodeId::ROOT, b"bare", 0, Vec::new());
    let Some(mounted) = mount(tree) else { return };
    let path = mounted.path("file");
    let get = |name: &str, size: usize| -> Result<Vec<u8>, Errno> {
        let mut buffer = vec![0; size];
        let count = rustix::fs::getxattr(&path, name, buffer.as_mut_slice())?;
        buffer.truncate(count);
        Ok(buffer)
    };
    assert_eq!(get("user.small", 5), Ok(b"value".to_vec()));
    assert_eq!(get("user.small", 4), Err(Errno::RANGE));
    assert_eq!(get("user.absent", 100), Err(Errno::NODATA));
    assert_eq!(get("user.big", 65536), Ok(pattern(65536)));
    assert_eq!(get("user.big", 65535), Err(Errno::RANGE));
    assert_eq!(get("trusted.empty", 10), Ok(Vec::new()));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.big"), Ok(65536));
    assert_eq!(rustix::fs::listxattr_query(&path), Ok(34));
    let mut names = [0_u8; 34];
    assert_eq!(rustix::fs::listxattr(&path, &mut names), Ok(34));
    assert_eq!(&names, b"trusted.empty\0user.big\0user.small\0");
    assert_eq!(
        rustix::fs::listxattr(&path, &mut names[..33]),
        Err(Errno::RANGE)
    );
    assert_eq!(
        rustix::fs::listxattr(mounted.path("bare"), &mut names),
        Ok(0)
    );
    // A list that Linux cannot carry is refused, not cut.
    let too_much = rustix::fs::listxattr_query(mounted.path("crowded"));
    assert_eq!(too_much, Err(Errno::TOOBIG));
}

/// Version 2, then tag, permissions and id per entry: owner, the user `nobody` with read
/// permission, group, mask, other.
fn acl_for_nobody() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, common::NOBODY),
        (4, 0, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

#[test]
fn posix_acls_are_enforced_when_asked_for() {
    for enforced in [true, false] {
        let mut tree = MemoryTree::new();
        tree.features.posix_acl = enforced;
        let node = tree.add_file(NodeId::ROOT, b"shared", 2, vec![(0, b"ok".to_vec())]);
        tree.attr_mut(node).mode = 0o640;
        tree.set_xattr(node, b"system.posix_acl_access", &acl_for_nobody());
        let plain = tree.add_file(NodeId::ROOT, b"private", 2, vec![(0, b"no".to_vec())]);
        tree.attr_mut(plain).mode = 0o640;
        let Some(mounted) = mount(tree) else { return };
        let read = |name| as_nobody("cat").arg(mounted.path(name)).output().unwrap();
        assert_eq!(
            read("shared").stdout,
            if enforced { &b"ok"[..] } else { b"" }
        );
        assert!(!read("private").status.success());
        let mut value = vec![0; 100];
        let path = mounted.path("shared");
        let count = rustix::fs::getxattr(path, "system.posix_acl_access", value.as_mut_slice());
        assert_eq!(count, Ok(acl_for_nobody().len()));
        assert_eq!(value[..44], acl_for_nobody());
    }
}

#[test]
fn permissions_are_checked_by_the_kernel() {
    let mut tree = MemoryTree::new();
    let node = tree.add_file(NodeId::ROOT, b"mine", 1, vec![(0, b"m".to_vec())]);
    tree.attr_mut(node).uid = common::NOBODY;
    tree.attr_mut(node).mode = 0o400;
    let closed = tree.add_directory(NodeId::ROOT, b"closed");
    tree.attr_mut(closed).mode = 0o700;
    tree.add_file(closed, b"inside", 0, Vec::new());
    let Some(mounted) = mount(tree) else { return };
    let run = |program: &str, name: &str| {
        as_nobody(program)
            .arg(mounted.path(name))
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(run("cat", "mine"));
    assert!(run("ls", ""));
    assert!(!run("ls", "closed"));
    assert!(!run("cat", "closed/inside"));
}

#[test]
fn space_is_shown() {
    let mut tree = MemoryTree::new();
    tree.status = FileSystemStatus {
        blocks: 1 << 40,
        blocks_free: 1 << 39,
        blocks_available: 12345,
        files: 1 << 48,
        files_free: 999,
        block_size: 131072,
        fragment_size: 512,
        name_length_max: 255,
    };
    let Some(mounted) = mount(tree) else { return };
    let status = rustix::fs::statvfs(mounted.root()).unwrap();
    assert_eq!((status.f_blocks, status.f_bfree), (1 << 40, 1 << 39));
    assert_eq!(
        (status.f_bavail, status.f_files, status.f_ffree),
        (12345, 1 << 48, 999)
    );
    assert_eq!(
        (status.f_bsize, status.f_frsize, status.f_namemax),
        (131072, 512, 255)
    );
}

#[test]
fn dots_can_be_looked_up_for_export() {
    let mut tree = MemoryTree::new();
    tree.features = Features {
        lookup_dots: true,
        directory_handles: true,
        ..Features::default()
    };
    let inner = tree.add_directory(NodeId::ROOT, b"inner");
    tree.add_file(inner, b"file", 0, Vec::new());
    let Some(mounted) = mount(tree) else { return };
    assert!(mounted.path("inner/../inner/./file").exists());
    assert_eq!(fs::read_dir(mounted.path("inner")).unwrap().count(), 1);
    assert!(mounted.mount.metrics().operation("opendir") > 0);
}

#[test]
fn the_null_server_is_huge() {
    let null = NullFileSystem {
        files: 1000,
        lifetime: Lifetime::NONE,
    };
    let Some(mounted) = mount(null) else { return };
    assert_eq!(
        fs::metadata(mounted.path("data")).unwrap().len(),
        NULL_DATA_SIZE
    );
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 1001);
    assert!(mounted.path("999").exists() && !mounted.path("1000").exists());
    let mut file = File::open(mounted.path("data")).unwrap();
    let mut buffer = vec![7; 1 << 20];
    file.read_exact(&mut buffer).unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
    let before = mounted.mount.metrics().operation("read");
    file.read_exact(&mut buffer).unwrap();
    let requests = mounted.mount.metrics().operation("read") - before;
    // A user buffer that does not begin on a page needs one page more than the limit.
    assert!(requests <= 2, "{requests} requests for 1 MiB");
}
