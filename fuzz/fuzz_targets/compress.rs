//! What is compressed decompresses to the same.

#![no_main]

use cenote_codec::Compression;
use cenote_codec::compress::{compress, decompress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [kind, data @ ..] = bytes else {
        return;
    };
    let kinds = [
        Compression::Lzjb,
        Compression::Gzip(1),
        Compression::Zle,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let kind = kinds[usize::from(*kind) % kinds.len()];
    let mut stored = vec![0; data.len() + 1024];
    let capacity = stored.len();
    if let Some(length) = compress(kind, 3, data, capacity, &mut stored) {
        let mut out = vec![0; data.len()];
        assert_eq!(decompress(kind, &stored[..length], &mut out), Ok(()));
        assert_eq!(out, data);
    }
});
