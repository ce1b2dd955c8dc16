//! Partition tables of disks and disk images: GPT and MBR.
//!
//! Only what a search needs: where partitions begin and how long they are. Everything read is
//! bounded and checked against the device's size. Entries that make no sense are left out rather
//! than reported, because most files that a search opens are no disk images at all.
//!
//! ```text
//! MBR, sector 0:  446 + 16*i  status, -, -, -, type, -, -, -, first sector u32, sectors u32
//!                 510         55 aa
//! GPT, sector 1:  0 "EFI PART"  16 crc of header  72 entries' sector u64  80 count u32
//!                 84 entry size u32  88 crc of entries;  a copy stands in the last sector
//! entry:          0 type guid  32 first sector u64  40 last sector u64 (inclusive)
//! ```

use crate::{Device, DeviceError};

/// Entries of a GPT that are read at most; tables have 128.
const GPT_ENTRIES_MAX: u64 = 1024;
const GPT_ENTRY_SIZE_MAX: u64 = 4096;
/// Logical partitions of an MBR that are followed.
const LOGICAL_MAX: usize = 128;
/// Sector sizes that disks have, hence GPT headers at byte 512 or 4096.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// A range of a disk that its partition table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The number that the kernel would give: 1 for the first.
    pub number: u32,
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The partitions of a disk or disk image; none if there is no partition table.
///
/// Extended partitions are followed, not listed. An error means that the device cannot be read.
pub fn partitions(device: &dyn Device) -> Result<Vec<Partition>, DeviceError> {
    let size = device.size();
    if size < 2 * SECTOR_SIZES[1] {
        return Ok(Vec::new());
    }
    let first = device.read_vec(0, 512)?;
    for sector in SECTOR_SIZES {
        let last = (size / sector - 1) * sector;
        for header_at in [sector, last] {
            if let Some(found) = gpt(device, sector, header_at)? {
                return Ok(found);
            }
        }
    }
    mbr(device, &first)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let word = bytes[offset..offset + 4].try_into();
    u32::from_le_bytes(word.expect("4 bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes[offset..offset + 8].try_into();
    u64::from_le_bytes(word.expect("8 bytes"))
}

/// The CRC-32 of Ethernet and GPT, bit by bit: tables are short.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let mask = (crc & 1).wrapping_neg();
            crc = (crc >> 1) ^ (0xedb8_8320 & mask);
        }
    }
    !crc
}

/// The range of `count` sectors from `first` on, if it lies on the device and is not empty.
fn range(number: u32, sector: u64, first: u64, count: u64, size: u64) -> Option<Partition> {
    let start = first.checked_mul(sector)?;
    let length = count.checked_mul(sector)?;
    let end = start.checked_add(length)?;
    // An image may have lost its tail; what is left of the partition is still worth a look.
    let length = end.min(size).checked_sub(start)?;
    (length > 0 && start > 0).then_some(Partition {
        number,
        start,
        length,
    })
}

fn gpt(
    device: &dyn Device,
    sector: u64,
    header_at: u64,
) -> Result<Option<Vec<Partition>>, DeviceError> {
    let header = device.read_vec(header_at, 512)?;
    let header_size = u32_at(&header, 12) as usize;
    if &header[..8] != b"EFI PART" || !(92..=512).contains(&header_size) {
        return Ok(None);
    }
    let mut sealed = header[..header_size].to_vec();
    sealed[16..20].fill(0);
    if crc32(&sealed) != u32_at(&header, 16) {
        return Ok(None);
    }
    let (count, entry_size) = (
        u64::from(u32_at(&header, 80)),
        u64::from(u32_at(&header, 84)),
    );
    let entries_at = u64_at(&header, 72).checked_mul(sector);
    let is_sane = count <= GPT_ENTRIES_MAX && (128..=GPT_ENTRY_SIZE_MAX).contains(&entry_size);
    let (Some(entries_at), true) = (entries_at, is_sane) else {
        return Ok(None);
    };
    let bytes = count * entry_size;
    if entries_at
        .checked_add(bytes)
        .is_none_or(|end| end > device.size())
    {
        return Ok(None);
    }
    // At most 4 MiB, by the two limits above.
    let entries = device.read_vec(entries_at, bytes as usize)?;
    if crc32(&entries) != u32_at(&header, 88) {
        return Ok(None);
    }
    let mut found = Vec::new();
    for (index, entry) in (1..).zip(entries.chunks_exact(entry_size as usize)) {
        let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
        let count = last
            .checked_sub(first)
            .and_then(|count| count.checked_add(1));
        if let (true, Some(count)) = (entry[..16] != [0; 16], count) {
            found.extend(range(index, sector, first, count, device.size()));
        }
    }
    Ok(Some(found))
}

/// An MBR entry: type, first sector, sectors.
fn mbr_entry(table: &[u8], index: usize) -> (u8, u64, u64) {
    let entry = &table[446 + 16 * index..][..16];
    (
        entry[4],
        u64::from(u32_at(entry, 8)),
        u64::from(u32_at(entry, 12)),
    )
}

fn is_extended(kind: u8) -> bool {
    matches!(kind, 0x05 | 0x0f | 0x85)
}

