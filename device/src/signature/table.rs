//! Signatures of four and more bytes at fixed places.

use super::probe::{MAGIC_MAX, Probe, Signature, SignatureKind};
use crate::DeviceError;

/// Where a magic is.
#[derive(Clone, Copy)]
enum Place {
    /// So many bytes from the start.
    At(u64),
    /// So many bytes before the end.
    BeforeEnd(u64),
}

/// One place of one format.
struct Magic {
    name: &'static str,
    place: Place,
    bytes: &'static [u8],
}

const fn at(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    let place = Place::At(offset);
    Magic { name, place, bytes }
}

const fn end(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    let place = Place::BeforeEnd(offset);
    Magic { name, place, bytes }
}

const LUKS_SECOND: &[u8] = b"SKUL\xba\xbe";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";

/// File systems.
const FILE_SYSTEMS: &[Magic] = &[
    at("xfs", 0, b"XFSB"),
    at("xfs_external_log", 0, b"\xfe\xed\xba\xbe"),
    at("exfs", 0, b"EXFS"),
    at("btrfs", 0x10040, b"_BHRfS_M"),
    at("bcachefs", 0x1018, BCACHEFS),
    at("f2fs", 0x400, b"\x10\x20\xf5\xf2"),
    at("erofs", 0x400, b"\xe2\xe1\xf5\xe0"),
    at("squashfs", 0, b"hsqs"),
    at("squashfs", 0, b"sqsh"),
    at("cramfs", 0, b"\x45\x3d\xcd\x28"),
    at("cramfs", 0, b"\x28\xcd\x3d\x45"),
    at("romfs", 0, b"-rom1fs-"),
    at("zonefs", 0, b"SFOZ"),
    at("apfs", 0x20, b"NXSB"),
    at("iso9660", 0x8001, b"CD001"),
    at("iso9660", 0x8009, b"CDROM"),
    at("jfs", 0x8000, b"JFS1"),
    at("reiserfs", 0x2034, b"ReIsErFs"),
    at("reiserfs", 0x10034, b"ReIsErFs"),
    at("reiserfs", 0x10034, b"ReIsEr2Fs"),
    at("reiserfs", 0x10034, b"ReIsEr3Fs"),
    at("reiser4", 0x10000, b"ReIsEr4"),
    at("gfs2", 0x10000, b"\x01\x16\x19\x70"),
    at("ocfs2", 0x400, b"OCFSV2"),
    at("ocfs2", 0x800, b"OCFSV2"),
    at("ocfs2", 0x1000, b"OCFSV2"),
    at("ocfs2", 0x2000, b"OCFSV2"),
    at("oracleasm", 0x20, b"ORCLDISK"),
    at("vxfs", 0x400, b"\xf5\xfc\x01\xa5"),
    at("bfs", 0, b"\xce\xfa\xad\x1b"),
    at("befs", 0x220, b"BFS1"),
    at("befs", 0x220, b"1SFB"),
    at("nss", 0x1000, b"SPB5"),
    at("hpfs", 0x2000, b"\x49\xe8\x95\xf9"),
    at("ntfs", 3, b"NTFS    "),
    at("exfat", 3, b"EXFAT   "),
    at("ReFS", 0, b"\0\0\0ReFS\0"),
    at("vfat", 0x52, b"FAT32   "),
    at("vfat", 0x52, b"MSWIN"),
    at("vfat", 0x36, b"FAT16   "),
    at("vfat", 0x36, b"FAT12   "),
    at("vfat", 0x36, b"MSDOS"),
    at("ubifs", 0, b"\x31\x18\x10\x06"),
    at("VMFS", 0x20_0000, b"\x5e\xf1\xab\x2f"),
];

