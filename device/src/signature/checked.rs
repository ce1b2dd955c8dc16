//! Signatures that take more than a few bytes at one place to be believed.

use super::probe::{Place, Probe, Signature};
use crate::DeviceError;

type Found = Result<Option<Signature>, DeviceError>;

/// A superblock of ext2 begins here, and so do those of MINIX, NILFS, HFS.
const SUPERBLOCK: u64 = 0x400;

/// All signatures of this module that the device has.
pub(super) fn find(probe: &Probe<'_>) -> Result<Vec<Signature>, DeviceError> {
    let mut found = Vec::new();
    let finders = [ext, minix, nilfs, hfs, hfs_plus, dos, sun, udf, drbd];
    for find in finders {
        found.extend(find(probe)?);
    }
    found.extend(md(probe)?);
    found.extend(lvm(probe)?);
    found.extend(ufs(probe)?);
    Ok(found)
}

/// Leaves out what another signature explains better.
pub(super) fn settle(found: &mut Vec<Signature>) {
    // The table in a boot sector of a file system is a part of its program, and its mark goes with
    // the file system: without it that would look like a table without partitions.
    let names = ["vfat", "ntfs", "exfat", "BitLocker"];
    let boot = found
        .iter()
        .position(|signature| names.contains(&signature.name));
    if let Some(boot) = boot {
        found[boot].places.push(Place { at: 510, length: 2 });
        found.retain(|signature| signature.name != "dos");
    }
    // A GPT has a table of the older kind before it that says that the disk is full.
    let guard = found.iter().position(|signature| signature.name == "PMBR");
    let table = found.iter().position(|signature| signature.name == "gpt");
    if let (Some(guard), Some(table)) = (guard, table) {
        let places = found[guard].places.clone();
        found[table].places.extend(places);
        found.remove(guard);
    }
}

/// ext2, ext3, ext4, and their journals on devices of their own.
fn ext(probe: &Probe<'_>) -> Found {
    let field = |offset| probe.le32(SUPERBLOCK + offset);
    // A journal on a device of its own has no inodes.
    let has_inodes = field(0)? > 0 || field(0x60)? & 0x8 != 0;
    let is_sane = has_inodes && field(4)? > 0 && field(0x18)? <= 6 && field(0x4c)? <= 1;
    if probe.le16(SUPERBLOCK + 0x38)? != 0xef53 || !is_sane {
        return Ok(None);
    }
    let (compatible, incompatible, read_only) = (field(0x5c)?, field(0x60)?, field(0x64)?);
    // What ext3 knows: file types, recovery, meta groups; sparse superblocks, large files.
    let is_newer = incompatible & !0x16 != 0 || read_only & !0x3 != 0;
    let name = match () {
        () if incompatible & 0x8 != 0 => "jbd",
        () if is_newer => "ext4",
        () if compatible & 0x4 != 0 => "ext3",
        () => "ext2",
    };
    Ok(Some(Signature::contents(name, SUPERBLOCK + 0x38, 2)))
}

/// MINIX's file system, whose maps have to be as large as it has inodes.
fn minix(probe: &Probe<'_>) -> Found {
    let old = [0x137f, 0x138f, 0x2468, 0x2478];
    let (magic, inodes, map) = match () {
        () if old.contains(&probe.le16(SUPERBLOCK + 0x10)?) => {
            (0x10, probe.le16(SUPERBLOCK)?, probe.le16(SUPERBLOCK + 4)?)
        }
        () if probe.le16(SUPERBLOCK + 0x18)? == 0x4d5a => {
            (0x18, probe.le32(SUPERBLOCK)?, probe.le16(SUPERBLOCK + 6)?)
        }
        () => return Ok(None),
    };
    let blocks = inodes / 8192 + 1;
    let is_sane = inodes > 0 && (blocks.div_ceil(8)..=blocks + 1).contains(&map);
    Ok(is_sane.then(|| Signature::contents("minix", SUPERBLOCK + magic, 2)))
}

fn nilfs(probe: &Probe<'_>) -> Found {
    let is_magic = probe.le16(SUPERBLOCK + 6)? == 0x3434;
    let is_sane =
        probe.le32(SUPERBLOCK)? == 2 && (0x10..=0x400).contains(&probe.le16(SUPERBLOCK + 8)?);
    let is_found = is_magic && is_sane;
    Ok(is_found.then(|| Signature::contents("nilfs2", SUPERBLOCK + 6, 2)))
}

fn hfs(probe: &Probe<'_>) -> Found {
    let block = probe.be32(SUPERBLOCK + 0x14)?;
    let is_sane = block > 0 && block % 512 == 0 && probe.be16(SUPERBLOCK + 0x12)? > 0;
    let is_found = probe.be16(SUPERBLOCK)? == 0x4244 && is_sane;
    Ok(is_found.then(|| Signature::contents("hfs", SUPERBLOCK, 2)))
}

