//! Speeds of the codec crate, measured as OpenZFS's own tools measure theirs.
//!
//! The layouts and sizes are those of `raidz_test -B` (8 data columns, sectors of 4 KiB, blocks of
//! 4 KiB to 16 MiB; the smallest blocks fill fewer columns) and of the library's checksum functions
//! at 4 KiB and 128 KiB, so that the figures can stand side by side. Each figure is the best of
//! many short bursts: whatever else the machine does disturbs a short burst least, and one
//! undisturbed burst is enough.

use crate::read::PageBuffer;
use cenote_codec::parity::{self, Kernel};
use cenote_codec::{Endian, checksum, cipher};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// One measured speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// What ran, with OpenZFS's name where it has one: `fletcher4`, `gen_pq`, `rec_pqr`.
    pub name: String,
    /// Data columns that the block fills in a parity layout, otherwise 0.
    pub data_columns: usize,
    /// Bytes of data per call (without parity).
    pub block_bytes: usize,
    /// Bytes of data per nanosecond, that is 10^9 bytes per second.
    pub gb_per_second: f64,
}

impl Rate {
    /// The figure of `raidz_test -B`'s column `disk_bw`: 2^20 bytes per second of one of the
    /// layout's 8 columns, whether or not the block fills them all.
    pub fn disk_bandwidth(&self) -> f64 {
        self.gb_per_second * 1e9 / DATA_COLUMNS as f64 / f64::from(1 << 20)
    }
}

/// Data columns of `raidz_test -B`.
pub const DATA_COLUMNS: usize = 8;

/// The sector size of `raidz_test -B`, as its figures for small blocks show.
const SECTOR: usize = 4096;

/// What `raidz_test -B` calls its measurements, with the parity count and the columns that are
/// lost (parity first, then data); generating loses nothing. Only lost data is recomputed.
pub const PARITY_OPERATIONS: [(&str, usize, &[usize]); 10] = [
    ("gen_p", 1, &[]),
    ("gen_pq", 2, &[]),
    ("gen_pqr", 3, &[]),
    ("rec_p", 1, &[1]),
    ("rec_q", 2, &[0, 2]),
    ("rec_r", 3, &[0, 1, 3]),
    ("rec_pq", 2, &[2, 3]),
    ("rec_pr", 3, &[1, 3, 4]),
    ("rec_qr", 3, &[0, 3, 4]),
    ("rec_pqr", 3, &[3, 4, 5]),
];

/// The best speed over bursts of about 1 MiB during `budget`.
fn best_rate(budget: Duration, bytes: usize, mut call: impl FnMut()) -> f64 {
    let calls = ((1 << 20) / bytes).max(1);
    let (end, mut best) = (Instant::now() + budget, 0.0f64);
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        let now = Instant::now();
        best = best.max((calls * bytes) as f64 / (now - start).as_nanos().max(1) as f64);
        if now >= end {
            return best;
        }
    }
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect()
}

/// Keeps a result from being optimised away.
fn consume<T>(result: T) {
    black_box(result);
}

/// A named computation over a block.
type Named<'a> = (&'a str, Box<dyn Fn(&[u8]) + 'a>);

/// Speeds of the checksums by OpenZFS's names, at 4 KiB and 128 KiB; `seconds` in all.
pub fn checksums(seconds: f64) -> Vec<Rate> {
    checksums_named("", seconds)
}

/// [`checksums`] of those functions whose name starts with `prefix`.
pub fn checksums_named(prefix: &str, seconds: f64) -> Vec<Rate> {
    let salt = checksum::Salt::new([0x5a; 32]);
    let mut functions: Vec<Named<'_>> = vec![
        (
            "fletcher2",
            Box::new(|data| consume(checksum::fletcher2(data, Endian::Little))),
        ),
        (
            "fletcher4",
            Box::new(|data| consume(checksum::fletcher4(data, Endian::Little))),
        ),
        ("sha256", Box::new(|data| consume(checksum::sha256(data)))),
        (
            "sha512",
            Box::new(|data| consume(checksum::sha512_256(data))),
        ),
        ("skein", Box::new(|data| consume(salt.skein(data)))),
        ("edonr", Box::new(|data| consume(salt.edonr(data)))),
        ("blake3", Box::new(|data| consume(salt.blake3(data)))),
    ];
    functions.retain(|(name, _)| name.starts_with(prefix));
    let sizes = [4 << 10, 128 << 10];
    let count = (functions.len() * sizes.len()).max(1);
    let budget = Duration::from_secs_f64(seconds / count as f64);
    let mut rates = Vec::new();
    for (name, function) in &functions {
        for block_bytes in sizes {
            let data = noise(block_bytes, 1);
            let gb_per_second = best_rate(budget, block_bytes, || function(black_box(&data)));
            rates.push(Rate {
                name: (*name).to_owned(),
                data_columns: 0,
                block_bytes,
                gb_per_second,
            });
        }
    }
    rates
}

