//! Compressing a block, if that saves anything (format/2a 4.2 and 4.6).

use cenote_base::settings;
use cenote_codec::compress::{self, Compression};
use cenote_device::{AlignedBuf, BlockBuffer};
use cenote_ondisk::CompressionKind;
use cenote_ondisk::block_pointer::EMBEDDED_PAYLOAD_MAX;
use std::sync::atomic::{AtomicBool, Ordering};

/// The level that "zstd" without a number means.
const ZSTD_LEVEL_DEFAULT: i32 = 3;

/// The allocation units of the pool's ordinary vdevs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// The smallest.
    pub min: u64,
    /// What all are multiples of.
    pub gcd: u64,
}

impl Units {
    /// The units of vdevs with these smallest allocations; 512 bytes without any.
    pub(super) fn of(sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut units: Option<Self> = None;
        for size in sizes {
            let (min, gcd) = units.map_or((size, size), |units| (units.min, units.gcd));
            units = Some(Self {
                min: min.min(size),
                gcd: greatest_common_divisor(gcd, size),
            });
        }
        units.unwrap_or(Self { min: 512, gcd: 512 })
    }

    /// The stored size of `length` bytes of a stream.
    pub(super) fn round(self, length: u64) -> u64 {
        match length <= self.min {
            true => self.min,
            false => length.next_multiple_of(self.gcd),
        }
    }

    /// The longest stream that is worth keeping for a block of `size` bytes.
    fn limit(self, kind: Compression, size: u64) -> u64 {
        let limit = size - size / 8;
        if kind == Compression::Zle {
            return limit;
        }
        let limit = limit - limit % self.gcd;
        match limit < self.min {
            true => EMBEDDED_PAYLOAD_MAX as u64,
            false => limit,
        }
    }
}

/// Objects whose last block is remembered; others may share their place.
const HINTS: usize = 256;

/// Whether the last block of an object was worth compressing: the next one is likely to be alike.
#[derive(Debug)]
pub(crate) struct Hints([AtomicBool; HINTS]);

impl Default for Hints {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; HINTS])
    }
}

