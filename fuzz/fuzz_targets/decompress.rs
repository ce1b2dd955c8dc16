//! Every decompressor: the first byte chooses it, two more the size.

#![no_main]

use cenote_codec::Compression;
use cenote_codec::compress::decompress;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [kind, low, high, stored @ ..] = bytes else {
        return;
    };
    let kinds = [
        Compression::Lzjb,
        Compression::Gzip(6),
        Compression::Zle,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let kind = kinds[usize::from(*kind) % kinds.len()];
    let size = usize::from(u16::from_le_bytes([*low, *high])) * 4;
    let _ = decompress(kind, stored, &mut vec![0; size]);
});
