//! `zpool create` once took any device without a word: a disk with a file system, swap, a volume
//! of LVM or MD, a partition table. These tests make one of each, by its own program where that
//! is installed, and by the bytes of its format where it is not; each has to be found by its
//! name, and not to be found any more once it is wiped. `wipefs` of util-linux is the judge.

use super::*;
use crate::{FileDevice, FileOptions};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// XFS takes no less than 300 MiB; the files are sparse.
const SIZE: u64 = 320 << 20;

/// How a device gets its contents.
enum Maker {
    /// By a program, which gets the file's name as its last word.
    Program(&'static [&'static str]),
    /// By bytes at places, from the end where these are negative.
    Bytes(&'static [(i64, &'static [u8])]),
}

use Maker::{Bytes, Program};

/// A superblock of MD: magic, version 1, and nothing that the kernel would believe.
const MD_1: &[u8] = b"\xfc\x4e\x2b\xa9\x01\0\0\0";
/// A partition that begins at sector 2048, and the mark at the end of the boot record.
const MBR: &[(i64, &[u8])] = &[
    (446, b"\x80\0\0\0\x83\0\0\0\0\x08\0\0\0\0\x01\0"),
    (510, b"\x55\xaa"),
];
/// The table before a GPT, and the headers at both ends.
const GPT: &[(i64, &[u8])] = &[
    (446, b"\0\0\x02\0\xee\xff\xff\xff\x01\0\0\0\xff\xff\x09\0"),
    (510, b"\x55\xaa"),
    (512, b"EFI PART\0\0\x01\0"),
    (-512, b"EFI PART\0\0\x01\0"),
];
const VFAT: &[(i64, &[u8])] = &[
    (0, b"\xeb\x58\x90mkfs.fat"),
    (82, b"FAT32   "),
    (446, b"\0\0\0\0\x0c\0\0\0\0\x08\0\0\0\0\x01\0"),
    (510, b"\x55\xaa"),
];
const LUKS_2: &[(i64, &[u8])] = &[(0, b"LUKS\xba\xbe\0\x02"), (0x4000, b"SKUL\xba\xbe\0\x02")];
const UDF: &[(i64, &[u8])] = &[(0x8001, b"BEA01"), (0x8801, b"NSR02"), (0x9001, b"TEA01")];
const MINIX: &[(i64, &[u8])] = &[(0x400, b"\x60\x55\0\0\x03\0\x08\0"), (0x410, b"\x8f\x13")];
const NILFS: &[(i64, &[u8])] = &[(0x400, b"\x02\0\0\0\0\0\x34\x34\x18\x01")];
const HFS: &[(i64, &[u8])] = &[(0x400, b"BD"), (0x412, b"\x10\0\0\0\x10\0")];

