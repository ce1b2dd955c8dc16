//! Raidz parity: up to three parity columns P, Q, R over any number of data columns.
//!
//! With data columns `D_0 .. D_{m-1}`, bytewise over GF(2^8) (`field`), parity row `r` is
//! `Σ 2^(r (m-1-i)) D_i`: P is the plain sum, Q weighs with powers of 2 counted from the *last*
//! column, R with powers of 4. Data columns may be shorter than parity columns and then end in
//! zeros (format/1c 1c.2).
//!
//! Everything is one operation, a *linear combination* of source columns into at most three
//! output columns ([`combine`]). Generating takes its factors from the formula above;
//! reconstructing solves the formula for the lost columns first (`solve`), which costs nothing
//! beside the data. Each source is read once and each output written once: the sums live in
//! registers while a kernel walks all sources, a few hundred bytes of each at a time.

mod combine;
mod equations;
mod field;
#[cfg(target_arch = "x86_64")]
mod kernel_x86;
mod solve;

pub use combine::{Kernel, kernels};
pub use equations::{PARITY_MAX, ReconstructError};

use combine::{Output, Source, Sources, combine};
use equations::factor;

/// The most data columns: beyond, powers of 2 repeat and lost columns become ambiguous.
pub const DATA_MAX: usize = 255;

/// Computes P, or P and Q, or P, Q and R of the data columns.
///
/// Parity columns have equal lengths; data columns are at most as long and zero-extended.
pub fn generate(parity_columns: &mut [&mut [u8]], data_columns: &[&[u8]]) {
    generate_with(Kernel::best(), parity_columns, data_columns);
}

/// [`generate`] with a chosen kernel, for tests and benchmarks.
pub fn generate_with(kernel: Kernel, parity_columns: &mut [&mut [u8]], data_columns: &[&[u8]]) {
    let (rows, count) = (parity_columns.len(), data_columns.len());
    assert!(
        (1..=PARITY_MAX).contains(&rows),
        "raidz has 1 to 3 parity columns"
    );
    assert!(
        (1..=DATA_MAX).contains(&count),
        "raidz has 1 to 255 data columns"
    );
    let length = parity_columns[0].len();
    assert!(
        parity_columns.iter().all(|column| column.len() == length),
        "parity is of one length"
    );
    assert!(
        data_columns.iter().all(|column| column.len() <= length),
        "data fits under parity"
    );
    if let [data] = data_columns {
        // Every factor is 1: blocks of one sector, frequent and small, are simply mirrored.
        if data.len() == length {
            kernel.copy(data, parity_columns);
            return;
        }
        for column in parity_columns {
            let (front, rest) = column.split_at_mut(data.len());
            front.copy_from_slice(data);
            rest.fill(0);
        }
        return;
    }
    let mut sources = Sources::new();
    for (column, data) in data_columns.iter().enumerate() {
        let mut factors = [0; PARITY_MAX];
        for (row, value) in factors[..rows].iter_mut().enumerate() {
            *value = factor(row, column, count);
        }
        sources.push(Source { data, factors });
    }
    let mut outputs: [Output<'_>; PARITY_MAX] = Default::default();
    for (output, column) in outputs.iter_mut().zip(parity_columns) {
        output.data = column;
    }
    combine(kernel, sources.as_mut_slice(), &mut outputs[..rows]);
}

/// Recomputes the columns `lost` from all others, in place.
///
/// `columns` has `parity_count` parity columns first, then the data columns; lengths as for
/// [`generate`]. What the lost columns contain before does not matter.
///
/// # Errors
/// If more than `parity_count` columns are lost, or `lost` names no or the same column twice.
pub fn reconstruct(
    parity_count: usize,
    columns: &mut [&mut [u8]],
    lost: &[usize],
) -> Result<(), ReconstructError> {
    reconstruct_with(Kernel::best(), parity_count, columns, lost, lost)
}

/// [`reconstruct`] for a reader: lost parity is not used, but not recomputed either, and its
/// columns are left as they are.
///
/// # Errors
/// As [`reconstruct`].
pub fn reconstruct_data(
    parity_count: usize,
    columns: &mut [&mut [u8]],
    lost: &[usize],
) -> Result<(), ReconstructError> {
    let (mut wanted, mut count) = ([0; PARITY_MAX], 0);
    for column in lost
        .iter()
        .filter(|column| **column >= parity_count)
        .take(PARITY_MAX)
    {
        wanted[count] = *column;
        count += 1;
    }
    reconstruct_with(
        Kernel::best(),
        parity_count,
        columns,
        lost,
        &wanted[..count],
    )
}

/// Recomputes only the columns `wanted` out of those `lost`, with a chosen kernel.
///
/// # Errors
/// As [`reconstruct`]; also if a wanted column is not lost.
pub fn reconstruct_with(
    kernel: Kernel,
    parity_count: usize,
    columns: &mut [&mut [u8]],
    lost: &[usize],
    wanted: &[usize],
) -> Result<(), ReconstructError> {
    assert!(
        (1..=PARITY_MAX).contains(&parity_count),
        "raidz has 1 to 3 parity columns"
    );
    assert!(columns.len() > parity_count, "there is data");
    assert!(
        columns.len() - parity_count <= DATA_MAX,
        "raidz has 1 to 255 data columns"
    );
    let length = columns[0].len();
    assert!(
        columns.iter().all(|column| column.len() <= length),
        "data fits under parity"
    );
    let data_count = columns.len() - parity_count;
    let solution = solve::Solution::new(parity_count, data_count, lost, wanted)?;
    let mut outputs: [Output<'_>; PARITY_MAX] = Default::default();
    let mut sources = Sources::new();
    for (column, data) in columns.iter_mut().enumerate() {
        if let Some(position) = wanted.iter().position(|other| *other == column) {
            outputs[position].data = data;
        } else if let Some(factors) = solution.factors(column) {
            sources.push(Source { data, factors });
        }
    }
    combine(kernel, sources.as_mut_slice(), &mut outputs[..wanted.len()]);
    Ok(())
}

#[cfg(test)]
mod tests;
