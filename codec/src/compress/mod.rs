//! Compressed blocks: the five stored streams of the format and their encoders.
//!
//! The caller passes a decoder the exact logical size, from the block pointer, and the decoder must
//! produce exactly that. The stored bytes may have zero padding behind the stream. No decoder
//! trusts a length it reads: each is compared with what is really there. An encoder gets the
//! capacity below which storing the result would save anything and gives up when the output does
//! not fit (format/2a 4).
//!
//! Encoders need not match OpenZFS's bytes: readers accept any valid stream. Only dedup and
//! no-op writes against blocks written by another implementation profit from equal bytes.

mod gzip;
mod kind;
mod lz4;
mod lzjb;
mod output;
mod zle;
mod zstd;

pub use kind::{Compression, DecompressError};
pub use zstd::{
    level_from_stored as zstd_level_from_stored, level_to_stored as zstd_level_to_stored,
};

/// Decodes `stored` into all of `out`, whose length is the block's logical size.
///
/// # Errors
/// If the stream is damaged or does not decode to exactly `out.len()` bytes; `out` then has
/// unspecified bytes.
pub fn decompress(kind: Compression, stored: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    match kind {
        Compression::Lzjb => lzjb::decompress(stored, out),
        Compression::Gzip(_) => gzip::decompress(kind, stored, out),
        Compression::Zle => zle::decompress(stored, out),
        Compression::Lz4 => lz4::decompress(stored, out),
        Compression::Zstd => zstd::decompress(stored, out),
    }
}

/// Encodes `data` into the front of `out`; `None` if that takes more than `capacity` bytes (or
/// than `out` has), or the level is none that the format knows.
///
/// `level` is a zstd level (1 to 19, or a negative "fast" level of the format's table) and is
/// ignored by the other kinds. The returned length has no padding yet.
pub fn compress(
    kind: Compression,
    level: i32,
    data: &[u8],
    capacity: usize,
    out: &mut [u8],
) -> Option<usize> {
    let capacity = capacity.min(out.len());
    let out = &mut out[..capacity];
    match kind {
        Compression::Lzjb => lzjb::compress(data, out),
        Compression::Gzip(level) => gzip::compress(level, data, out),
        Compression::Zle => zle::compress(data, out),
        Compression::Lz4 => lz4::compress(data, out),
        Compression::Zstd => zstd::compress(level, data, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Compression; 5] = [
        Compression::Lzjb,
        Compression::Gzip(6),
        Compression::Zle,
        Compression::Lz4,
        Compression::Zstd,
    ];

    /// Bytes with runs, repeats and noise, so that every encoder finds work.
    fn texture() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            (any::<u8>(), 1usize..400).prop_map(|(byte, count)| vec![byte; count]),
            (1usize..400).prop_map(|count| vec![0; count]),
            proptest::collection::vec(any::<u8>(), 1..100),
            (proptest::collection::vec(any::<u8>(), 1..9), 1usize..60)
                .prop_map(|(unit, times)| unit.repeat(times)),
        ];
        proptest::collection::vec(piece, 1..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn round_trips_with_padding(data in texture(), padding in 0usize..600) {
            for kind in ALL {
                let mut stored = vec![0xee; data.len() * 2 + 200];
                let room = stored.len();
                let length = compress(kind, 3, &data, room, &mut stored).expect("ample room");
                stored.truncate(length);
                stored.resize(length + padding, 0);
                let mut out = vec![0x55; data.len()];
                prop_assert_eq!(decompress(kind, &stored, &mut out), Ok(()), "{:?}", kind);
                prop_assert_eq!(&out, &data, "{:?}", kind);
                // One byte less of room and the encoder must give up without writing beyond.
                let mut tight = vec![0xee; length + 8];
                if let Some(again) = compress(kind, 3, &data, length - 1, &mut tight) {
                    prop_assert!(again < length);
                }
                prop_assert_eq!(&tight[length - 1..], &[0xee; 9][..]);
            }
        }

        #[test]
        fn wrong_sizes_are_errors(data in texture(), delta in 1usize..40) {
            for kind in ALL {
                let mut stored = vec![0; data.len() * 2 + 200];
                let room = stored.len();
                let length = compress(kind, 1, &data, room, &mut stored).expect("ample room");
                let mut out = vec![0; data.len() + delta];
                prop_assert!(decompress(kind, &stored[..length], &mut out).is_err(), "{:?}", kind);
                let cut = length - delta.min(length);
                out.truncate(data.len());
                prop_assert!(decompress(kind, &stored[..cut], &mut out).is_err(), "{:?}", kind);
            }
        }

        #[test]
        fn random_bytes_never_panic(
            stored in proptest::collection::vec(any::<u8>(), 0..700),
            size in 0usize..5000,
        ) {
            let mut out = vec![0; size];
            for kind in ALL {
                let _ = decompress(kind, &stored, &mut out);
            }
        }

        #[test]
        fn one_flipped_bit_never_panics(data in texture(), bit in any::<prop::sample::Index>()) {
            for kind in ALL {
                let mut stored = vec![0; data.len() * 2 + 200];
                let room = stored.len();
                let length = compress(kind, 1, &data, room, &mut stored).expect("ample room");
                let bit = bit.index(length * 8);
                stored[bit / 8] ^= 1 << (bit % 8);
                let mut out = vec![0; data.len()];
                let _ = decompress(kind, &stored[..length], &mut out);
            }
        }
    }

    #[test]
    fn noise_does_not_fit_seven_eighths() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..131072)
            .map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        let mut out = vec![0; noise.len()];
        for kind in ALL {
            assert_eq!(
                compress(kind, 3, &noise, 131072 / 8 * 7, &mut out),
                None,
                "{kind:?}"
            );
        }
    }
}