fn hfs_plus(probe: &Probe<'_>) -> Found {
    let (magic, version) = (probe.be16(SUPERBLOCK)?, probe.be16(SUPERBLOCK + 2)?);
    let is_found = matches!((magic, version), (0x482b, 4) | (0x4858, 5));
    Ok(is_found.then(|| Signature::contents("hfsplus", SUPERBLOCK, 2)))
}

/// The table of partitions in a master boot record.
///
/// The mark at its end is that of every boot sector, so the four entries have to make sense.
fn dos(probe: &Probe<'_>) -> Found {
    let sector: [u8; 512] = probe.bytes(0)?;
    if sector[510..] != [0x55, 0xaa] {
        return Ok(None);
    }
    let entries: Vec<&[u8]> = sector[446..510].chunks(16).collect();
    let is_used = |entry: &&&[u8]| entry[4] != 0 && entry[12..16] != [0; 4];
    if entries.iter().any(|entry| entry[0] & 0x7f != 0) {
        return Ok(None);
    }
    let used: Vec<u8> = entries.iter().filter(is_used).map(|e| e[4]).collect();
    Ok(match used.as_slice() {
        [] => None,
        [0xee] => Some(Signature::table("PMBR", 510, 2)),
        _ => Some(Signature::table("dos", 510, 2)),
    })
}

/// The label of a Sun disk, whose 16-bit words are zero if each is added without carry.
fn sun(probe: &Probe<'_>) -> Found {
    let sector: [u8; 512] = probe.bytes(0)?;
    if sector[508..510] != [0xda, 0xbe] {
        return Ok(None);
    }
    let words = sector
        .chunks(2)
        .map(|word| u16::from(word[0]) << 8 | u16::from(word[1]));
    let sum = words.fold(0, |sum, word| sum ^ word);
    Ok((sum == 0).then(|| Signature::table("sun", 508, 2)))
}

/// UDF says what it is in one of the descriptors from 32 KiB on, one every 2 KiB.
fn udf(probe: &Probe<'_>) -> Found {
    for sector in 0..16 {
        let at = 0x8001 + (sector << 11);
        let name: [u8; 5] = probe.bytes(at)?;
        match &name {
            b"NSR02" | b"NSR03" => return Ok(Some(Signature::contents("udf", at, 5))),
            b"BEA01" | b"BOOT2" | b"CD001" | b"CDW02" | b"TEA01" => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// DRBD's metadata in the last 4 KiB.
fn drbd(probe: &Probe<'_>) -> Found {
    let last = (probe.size() & !0xfff).checked_sub(0x1000);
    let Some(at) = last.map(|last| last + 60) else {
        return Ok(None);
    };
    let is_found = [0x8374_026b, 0x8374_026c, 0x8374_026d].contains(&probe.be32(at)?);
    Ok(is_found.then(|| Signature::contents("drbd", at, 4)))
}

/// A member of an MD array: versions 1.1, 1.2, 1.0 and 0.90 have their superblocks in four places.
fn md(probe: &Probe<'_>) -> Result<Vec<Signature>, DeviceError> {
    const MAGIC: u64 = 0xa92b_4efc;
    const NAME: &str = "linux_raid_member";
    let mut found = Vec::new();
    let sectors = probe.size() / 512;
    let near_end = sectors.checked_sub(16).map(|sector| (sector & !7) * 512);
    for at in [Some(0), Some(0x1000), near_end].into_iter().flatten() {
        if probe.le32(at)? == MAGIC && probe.le32(at + 4)? == 1 {
            found.push(Signature::contents(NAME, at, 4));
        }
    }
    if let Some(at) = (probe.size() & !0xffff).checked_sub(0x1_0000) {
        let is_old = (probe.le32(at)? == MAGIC && probe.le32(at + 4)? == 0)
            || (probe.be32(at)? == MAGIC && probe.be32(at + 4)? == 0);
        if is_old {
            found.push(Signature::contents(NAME, at, 4));
        }
    }
    Ok(found)
}

/// A physical volume of LVM: a label in one of the first four sectors.
fn lvm(probe: &Probe<'_>) -> Result<Vec<Signature>, DeviceError> {
    let mut found = Vec::new();
    for at in (0..4).map(|sector| sector * 512) {
        if probe.has(at, b"LABELONE")? && probe.has(at + 24, b"LVM2 001")? {
            found.push(Signature::contents("LVM2_member", at, 8));
        }
    }
    Ok(found)
}

/// The UFS of BSD and Solaris: superblocks in four places, with four magics, in two byte orders.
fn ufs(probe: &Probe<'_>) -> Result<Vec<Signature>, DeviceError> {
    const MAGICS: [u64; 4] = [0x0001_1954, 0x1954_0119, 0x0009_5014, 0x0005_2318];
    let mut found = Vec::new();
    for start in [0, 8 << 10, 64 << 10, 256 << 10] {
        let at = start + 0x55c;
        if MAGICS.contains(&probe.le32(at)?) || MAGICS.contains(&probe.be32(at)?) {
            found.push(Signature::contents("ufs", at, 4));
        }
    }
    Ok(found)
}