const CASES: &[(&str, Maker)] = &[
    ("ext2", Program(&["mkfs.ext2", "-q", "-F"])),
    ("ext3", Program(&["mkfs.ext3", "-q", "-F"])),
    ("ext4", Program(&["mkfs.ext4", "-q", "-F"])),
    (
        "jbd",
        Program(&["mkfs.ext4", "-q", "-F", "-O", "journal_dev"]),
    ),
    ("xfs", Program(&["mkfs.xfs", "-q", "-f"])),
    ("btrfs", Program(&["mkfs.btrfs", "-q", "-f"])),
    ("swap", Program(&["mkswap"])),
    ("swap", Program(&["mkswap", "-p", "65536"])),
    ("minix", Program(&["mkfs.minix"])),
    ("minix", Program(&["mkfs.minix", "-3"])),
    ("cramfs", Bytes(&[(0, b"\x45\x3d\xcd\x28")])),
    ("bfs", Bytes(&[(0, b"\xce\xfa\xad\x1b")])),
    ("swsuspend", Bytes(&[(4086, b"S1SUSPEND")])),
    (
        "LVM2_member",
        Bytes(&[(512, b"LABELONE"), (536, b"LVM2 001")]),
    ),
    ("LVM1_member", Bytes(&[(0, b"HM\x02\0")])),
    ("linux_raid_member", Bytes(&[(0, MD_1)])),
    ("linux_raid_member", Bytes(&[(4096, MD_1)])),
    ("linux_raid_member", Bytes(&[(-8192, MD_1)])),
    (
        "linux_raid_member",
        Bytes(&[(-65536, b"\xfc\x4e\x2b\xa9\0\0\0\0")]),
    ),
    (
        "linux_raid_member",
        Bytes(&[(-65536, b"\xa9\x2b\x4e\xfc\0\0\0\0")]),
    ),
    ("ddf_raid_member", Bytes(&[(-512, b"\xde\x11\xde\x11")])),
    (
        "isw_raid_member",
        Bytes(&[(-1024, b"Intel Raid ISM Cfg Sig. 1.0")]),
    ),
    (
        "promise_fasttrack_raid_member",
        Bytes(&[(-3087 * 512, b"Promise Technology, Inc.")]),
    ),
    ("drbd", Bytes(&[(-4096 + 60, b"\x83\x74\x02\x6d")])),
    ("crypto_LUKS", Bytes(&[(0, b"LUKS\xba\xbe\0\x01")])),
    ("crypto_LUKS", Bytes(LUKS_2)),
    ("crypto_LUKS", Bytes(&[(0x40_0000, b"SKUL\xba\xbe\0\x02")])),
    ("BitLocker", Bytes(&[(3, b"-FVE-FS-"), (510, b"\x55\xaa")])),
    (
        "bcache",
        Bytes(&[(
            4096 + 24,
            b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        )]),
    ),
    ("stratis", Bytes(&[(516, b"!Stra0tis\x86\xff\x02^\x41rh")])),
    ("ceph_bluestore", Bytes(&[(0, b"bluestore block device\n")])),
    ("VMFS_volume", Bytes(&[(0x10_0000, b"\x0d\xd0\x01\xc0")])),
    ("vfat", Bytes(VFAT)),
    (
        "vfat",
        Bytes(&[(0, b"\xeb\x3c\x90MSDOS5.0"), (54, b"FAT16   ")]),
    ),
    ("exfat", Bytes(&[(3, b"EXFAT   "), (510, b"\x55\xaa")])),
    ("ntfs", Bytes(&[(3, b"NTFS    "), (510, b"\x55\xaa")])),
    ("ReFS", Bytes(&[(0, b"\0\0\0ReFS\0")])),
    ("iso9660", Bytes(&[(0x8001, b"CD001\x01")])),
    ("udf", Bytes(UDF)),
    ("squashfs", Bytes(&[(0, b"hsqs")])),
    ("erofs", Bytes(&[(0x400, b"\xe2\xe1\xf5\xe0")])),
    ("f2fs", Bytes(&[(0x400, b"\x10\x20\xf5\xf2")])),
    ("reiserfs", Bytes(&[(0x10034, b"ReIsEr2Fs")])),
    ("jfs", Bytes(&[(0x8000, b"JFS1")])),
    ("minix", Bytes(MINIX)),
    ("nilfs2", Bytes(NILFS)),
    ("hfs", Bytes(HFS)),
    ("hfsplus", Bytes(&[(0x400, b"H+\0\x04")])),
    ("apfs", Bytes(&[(32, b"NXSB")])),
    ("ufs", Bytes(&[(0x1_0000 + 0x55c, b"\x19\x01\x54\x19")])),
    ("gfs2", Bytes(&[(0x1_0000, b"\x01\x16\x19\x70")])),
    ("ocfs2", Bytes(&[(0x1000, b"OCFSV2")])),
    ("gpt", Bytes(GPT)),
    ("gpt", Bytes(&[(-512, b"EFI PART\0\0\x01\0")])),
    ("dos", Bytes(MBR)),
    ("bsd", Bytes(&[(512, b"\x57\x45\x56\x82")])),
    ("mac", Bytes(&[(0, b"ER"), (512, b"PM\0\0")])),
    ("sun", Bytes(&[(0, b"\xda\xbe"), (508, b"\xda\xbe")])),
];

fn open(path: &Path) -> FileDevice {
    let options = FileOptions {
        writable: true,
        direct: true,
    };
    FileDevice::open(path, options).expect("a device")
}

use std::path::Path;