/// Speeds of the ciphers over 128 KiB blocks, encrypting; `seconds` in all.
pub fn ciphers(seconds: f64) -> Vec<Rate> {
    let block_bytes = 128 << 10;
    let budget = Duration::from_secs_f64(seconds / 6.0);
    let mut buffer = noise(block_bytes, 2);
    (3..=8)
        .filter_map(cipher::Suite::from_number)
        .map(|suite| {
            let key = cipher::MasterKey::new(suite, [3; 32]).block_key([4; 8]);
            let gb_per_second = best_rate(budget, block_bytes, || {
                let tag = key.encrypt(&[5; 12], &[], black_box(&mut buffer));
                consume(tag);
            });
            Rate {
                name: format!("{suite:?}"),
                data_columns: 0,
                block_bytes,
                gb_per_second,
            }
        })
        .collect()
}

/// Speeds of parity with the best kernel of this CPU, in the order of `raidz_test -B`;
/// `seconds` in all.
pub fn parity(seconds: f64) -> Vec<Rate> {
    parity_with(Kernel::best(), seconds)
}

/// [`parity`] with a chosen kernel.
pub fn parity_with(kernel: Kernel, seconds: f64) -> Vec<Rate> {
    let sizes = (12..=24).map(|shift| 1usize << shift);
    let count = PARITY_OPERATIONS.len() * sizes.clone().count();
    let budget = Duration::from_secs_f64(seconds / count as f64);
    let mut rates = Vec::new();
    for (name, parity_count, lost) in PARITY_OPERATIONS {
        for block_bytes in sizes.clone() {
            let data_columns = DATA_COLUMNS.min(block_bytes / SECTOR);
            if data_columns < DATA_COLUMNS && !lost.is_empty() {
                continue;
            }
            let layout = (parity_count, data_columns);
            let gb_per_second = parity_rate(kernel, budget, block_bytes, layout, lost);
            rates.push(Rate {
                name: name.to_owned(),
                data_columns,
                block_bytes,
                gb_per_second,
            });
        }
    }
    rates
}

/// A column on whole pages, as those of `raidz_test -B` and of pools are.
fn column_of(length: usize, seed: u64) -> PageBuffer {
    let mut column = PageBuffer::new(length);
    column.get().copy_from_slice(&noise(length, seed));
    column
}

fn parity_rate(
    kernel: Kernel,
    budget: Duration,
    block_bytes: usize,
    (parity_count, data_columns): (usize, usize),
    lost: &[usize],
) -> f64 {
    let length = block_bytes / data_columns;
    let mut columns: Vec<PageBuffer> = (0..parity_count + data_columns)
        .map(|column| column_of(length, column as u64))
        .collect();
    let mut slices: Vec<&mut [u8]> = columns.iter_mut().map(PageBuffer::get).collect();
    let (parity_slices, data_slices) = slices.split_at_mut(parity_count);
    let data_slices: Vec<&[u8]> = data_slices.iter().map(|data| &**data).collect();
    if lost.is_empty() {
        return best_rate(budget, block_bytes, || {
            parity::generate_with(
                kernel,
                black_box(&mut *parity_slices),
                black_box(&data_slices),
            );
        });
    }
    parity::generate_with(kernel, parity_slices, &data_slices);
    let wanted: Vec<usize> = lost
        .iter()
        .copied()
        .filter(|column| *column >= parity_count)
        .collect();
    best_rate(budget, block_bytes, || {
        let result =
            parity::reconstruct_with(kernel, parity_count, black_box(&mut slices), lost, &wanted);
        consume(result);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_and_positive() {
        let rates = parity(0.02);
        // Reconstruction is measured on blocks that fill all columns, from 32 KiB on.
        assert_eq!(rates.len(), 3 * 13 + 7 * 10);
        assert_eq!(
            (rates[0].name.as_str(), rates[0].block_bytes),
            ("gen_p", 4096)
        );
        let all = rates
            .into_iter()
            .chain(checksums(0.02))
            .chain(ciphers(0.02));
        assert!(all.into_iter().all(|rate| rate.gb_per_second > 0.0));
    }

    #[test]
    fn disk_bandwidth_is_per_column_in_mebibytes() {
        let rate = Rate {
            name: "gen_p".to_owned(),
            data_columns: 8,
            block_bytes: 4096,
            gb_per_second: 8.0 * 1.048576,
        };
        assert!((rate.disk_bandwidth() - 1000.0).abs() < 1e-6);
    }
}
