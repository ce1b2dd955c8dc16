//! Partition tables, GPT and MBR, of a disk image that begins with the input.
//!
//! The first byte says how much larger the disk is than the input, in units of 4 KiB. If it is
//! odd, the checksums of GPT headers and entries are made right first, as a hostile image has
//! them, so that the input is not spent on guessing them.

#![no_main]

use cenote_device::{Device, MemoryDevice, partitions};
use libfuzzer_sys::fuzz_target;

/// Where headers are looked for, besides the last sector.
const HEADERS: [usize; 2] = [512, 4096];

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn number(image: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = image.get(at..at.checked_add(width)?)?;
    let value = bytes
        .iter()
        .rev()
        .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    usize::try_from(value).ok()
}

/// Seals the header at `at` and the entries that it names, in sectors of `sector` bytes.
fn seal(image: &mut [u8], sector: usize, at: usize) -> Option<()> {
    let entries = number(image, at + 72, 8)?.checked_mul(sector)?;
    let length = number(image, at + 80, 4)?.checked_mul(number(image, at + 84, 4)?)?;
    if let Some(end) = entries.checked_add(length)
        && let Some(table) = image.get(entries..end)
    {
        let sum = crc32(table);
        image[at + 88..at + 92].copy_from_slice(&sum.to_le_bytes());
    }
    let header_size = number(image, at + 12, 4)?.min(512);
    image.get_mut(at + 16..at + 20)?.fill(0);
    let sum = crc32(image.get(at..at + header_size)?);
    image[at + 16..at + 20].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, head)) = bytes.split_first() else {
        return;
    };
    let mut image = head.to_vec();
    image.resize(head.len().max(8192) + 4096 * usize::from(*first >> 1), 0);
    if first % 2 == 1 {
        for sector in HEADERS {
            let last = (image.len() / sector - 1) * sector;
            for at in [sector, last] {
                if image.get(at..at + 8) == Some(b"EFI PART") {
                    // What lies outside of the image cannot be sealed, and is to be refused.
                    let _ = seal(&mut image, sector, at);
                }
            }
        }
    }
    let device = MemoryDevice::new("image", image);
    let found = partitions(&device).expect("memory can be read");
    assert!(found.len() <= 1024 + 132, "{} partitions", found.len());
    for partition in found {
        let end = partition.start.checked_add(partition.length);
        let is_inside = end.is_some_and(|end| end <= device.size());
        assert!(is_inside && partition.start > 0 && partition.length > 0);
    }
});