/// Makes the contents; false if the program is not there.
fn make(path: &Path, maker: &Maker) -> bool {
    let file = File::create(path).expect("writable");
    file.set_len(SIZE).expect("sparse");
    match maker {
        Program(words) => {
            let mut command = Command::new(words[0]);
            let path_of_tools = format!(
                "{}:/usr/sbin:/sbin",
                std::env::var("PATH").unwrap_or_default()
            );
            command
                .args(&words[1..])
                .arg(path)
                .env("PATH", path_of_tools);
            match command.output() {
                Ok(output) => assert!(output.status.success(), "{words:?}: {output:?}"),
                Err(_) => return false,
            }
        }
        Bytes(pieces) => {
            for (place, bytes) in *pieces {
                let place = match u64::try_from(*place) {
                    Ok(place) => place,
                    Err(_) => SIZE - place.unsigned_abs(),
                };
                file.write_all_at(bytes, place).expect("writable");
            }
        }
    }
    true
}

fn names(device: &dyn Device) -> Vec<&'static str> {
    let found = signatures(device).expect("readable");
    found.iter().map(|signature| signature.name).collect()
}

/// What `wipefs` finds in a file, if it is there.
fn found_by_wipefs(path: &Path) -> Option<String> {
    let output = Command::new("wipefs")
        .arg("-i")
        .arg("-n")
        .arg(path)
        .output();
    let output = output.ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn what_other_software_left_is_found_and_wiped() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, maker) in CASES {
        let path = directory.path().join("device");
        if !make(&path, maker) {
            cenote_tests::skip!("{name} by its own program, which is not installed");
            continue;
        }
        let device = open(&path);
        assert_eq!(names(&device), [*name]);
        wipe_signatures(&device).expect("writable");
        assert_eq!(names(&device), [""; 0], "{name} is still there");
        drop(device);
        if let Some(found) = found_by_wipefs(&path) {
            assert_eq!(found, "", "wipefs still finds {name}");
        }
    }
}

#[test]
fn all_signatures_of_one_device_are_named() {
    // An image for CDs that can be written to a USB stick, too.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("device");
    let pieces: &[(i64, &[u8])] = &[(446, MBR[0].1), MBR[1], (0x8001, b"CD001\x01")];
    let file = File::create(&path).expect("writable");
    file.set_len(SIZE).expect("sparse");
    for (place, bytes) in pieces {
        let place = u64::try_from(*place).expect("from the start");
        file.write_all_at(bytes, place).expect("writable");
    }
    let device = open(&path);
    let found = signatures(&device).expect("readable");
    let kinds: Vec<_> = found.iter().map(|s| (s.name, s.kind)).collect();
    let expected = [
        ("iso9660", SignatureKind::Contents),
        ("dos", SignatureKind::PartitionTable),
    ];
    assert_eq!(kinds, expected);
    wipe_signatures(&device).expect("writable");
    assert_eq!(names(&device), [""; 0]);
}

/// What is not proof: empty and random devices, a boot record without partitions, and magic of two
/// bytes amid random ones.
#[test]
fn zeros_and_noise_are_nobodys() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = |length: usize| {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes.extend(seed.to_le_bytes());
        }
        bytes
    };
    for round in 0..8 {
        let mut bytes = match round {
            0 => vec![0; 5 << 20],
            _ => noise(5 << 20),
        };
        bytes[510..512].copy_from_slice(b"\x55\xaa");
        bytes[446] = round;
        let device = crate::MemoryDevice::new("noise", bytes);
        assert_eq!(names(&device), [""; 0], "round {round}");
    }
    for (place, magic) in [
        (0x438, b"\x53\xef"),
        (0x410, b"\x7f\x13"),
        (0x406, b"\x34\x34"),
        (0x400, b"BD"),
        (0x400, b"H+"),
        (0x1fc, b"\xda\xbe"),
    ] {
        for empty in [true, false] {
            let mut bytes = if empty {
                vec![0; 5 << 20]
            } else {
                noise(5 << 20)
            };
            bytes[place..place + 2].copy_from_slice(magic);
            let device = crate::MemoryDevice::new("noise", bytes);
            assert_eq!(names(&device), [""; 0], "{magic:?} in noise: {empty}");
        }
    }
}

#[test]
fn small_devices_are_looked_at_too() {
    for size in [0, 1, 511, 512, 4096, 65_536, 1 << 20] {
        let device = crate::MemoryDevice::new("small", vec![0; size]);
        assert_eq!(names(&device), [""; 0], "{size} bytes");
        wipe_signatures(&device).expect("nothing to do");
    }
    let mut bytes = vec![0; 4096];
    bytes[..4].copy_from_slice(b"hsqs");
    assert_eq!(
        names(&crate::MemoryDevice::new("small", bytes)),
        ["squashfs"]
    );
}