/// Volumes for file systems, swap, members of arrays.
const VOLUMES: &[Magic] = &[
    at("crypto_LUKS", 0, b"LUKS\xba\xbe"),
    at("crypto_LUKS", 0x4000, LUKS_SECOND),
    at("crypto_LUKS", 0x8000, LUKS_SECOND),
    at("crypto_LUKS", 0x1_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x2_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x4_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x8_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x10_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x20_0000, LUKS_SECOND),
    at("crypto_LUKS", 0x40_0000, LUKS_SECOND),
    at("BitLocker", 3, b"-FVE-FS-"),
    at("LVM1_member", 0, b"HM\x01\0"),
    at("LVM1_member", 0, b"HM\x02\0"),
    at("DM_snapshot_cow", 0, b"SnAp"),
    at("DM_verity_hash", 0, b"verity\0\0"),
    at("DM_integrity", 0, b"integrt\0"),
    at("bcache", 0x1018, BCACHE),
    at("ceph_bluestore", 0, b"bluestore block device"),
    at("stratis", 0x204, STRATIS),
    at("stratis", 0x1204, STRATIS),
    at("vdo", 0, b"dmvdo001"),
    at("ubi", 0, b"UBI#"),
    at("VMFS_volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    end("ddf_raid_member", 0x200, b"\xde\x11\xde\x11"),
    end("isw_raid_member", 0x400, b"Intel Raid ISM Cfg Sig. "),
    end("lsi_mega_raid_member", 0x200, b"$XIDE$"),
    end("nvidia_raid_member", 0x400, b"NVIDIA"),
    end("adaptec_raid_member", 0x200, b"DPTM"),
];

/// Partition tables. A table for sectors of 4 KiB has its header in the second of these.
const TABLES: &[Magic] = &[
    at("gpt", 0x200, b"EFI PART"),
    at("gpt", 0x1000, b"EFI PART"),
    end("gpt", 0x200, b"EFI PART"),
    end("gpt", 0x1000, b"EFI PART"),
    at("bsd", 0, b"\x57\x45\x56\x82"),
    at("bsd", 0x40, b"\x57\x45\x56\x82"),
    at("bsd", 0x200, b"\x57\x45\x56\x82"),
    at("sgi", 0, b"\x0b\xe5\xa9\x41"),
    at("aix", 0, b"\xc9\xc2\xd4\xc1"),
    at("mac", 0x200, b"PM\0\0"),
];

/// Sizes of memory pages, at the end of whose first one swap has its mark.
const PAGE_SIZES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// The bytes there, and the kind of swap they mark.
const SWAP: [(&str, &[u8]); 6] = [
    ("swap", b"SWAPSPACE2"),
    ("swap", b"SWAP-SPACE"),
    ("swsuspend", b"S1SUSPEND"),
    ("swsuspend", b"S2SUSPEND"),
    ("swsuspend", b"ULSUSPEND"),
    ("swsuspend", b"LINHIB0001"),
];

/// Sectors before the end where Promise's controllers may have their mark.
const PROMISE_SECTORS: [u64; 13] = [
    63, 255, 256, 16, 399, 591, 675, 735, 911, 951, 974, 991, 3087,
];

/// All signatures of the table that the device has.
pub(super) fn find(probe: &Probe<'_>) -> Result<Vec<Signature>, DeviceError> {
    let mut found = Vec::new();
    let kinds = [
        (SignatureKind::Contents, FILE_SYSTEMS),
        (SignatureKind::Contents, VOLUMES),
        (SignatureKind::PartitionTable, TABLES),
    ];
    for (kind, magics) in kinds {
        for magic in magics {
            let place = match magic.place {
                Place::At(offset) => Some(offset),
                Place::BeforeEnd(offset) => probe.size().checked_sub(offset),
            };
            if let Some(place) = place
                && probe.has(place, magic.bytes)?
            {
                let length = magic.bytes.len();
                let signature = Signature::contents(magic.name, place, length);
                found.push(Signature { kind, ..signature });
            }
        }
    }
    for page in PAGE_SIZES {
        for (name, bytes) in SWAP {
            if probe.has(page - 10, bytes)? {
                found.push(Signature::contents(name, page - 10, bytes.len()));
            }
        }
    }
    const PROMISE: &[u8] = b"Promise Technology, Inc.";
    for sectors in PROMISE_SECTORS {
        let place = probe.size().checked_sub(sectors * 512);
        if let Some(place) = place
            && probe.has(place, PROMISE)?
        {
            let name = "promise_fasttrack_raid_member";
            found.push(Signature::contents(name, place, PROMISE.len()));
        }
    }
    Ok(found)
}

const _: () = {
    let groups = [FILE_SYSTEMS, VOLUMES, TABLES];
    let mut group = 0;
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            let length = groups[group][index].bytes.len();
            assert!(
                length >= 4 && length <= MAGIC_MAX,
                "two bytes prove nothing"
            );
            index += 1;
        }
        group += 1;
    }
};
