//! Names as a normalizing ZAP hashes and compares them (format/2b 5.4).
//!
//! Case folding first, then decomposition, then composition, each only if its flag is set. Bytes
//! that are not UTF-8 stay as they are. Case folding maps single characters to single characters
//! (so `ß` stays), like the tables that OpenZFS uses.

use unicode_normalization::UnicodeNormalization;

/// Fold to upper case.
pub const FLAG_TOUPPER: u64 = 0x2;
/// Fold to lower case.
pub const FLAG_TOLOWER: u64 = 0x4;
/// Decompose canonically.
pub const FLAG_DECOMPOSE: u64 = 0x10;
/// Decompose for compatibility.
pub const FLAG_DECOMPOSE_COMPATIBLE: u64 = 0x20;
/// Compose canonically.
pub const FLAG_COMPOSE: u64 = 0x40;

fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

fn normalize_text(text: &str, flags: u64, out: &mut String) {
    let folded = text.chars().map(|c| match flags {
        _ if flags & FLAG_TOUPPER != 0 => upper(c),
        _ if flags & FLAG_TOLOWER != 0 => lower(c),
        _ => c,
    });
    let compatible = flags & FLAG_DECOMPOSE_COMPATIBLE != 0;
    let canonical = flags & FLAG_DECOMPOSE != 0;
    match (compatible, canonical, flags & FLAG_COMPOSE != 0) {
        (true, _, true) => out.extend(folded.nfkc()),
        (true, _, false) => out.extend(folded.nfkd()),
        (false, _, true) => out.extend(folded.nfc()),
        (false, true, false) => out.extend(folded.nfd()),
        (false, false, false) => out.extend(folded),
    }
}

/// The form of `name` that decides equality under `flags`.
pub fn normalize(name: &[u8], flags: u64) -> Vec<u8> {
    if flags == 0 {
        return name.to_vec();
    }
    let mut normalized = Vec::with_capacity(name.len());
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.clear();
        normalize_text(chunk.valid(), flags, &mut text);
        normalized.extend_from_slice(text.as_bytes());
        normalized.extend_from_slice(chunk.invalid());
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_and_normalizes() {
        assert_eq!(
            normalize("straße Ärger".as_bytes(), FLAG_TOUPPER),
            "STRAßE ÄRGER".as_bytes()
        );
        assert_eq!(
            normalize("e\u{301}".as_bytes(), FLAG_DECOMPOSE | FLAG_COMPOSE),
            "é".as_bytes()
        );
        assert_eq!(
            normalize("é".as_bytes(), FLAG_DECOMPOSE),
            "e\u{301}".as_bytes()
        );
        assert_eq!(normalize("ﬁ".as_bytes(), FLAG_DECOMPOSE_COMPATIBLE), b"fi");
    }

    #[test]
    fn invalid_bytes_stay() {
        assert_eq!(normalize(b"a\xffb", FLAG_TOUPPER), b"A\xffB");
    }
}
