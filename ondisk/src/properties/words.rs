//! The words of index properties: a stored number and how it is written (format/3c 5).
//!
//! Where several words mean one number, the first is the one that is shown.

/// Words and their numbers.
pub type Words = &'static [(&'static str, u64)];

/// Of most switches.
pub const BOOLEAN: Words = &[("off", 0), ("on", 1)];
pub(crate) const ACL_INHERIT: Words = &[
    ("discard", 0),
    ("noallow", 1),
    ("restricted", 4),
    ("passthrough", 3),
    ("passthrough-x", 5),
    ("secure", 4),
];
pub(crate) const ACL_MODE: Words = &[
    ("discard", 0),
    ("groupmask", 2),
    ("passthrough", 3),
    ("restricted", 4),
];
pub(crate) const ACL_TYPE: Words = &[
    ("off", 0),
    ("posix", 1),
    ("nfsv4", 2),
    ("disabled", 0),
    ("noacl", 0),
    ("posixacl", 1),
];
pub(crate) const CAN_MOUNT: Words = &[("off", 0), ("on", 1), ("noauto", 2)];
pub(crate) const CASE: Words = &[("sensitive", 0), ("insensitive", 1), ("mixed", 2)];
pub(crate) const CHECKSUM: Words = &[
    ("on", 1),
    ("off", 2),
    ("fletcher2", 6),
    ("fletcher4", 7),
    ("sha256", 8),
    ("noparity", 10),
    ("sha512", 11),
    ("skein", 12),
    ("edonr", 13),
    ("blake3", 14),
];
/// With this bit a block is compared before it is shared.
const VERIFY: u64 = 0x100;
pub(crate) const DEDUP: Words = &[
    ("on", 1),
    ("off", 2),
    ("verify", 1 | VERIFY),
    ("sha256", 8),
    ("sha256,verify", 8 | VERIFY),
    ("sha512", 11),
    ("sha512,verify", 11 | VERIFY),
    ("skein", 12),
    ("skein,verify", 12 | VERIFY),
    ("edonr,verify", 13 | VERIFY),
    ("blake3", 14),
    ("blake3,verify", 14 | VERIFY),
];
pub(crate) const DIRECT: Words = &[("disabled", 0), ("standard", 1), ("always", 2)];
pub(crate) const DNODE_SIZE: Words = &[
    ("legacy", 0),
    ("auto", 1),
    ("1k", 1024),
    ("2k", 2048),
    ("4k", 4096),
    ("8k", 8192),
    ("16k", 16384),
];
pub(crate) const ENCRYPTION: Words = &[
    ("on", 1),
    ("off", 2),
    ("aes-128-ccm", 3),
    ("aes-192-ccm", 4),
    ("aes-256-ccm", 5),
    ("aes-128-gcm", 6),
    ("aes-192-gcm", 7),
    ("aes-256-gcm", 8),
    ("off", 0),
];
pub(crate) const KEY_FORMAT: Words = &[("none", 0), ("raw", 1), ("hex", 2), ("passphrase", 3)];
/// Of `keystatus`.
pub const KEY_STATUS: Words = &[("none", 0), ("unavailable", 1), ("available", 2)];
pub(crate) const LOG_BIAS: Words = &[("latency", 0), ("throughput", 1)];
pub(crate) const NORMALIZATION: Words = &[
    ("none", 0),
    ("formD", 0x10),
    ("formKC", 0x60),
    ("formC", 0x50),
    ("formKD", 0x20),
];
pub(crate) const CACHE: Words = &[("none", 0), ("metadata", 1), ("all", 2)];
pub(crate) const REDUNDANT_METADATA: Words = &[("all", 0), ("most", 1), ("some", 2), ("none", 3)];
pub(crate) const SNAP_DEV: Words = &[("hidden", 0), ("visible", 1)];
pub(crate) const SNAP_DIR: Words = &[("hidden", 0), ("visible", 1), ("disabled", 2)];
pub(crate) const SYNC: Words = &[("standard", 0), ("always", 1), ("disabled", 2)];
pub(crate) const VOLUME_MODE: Words = &[
    ("default", 0),
    ("full", 1),
    ("geom", 1),
    ("dev", 2),
    ("none", 3),
];
/// `on` has been the word for system attributes since 2.3; number 1 is `dir`.
pub(crate) const XATTR: Words = &[("off", 0), ("on", 2), ("sa", 2), ("dir", 1)];
pub(crate) const YES_NO: Words = &[("no", 0), ("yes", 1)];