fn mbr(device: &dyn Device, first: &[u8]) -> Result<Vec<Partition>, DeviceError> {
    let sector = SECTOR_SIZES[0];
    let mut found = Vec::new();
    if first[510..512] != [0x55, 0xaa] {
        return Ok(found);
    }
    let mut extended = None;
    for index in 0..4 {
        let (kind, start, count) = mbr_entry(first, index);
        if is_extended(kind) {
            extended = extended.or(Some(start));
        } else if kind != 0 {
            found.extend(range(index as u32 + 1, sector, start, count, device.size()));
        }
    }
    let Some(base) = extended else {
        return Ok(found);
    };
    let mut table_sector = base;
    for number in (5..).take(LOGICAL_MAX) {
        let at = table_sector * sector;
        if at + sector > device.size() {
            break;
        }
        let table = device.read_vec(at, 512)?;
        if table[510..512] != [0x55, 0xaa] {
            break;
        }
        // The first entry is relative to this table, the link to the first table.
        let (kind, start, count) = mbr_entry(&table, 0);
        if kind != 0 {
            found.extend(range(
                number,
                sector,
                table_sector + start,
                count,
                device.size(),
            ));
        }
        let (kind, next, _) = mbr_entry(&table, 1);
        if !is_extended(kind) || next == 0 {
            break;
        }
        table_sector = base + next;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    const MIB: usize = 1 << 20;

    fn put_mbr(bytes: &mut [u8], at: usize, index: usize, kind: u8, start: u32, count: u32) {
        let entry = at + 446 + 16 * index;
        bytes[entry + 4] = kind;
        bytes[entry + 8..entry + 12].copy_from_slice(&start.to_le_bytes());
        bytes[entry + 12..entry + 16].copy_from_slice(&count.to_le_bytes());
        bytes[at + 510..at + 512].copy_from_slice(&[0x55, 0xaa]);
    }

    fn list(bytes: Vec<u8>) -> Vec<(u32, u64, u64)> {
        let device = MemoryDevice::new("disk", bytes);
        let found = partitions(&device).expect("memory reads");
        found
            .iter()
            .map(|p| (p.number, p.start, p.length))
            .collect()
    }

    #[test]
    fn crc_of_the_standard_check_string() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn primary_and_logical_partitions() {
        let mut disk = vec![0; 4 * MIB];
        put_mbr(&mut disk, 0, 0, 0x83, 1, 100);
        put_mbr(&mut disk, 0, 2, 0x05, 1000, 3000);
        put_mbr(&mut disk, 1000 * 512, 0, 0xbf, 10, 20);
        put_mbr(&mut disk, 1000 * 512, 1, 0x05, 500, 100);
        put_mbr(&mut disk, 1500 * 512, 0, 0xbf, 7, 9);
        let expected = [
            (1, 512, 51_200),
            (5, 1010 * 512, 10_240),
            (6, 1507 * 512, 4608),
        ];
        assert_eq!(list(disk), expected);
    }

    #[test]
    fn a_loop_of_logical_partitions_ends() {
        let mut disk = vec![0; MIB];
        put_mbr(&mut disk, 0, 0, 0x0f, 1, 1000);
        put_mbr(&mut disk, 512, 0, 0x83, 1, 1);
        put_mbr(&mut disk, 512, 1, 0x0f, 1, 1);
        put_mbr(&mut disk, 1024, 0, 0x83, 1, 1);
        put_mbr(&mut disk, 1024, 1, 0x0f, 1, 1);
        assert!(list(disk).len() <= LOGICAL_MAX);
    }

    /// A GPT with one entry, header at `header_at`, entries two sectors before or after.
    fn put_gpt(disk: &mut [u8], sector: usize, header_at: usize, entries_at: usize) {
        let mut entries = vec![0; 128 * 128];
        entries[128..144].fill(1);
        entries[160..168].copy_from_slice(&64u64.to_le_bytes());
        entries[168..176].copy_from_slice(&127u64.to_le_bytes());
        let mut header = [0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[12..16].copy_from_slice(&92u32.to_le_bytes());
        header[72..80].copy_from_slice(&((entries_at / sector) as u64).to_le_bytes());
        header[80..84].copy_from_slice(&128u32.to_le_bytes());
        header[84..88].copy_from_slice(&128u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
        let seal = crc32(&header);
        header[16..20].copy_from_slice(&seal.to_le_bytes());
        disk[header_at..header_at + 92].copy_from_slice(&header);
        disk[entries_at..entries_at + entries.len()].copy_from_slice(&entries);
    }

    #[test]
    fn gpt_in_both_sector_sizes_and_from_the_backup() {
        for sector in [512, 4096] {
            let expected = [(2, 64 * sector as u64, 64 * sector as u64)];
            let mut disk = vec![0; MIB];
            put_mbr(&mut disk, 0, 0, 0xee, 1, u32::MAX);
            put_gpt(&mut disk, sector, sector, 2 * sector);
            put_gpt(&mut disk, sector, MIB - sector, MIB - sector - 16_384);
            assert_eq!(list(disk.clone()), expected);
            disk[sector + 20] ^= 1;
            disk[sector] ^= 1;
            assert_eq!(list(disk), expected, "the backup header serves");
        }
    }

    #[test]
    fn noise_has_no_partitions() {
        assert_eq!(list(vec![0; MIB]), []);
        assert_eq!(list(vec![0xff; MIB]), []);
        assert_eq!(list(vec![1; 100]), []);
        let mut far = vec![0; MIB];
        put_mbr(&mut far, 0, 0, 0x83, u32::MAX, u32::MAX);
        assert_eq!(list(far), [], "a partition past the end is left out");
    }
}
