//! Solving the parity equations for lost columns.
//!
//! Let `k` data columns be lost. Any `k` surviving parity rows give a `k x k` system
//! `Σ_x factor(row, x) D_x = parity_row + Σ_i factor(row, i) D_i` over the surviving `i`. Its
//! matrix is invertible for up to 255 columns: the rows are powers of distinct field elements
//! (Vandermonde), also with one of the rows left out. Multiplying out gives each lost column as a
//! combination of the chosen parity and the surviving data; lost parity follows from those.
//! Only the *wanted* ones of the lost columns get factors.

use super::equations::{PARITY_MAX, ReconstructError, factor};
use super::field::{invert, multiply};

type Matrix = [[u8; PARITY_MAX]; PARITY_MAX];

/// How the wanted columns, in the order in which they were named, follow from the others.
pub(super) struct Solution<'a> {
    parity_count: usize,
    data_count: usize,
    lost: &'a [usize],
    wanted: &'a [usize],
    /// The lost data columns (counted from the first data column) and how many there are.
    unknowns: ([usize; PARITY_MAX], usize),
    /// The parity rows that are used, as many as there are unknowns.
    rows: [usize; PARITY_MAX],
    /// `inverse[x][j]`: the weight of equation `rows[j]` in unknown `x`.
    inverse: Matrix,
}

impl<'a> Solution<'a> {
    pub(super) fn new(
        parity_count: usize,
        data_count: usize,
        lost: &'a [usize],
        wanted: &'a [usize],
    ) -> Result<Self, ReconstructError> {
        if lost.len() > parity_count {
            return Err(ReconstructError::TooManyLost {
                lost: lost.len(),
                parity: parity_count,
            });
        }
        let (mut unknowns, mut count) = ([0; PARITY_MAX], 0);
        for (at, column) in lost.iter().enumerate() {
            if *column >= parity_count + data_count || lost[..at].contains(column) {
                return Err(ReconstructError::BadColumn(*column));
            }
            if *column >= parity_count {
                unknowns[count] = column - parity_count;
                count += 1;
            }
        }
        for (at, column) in wanted.iter().enumerate() {
            if !lost.contains(column) || wanted[..at].contains(column) {
                return Err(ReconstructError::BadColumn(*column));
            }
        }
        let mut rows = [0; PARITY_MAX];
        let survivors = (0..parity_count).filter(|row| !lost.contains(row));
        for (row, survivor) in rows[..count].iter_mut().zip(survivors) {
            *row = survivor;
        }
        let mut matrix = [[0; PARITY_MAX]; PARITY_MAX];
        for (equation, row) in matrix.iter_mut().zip(&rows[..count]) {
            for (value, unknown) in equation.iter_mut().zip(&unknowns[..count]) {
                *value = factor(*row, *unknown, data_count);
            }
        }
        let inverse = invert_matrix(matrix, count);
        Ok(Self {
            parity_count,
            data_count,
            lost,
            wanted,
            unknowns: (unknowns, count),
            rows,
            inverse,
        })
    }

    /// The factors of column `column` in the wanted columns; `None` for lost columns and for
    /// parity that is not needed.
    pub(super) fn factors(&self, column: usize) -> Option<[u8; PARITY_MAX]> {
        if self.lost.contains(&column) {
            return None;
        }
        let (unknowns, count) = (&self.unknowns.0[..self.unknowns.1], self.unknowns.1);
        // The column's part in the right-hand side of each equation.
        let mut right = [0; PARITY_MAX];
        let data = column.checked_sub(self.parity_count);
        match data {
            None => right[self.rows[..count].iter().position(|row| *row == column)?] = 1,
            Some(data) => {
                for (value, row) in right.iter_mut().zip(&self.rows[..count]) {
                    *value = factor(*row, data, self.data_count);
                }
            }
        }
        let mut in_unknown = [0; PARITY_MAX];
        for (value, weights) in in_unknown[..count].iter_mut().zip(&self.inverse) {
            *value = weights
                .iter()
                .zip(right)
                .fold(0, |sum, (a, b)| sum ^ multiply(*a, b));
        }
        let mut factors = [0; PARITY_MAX];
        for (value, wanted) in factors.iter_mut().zip(self.wanted) {
            *value = match wanted.checked_sub(self.parity_count) {
                Some(wanted) => {
                    let at = unknowns.iter().position(|unknown| *unknown == wanted);
                    in_unknown[at.expect("every lost data column is an unknown")]
                }
                None => {
                    let own = data.map_or(0, |data| factor(*wanted, data, self.data_count));
                    unknowns
                        .iter()
                        .zip(in_unknown)
                        .fold(own, |sum, (unknown, part)| {
                            sum ^ multiply(factor(*wanted, *unknown, self.data_count), part)
                        })
                }
            };
        }
        Some(factors)
    }
}

/// The inverse of the upper left `size` x `size` part, by Gauss and Jordan.
fn invert_matrix(mut matrix: Matrix, size: usize) -> Matrix {
    let mut inverse = [[0; PARITY_MAX]; PARITY_MAX];
    for (at, row) in inverse[..size].iter_mut().enumerate() {
        row[at] = 1;
    }
    for pivot in 0..size {
        let row = (pivot..size).find(|row| matrix[*row][pivot] != 0);
        let row = row.expect("rows of powers of distinct elements are independent");
        matrix.swap(pivot, row);
        inverse.swap(pivot, row);
        let scale = invert(matrix[pivot][pivot]);
        for column in 0..size {
            matrix[pivot][column] = multiply(matrix[pivot][column], scale);
            inverse[pivot][column] = multiply(inverse[pivot][column], scale);
        }
        for other in (0..size).filter(|other| *other != pivot) {
            let times = matrix[other][pivot];
            for column in 0..size {
                matrix[other][column] ^= multiply(times, matrix[pivot][column]);
                inverse[other][column] ^= multiply(times, inverse[pivot][column]);
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_lost_data_is_solvable() {
        // All pairs under every pair of rows, and all triples of a 255-column layout's corners.
        for data_count in [2, 3, 17, 255] {
            for x in 0..data_count {
                for y in x + 1..data_count {
                    for kept in [[0, 1], [0, 2], [1, 2]] {
                        let gone = 3 - kept[0] - kept[1];
                        let lost = [gone, 3 + x, 3 + y];
                        assert!(Solution::new(3, data_count, &lost, &lost).is_ok());
                    }
                }
            }
        }
        for x in 0..253 {
            let lost = [3 + x, 3 + x + 1, 3 + 254];
            assert!(Solution::new(3, 255, &lost, &lost).is_ok());
        }
    }

    #[test]
    fn bad_requests_are_refused() {
        let refused = |parity, data, lost: &[usize]| Solution::new(parity, data, lost, lost).err();
        let too_many = ReconstructError::TooManyLost { lost: 2, parity: 1 };
        assert_eq!(refused(1, 4, &[0, 1]), Some(too_many));
        assert_eq!(refused(2, 4, &[6]), Some(ReconstructError::BadColumn(6)));
        assert_eq!(refused(2, 4, &[5, 5]), Some(ReconstructError::BadColumn(5)));
        let refused = Solution::new(2, 4, &[4], &[3]).err();
        assert_eq!(refused, Some(ReconstructError::BadColumn(3)));
    }
}