/// A zstd level's place in the stored number (format/3c 5).
const fn zstd(code: u64) -> u64 {
    16 | code << 7
}

pub(crate) const COMPRESSION: Words = &[
    ("on", 1),
    ("off", 2),
    ("lzjb", 3),
    ("gzip", 10),
    ("gzip-1", 5),
    ("gzip-2", 6),
    ("gzip-3", 7),
    ("gzip-4", 8),
    ("gzip-5", 9),
    ("gzip-6", 10),
    ("gzip-7", 11),
    ("gzip-8", 12),
    ("gzip-9", 13),
    ("zle", 14),
    ("lz4", 15),
    ("zstd", 16),
    ("zstd-1", zstd(1)),
    ("zstd-2", zstd(2)),
    ("zstd-3", zstd(3)),
    ("zstd-4", zstd(4)),
    ("zstd-5", zstd(5)),
    ("zstd-6", zstd(6)),
    ("zstd-7", zstd(7)),
    ("zstd-8", zstd(8)),
    ("zstd-9", zstd(9)),
    ("zstd-10", zstd(10)),
    ("zstd-11", zstd(11)),
    ("zstd-12", zstd(12)),
    ("zstd-13", zstd(13)),
    ("zstd-14", zstd(14)),
    ("zstd-15", zstd(15)),
    ("zstd-16", zstd(16)),
    ("zstd-17", zstd(17)),
    ("zstd-18", zstd(18)),
    ("zstd-19", zstd(19)),
    ("zstd-fast", zstd(103)),
    ("zstd-fast-1", zstd(103)),
    ("zstd-fast-2", zstd(104)),
    ("zstd-fast-3", zstd(105)),
    ("zstd-fast-4", zstd(106)),
    ("zstd-fast-5", zstd(107)),
    ("zstd-fast-6", zstd(108)),
    ("zstd-fast-7", zstd(109)),
    ("zstd-fast-8", zstd(110)),
    ("zstd-fast-9", zstd(111)),
    ("zstd-fast-10", zstd(112)),
    ("zstd-fast-20", zstd(113)),
    ("zstd-fast-30", zstd(114)),
    ("zstd-fast-40", zstd(115)),
    ("zstd-fast-50", zstd(116)),
    ("zstd-fast-60", zstd(117)),
    ("zstd-fast-70", zstd(118)),
    ("zstd-fast-80", zstd(119)),
    ("zstd-fast-90", zstd(120)),
    ("zstd-fast-100", zstd(121)),
    ("zstd-fast-500", zstd(122)),
    ("zstd-fast-1000", zstd(123)),
];

/// The word for a number; `None` for numbers of other releases, which are shown as they are.
pub fn word(words: Words, number: u64) -> Option<&'static str> {
    words
        .iter()
        .find(|(_, value)| *value == number)
        .map(|(word, _)| *word)
}

/// The number of a word.
pub fn number(words: Words, word: &str) -> Option<u64> {
    words
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_shown_and_every_word_is_read() {
        assert_eq!(word(XATTR, 2), Some("on"));
        assert_eq!(number(XATTR, "sa"), Some(2));
        assert_eq!(word(COMPRESSION, 16 + (3 << 7)), Some("zstd-3"));
        assert_eq!(number(COMPRESSION, "zstd-fast-1000"), Some(16 + (123 << 7)));
        assert_eq!(word(COMPRESSION, 4), None);
    }
}
