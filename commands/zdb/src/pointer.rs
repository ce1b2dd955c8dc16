//! Block pointers as OpenZFS prints them: in full, and in one short line of a tree.

use cenote_ondisk::block_pointer::{EmbeddedKind, Protection};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind};

/// The name of a block's compression.
fn compression(pointer: &BlockPointer) -> String {
    compression_name(pointer.compression_number())
}

/// The name of a compression function by its number.
pub fn compression_name(number: u8) -> String {
    match CompressionKind::from_number(number) {
        Some(CompressionKind::Off) => "uncompressed".to_owned(),
        Some(kind) => kind.name(),
        None => format!("UNKNOWN {number}"),
    }
}

/// The name of a checksum function by its number.
pub fn checksum_name(number: u8) -> String {
    match ChecksumKind::from_number(number) {
        Some(kind) => kind.name().to_owned(),
        None => format!("UNKNOWN {number}"),
    }
}

fn embedded_number(pointer: &BlockPointer) -> u8 {
    // The same bits are the checksum's of other pointers.
    pointer.checksum_number()
}

/// The whole pointer.
pub fn full(pointer: &BlockPointer) -> String {
    let kind = format!("[L{} {}]", pointer.level(), pointer.object_type());
    let (lsize, psize) = (pointer.logical_size(), pointer.physical_size());
    let birth = pointer.logical_birth();
    if pointer.is_embedded() {
        let (number, compression) = (embedded_number(pointer), compression(pointer));
        return match pointer.embedded_kind() {
            Some(EmbeddedKind::Redacted) => {
                format!("REDACTED {kind} size={lsize:x}L birth={birth}L")
            }
            _ => format!(
                "EMBEDDED {kind} et={number} {compression} size={lsize:x}L/{psize:x}P \
                 birth={birth}L"
            ),
        };
    }
    if pointer.is_hole() {
        return format!("HOLE {kind} size={lsize:x}L birth={birth}L");
    }
    let mut text = String::new();
    for (index, dva) in pointer.dvas().enumerate() {
        let (vdev, offset, asize) = (dva.vdev(), dva.offset(), dva.asize());
        text.push_str(&format!("DVA[{index}]=<{vdev}:{offset:x}:{asize:x}> "));
    }
    if pointer.has_crypt_parameters() {
        let [salt, iv] = [pointer.words[4], pointer.words[5]];
        let iv2 = pointer.words[11] >> 32;
        text.push_str(&format!("salt={salt:x} iv={iv:x}:{iv2:x} "));
    }
    text.push_str(&format!("{kind} "));
    text.push_str(&words(pointer));
    let [a, b, c, d] = pointer.checksum();
    text.push_str(&format!(
        " size={lsize:x}L/{psize:x}P birth={birth}L/{}P fill={} \
         cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}",
        pointer.physical_birth(),
        pointer.fill(),
    ));
    text
}

/// What a pointer says in words.
fn words(pointer: &BlockPointer) -> String {
    let protection = match pointer.protection() {
        Protection::None => "unencrypted",
        Protection::Encrypted => "encrypted",
        Protection::Authenticated => "authenticated",
        Protection::IndirectMac => "indirect-MAC",
    };
    let copies = match pointer.dvas().count() {
        1 => "single",
        2 => "double",
        3 => "triple",
        _ => "none",
    };
    [
        checksum_name(pointer.checksum_number()),
        compression(pointer),
        protection.to_owned(),
        if pointer.is_little_endian() {
            "LE"
        } else {
            "BE"
        }
        .to_owned(),
        if pointer.is_gang() {
            "gang"
        } else {
            "contiguous"
        }
        .to_owned(),
        if pointer.is_dedup() {
            "dedup"
        } else {
            "unique"
        }
        .to_owned(),
        copies.to_owned(),
    ]
    .join(" ")
}

/// The pointer in a line of a block tree: at most `copies` addresses.
pub fn short(pointer: &BlockPointer, copies: usize) -> String {
    let (lsize, psize) = (pointer.logical_size(), pointer.physical_size());
    let birth = pointer.logical_birth();
    if pointer.is_embedded() {
        let number = embedded_number(pointer);
        return format!("EMBEDDED et={number} {lsize:x}L/{psize:x}P B={birth}");
    }
    if pointer.is_hole() {
        return format!("0:0:0 {lsize:x}L B={birth}");
    }
    let mut text = String::new();
    for dva in pointer.dvas().take(copies) {
        let (vdev, offset, asize) = (dva.vdev(), dva.offset(), dva.asize());
        text.push_str(&format!("{vdev}:{offset:x}:{asize:x} "));
    }
    let [a, b, c, d] = pointer.checksum();
    text.push_str(&format!(
        "{lsize:x}L/{psize:x}P F={} B={birth}/{} cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}",
        pointer.fill(),
        pointer.physical_birth(),
    ));
    text
}