impl Hints {
    fn place(&self, objset: u64, object: u64) -> &AtomicBool {
        let mixed = (objset.rotate_left(32) ^ object).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 56) as usize % HINTS]
    }

    /// Whether the object's last block was worth it.
    pub(super) fn is_promising(&self, objset: u64, object: u64) -> bool {
        self.place(objset, object).load(Ordering::Relaxed)
    }

    /// Remembers how it went with a block of the object.
    pub(super) fn learn(&self, objset: u64, object: u64, worth: bool) {
        self.place(objset, object).store(worth, Ordering::Relaxed);
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The encoder of a kind; `None` for kinds that do not compress.
pub(super) fn encoder(kind: CompressionKind) -> Option<Compression> {
    match kind {
        CompressionKind::On | CompressionKind::Lz4 => Some(Compression::Lz4),
        CompressionKind::Lzjb => Some(Compression::Lzjb),
        CompressionKind::Gzip(level) => Some(Compression::Gzip(level)),
        CompressionKind::Zle => Some(Compression::Zle),
        CompressionKind::Zstd => Some(Compression::Zstd),
        CompressionKind::Inherit | CompressionKind::Off | CompressionKind::Empty => None,
    }
}

/// A compressed block, without padding yet.
#[derive(Debug)]
pub(super) struct Stream {
    buffer: AlignedBuf,
    length: usize,
}

impl Stream {
    /// A copy of an already compressed stream.
    pub(super) fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = AlignedBuf::take(bytes.len());
        buffer[..bytes.len()].copy_from_slice(bytes);
        let length = bytes.len();
        Self { buffer, length }
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The bytes with zeros behind them, `size` in all.
    pub(super) fn padded(&self, size: usize) -> BlockBuffer {
        let mut block = BlockBuffer::take(size);
        let (front, rest) = block.split_at_mut(self.length);
        front.copy_from_slice(self.bytes());
        rest.fill(0);
        block
    }
}

/// Compresses `data`; `None` if it is better stored as it is.
///
/// `is_promising` says that blocks like this one were worth it lately: then dear functions are
/// tried without asking cheap ones first.
pub(super) fn squeeze(
    kind: Compression,
    level: i32,
    data: &[u8],
    units: Units,
    is_promising: bool,
) -> Option<Stream> {
    let limit = usize::try_from(units.limit(kind, data.len() as u64)).ok()?;
    let mut out = AlignedBuf::take(limit.max(EMBEDDED_PAYLOAD_MAX));
    let level = match level {
        0 => ZSTD_LEVEL_DEFAULT,
        level => level,
    };
    let is_dear = kind == Compression::Zstd
        && !is_promising
        && settings::ZSTD_EARLY_ABORT.is_on()
        && i64::from(level) >= settings::ZSTD_CUTOFF_LEVEL.get().cast_signed()
        && data.len() as u64 >= settings::ZSTD_ABORT_SIZE.get();
    if is_dear
        && compress::compress(Compression::Lz4, 0, data, limit, &mut out).is_none()
        && compress::compress(Compression::Zstd, 1, data, limit, &mut out).is_none()
    {
        return None;
    }
    let length = compress::compress(kind, level, data, limit, &mut out)?;
    let stored = units.round(length as u64);
    let is_embeddable = length <= EMBEDDED_PAYLOAD_MAX;
    if stored >= data.len() as u64 && !is_embeddable {
        return None;
    }
    Some(Stream {
        buffer: out,
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn what_was_worth_it_is_remembered_by_object() {
        let hints = Hints::default();
        assert!(!hints.is_promising(5, 7));
        hints.learn(5, 7, true);
        assert!(hints.is_promising(5, 7) && !hints.is_promising(5, 8));
        hints.learn(5, 7, false);
        assert!(!hints.is_promising(5, 7));
        let units = Units {
            min: 4096,
            gcd: 4096,
        };
        let random = noise(131_072);
        assert!(squeeze(Compression::Zstd, 3, &random, units, true).is_none());
    }

    #[test]
    fn units_of_mixed_vdevs() {
        assert_eq!(
            Units::of([4096, 12_288]),
            Units {
                min: 4096,
                gcd: 4096
            }
        );
        assert_eq!(
            Units::of([12_288, 8192]),
            Units {
                min: 8192,
                gcd: 4096
            }
        );
        assert_eq!(Units::of([]), Units { min: 512, gcd: 512 });
        let units = Units {
            min: 4096,
            gcd: 4096,
        };
        assert_eq!(
            [1, 4096, 4097].map(|length| units.round(length)),
            [4096, 4096, 8192]
        );
    }

    #[test]
    fn a_block_must_shrink_by_an_eighth() {
        let units = Units {
            min: 4096,
            gcd: 4096,
        };
        assert_eq!(units.limit(Compression::Lz4, 131_072), 114_688);
        assert_eq!(units.limit(Compression::Lz4, 16_384), 12_288);
        assert_eq!(
            units.limit(Compression::Lz4, 4096),
            112,
            "only if it can be embedded"
        );
        assert_eq!(units.limit(Compression::Zle, 4096), 3584);
        for kind in [
            Compression::Lz4,
            Compression::Zstd,
            Compression::Lzjb,
            Compression::Gzip(6),
        ] {
            assert!(
                squeeze(kind, 0, &noise(131_072), units, false).is_none(),
                "{kind:?}"
            );
            let mut half = noise(65_536);
            half.resize(131_072, 0);
            let stream = squeeze(kind, 0, &half, units, false).expect("half of it is zeros");
            let stream = stream.bytes();
            assert!(
                (60_000..80_000).contains(&stream.len()),
                "{kind:?}: {}",
                stream.len()
            );
            let mut back = vec![1; 131_072];
            compress::decompress(kind, stream, &mut back).expect("just made");
            assert!(back == half, "{kind:?}");
        }
        let mut sparse = vec![0; 4096];
        sparse[100] = 1;
        let stream = squeeze(Compression::Lz4, 0, &sparse, units, false).expect("tiny");
        assert!(stream.bytes().len() <= 112);
        let padded = stream.padded(4096);
        assert!(padded.len() == 4096 && padded.starts_with(stream.bytes()));
    }

    /// Half of the block repeats the other, too far away for the functions that are asked first.
    #[test]
    fn dear_functions_are_tried_by_the_settings() {
        let half = noise(640 << 10);
        let mut data = half.clone();
        data.extend_from_slice(&half[..384 << 10]);
        let units = Units {
            min: 4096,
            gcd: 4096,
        };
        let length = || squeeze(Compression::Zstd, 3, &data, units, false).map(|s| s.length);
        assert_eq!(length(), None, "given up early");
        let set = |setting: &settings::Setting, value| {
            setting.set(value).expect("in range");
            let length = length();
            setting.reset();
            length
        };
        let found = [
            set(&settings::ZSTD_EARLY_ABORT, 0),
            set(&settings::ZSTD_CUTOFF_LEVEL, 4),
            set(&settings::ZSTD_ABORT_SIZE, 2 << 20),
        ];
        for length in found {
            assert!(
                length.is_some_and(|length| length < 720 << 10),
                "{length:?}"
            );
        }
    }
}
