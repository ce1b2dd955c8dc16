use super::*;
use proptest::prelude::*;

/// The definition by Horner's rule, byte by byte (format/1c 1c.2).
fn parity_by_definition(rows: usize, length: usize, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    (0..rows)
        .map(|row| {
            let step = 1u8 << row;
            let byte = |at: usize| {
                data.iter().fold(0, |sum, column| {
                    field::multiply(sum, step) ^ column.get(at).copied().unwrap_or(0)
                })
            };
            (0..length).map(byte).collect()
        })
        .collect()
}

fn sample(columns: usize, length: usize, short: usize, cut: usize) -> Vec<Vec<u8>> {
    let mut state = (columns * 31 + length) as u64;
    (0..columns)
        .map(|column| {
            let length = if column >= columns - short {
                length - cut
            } else {
                length
            };
            (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
                    (state >> 56) as u8
                })
                .collect()
        })
        .collect()
}

/// Parity columns, then data columns.
fn generated(kernel: Kernel, rows: usize, length: usize, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xcc; length]; rows];
    let mut parity_slices: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let data_slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    generate_with(kernel, &mut parity_slices, &data_slices);
    parity.extend(data.iter().cloned());
    parity
}

fn check_reconstruction(kernel: Kernel, rows: usize, whole: &[Vec<u8>], lost: &[usize]) {
    let mut damaged = whole.to_vec();
    for column in lost {
        damaged[*column].fill(0xbd);
    }
    let mut slices: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
    reconstruct_with(kernel, rows, &mut slices, lost, lost).expect("no more lost than parity");
    assert!(
        damaged == whole,
        "{kernel:?} parity {rows} of {} lost {lost:?}",
        whole.len()
    );
}

/// Every set of at most `most` columns out of `count`.
fn subsets(count: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![vec![]];
    for column in 0..count {
        let with: Vec<Vec<usize>> = sets
            .iter()
            .filter(|set| set.len() < most)
            .map(|set| set.iter().copied().chain([column]).collect())
            .collect();
        sets.extend(with);
    }
    sets
}

#[test]
fn smallest_example_by_hand() {
    let data = [vec![0x80], vec![0x01], vec![0x03]];
    let columns = generated(Kernel::best(), 3, 1, &data);
    // Q: 4*80 + 2*01 + 03 = 3a + 02 + 03; R: 16*80 + 4*01 + 03 = e8 + 04 + 03.
    assert_eq!(columns[..3], [vec![0x82], vec![0x3b], vec![0xef]]);
}

#[test]
fn every_kernel_reconstructs_every_loss() {
    for kernel in kernels() {
        for (rows, columns) in [(1, 1), (1, 4), (2, 1), (2, 5), (3, 1), (3, 2), (3, 6)] {
            let data = sample(columns, 1536, columns / 2, 512);
            let whole = generated(kernel, rows, 1536, &data);
            let expected = parity_by_definition(rows, 1536, &data);
            assert!(whole[..rows] == expected, "{kernel:?} {rows} of {columns}");
            for lost in subsets(rows + columns, rows) {
                check_reconstruction(kernel, rows, &whole, &lost);
            }
        }
    }
}

#[test]
fn the_order_of_the_lost_does_not_matter() {
    let whole = generated(Kernel::best(), 3, 512, &sample(5, 512, 0, 0));
    for lost in [[7, 0, 4], [4, 7, 0], [6, 5, 3], [2, 1, 0]] {
        check_reconstruction(Kernel::best(), 3, &whole, &lost);
    }
}

#[test]
fn readers_get_data_and_leave_lost_parity_alone() {
    let whole = generated(Kernel::best(), 3, 512, &sample(5, 512, 2, 100));
    for lost in subsets(8, 3) {
        let mut damaged = whole.clone();
        let mut expected = whole.clone();
        for column in &lost {
            damaged[*column].fill(0xbd);
            if *column < 3 {
                expected[*column].fill(0xbd);
            }
        }
        let mut slices: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
        reconstruct_data(3, &mut slices, &lost).expect("no more lost than parity");
        assert!(damaged == expected, "lost {lost:?}");
    }
}

#[test]
fn widest_layout() {
    let data = sample(DATA_MAX, 64, 100, 16);
    for kernel in kernels() {
        let whole = generated(kernel, 3, 64, &data);
        assert!(whole[..3] == parity_by_definition(3, 64, &data));
        for lost in [[3, 4, 257], [3, 130, 256], [0, 3, 257], [100, 200, 2]] {
            check_reconstruction(kernel, 3, &whole, &lost);
        }
    }
}

#[test]
fn requests_beyond_the_parity_are_errors() {
    let mut whole = generated(Kernel::best(), 1, 64, &sample(3, 64, 0, 0));
    let mut slices: Vec<&mut [u8]> = whole.iter_mut().map(Vec::as_mut_slice).collect();
    let result = reconstruct(1, &mut slices, &[1, 2]);
    assert_eq!(
        result,
        Err(ReconstructError::TooManyLost { lost: 2, parity: 1 })
    );
    assert_eq!(
        reconstruct(1, &mut slices, &[4]),
        Err(ReconstructError::BadColumn(4))
    );
    assert_eq!(reconstruct(1, &mut slices, &[]), Ok(()));
}

proptest! {
    #[test]
    fn odd_lengths_equal_the_definition(
        rows in 1usize..=3,
        columns in 1usize..12,
        length in 0usize..1500,
        short in 0usize..12,
        cut in 0usize..600,
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let data = sample(columns, length, short.min(columns), cut.min(length));
        let expected = parity_by_definition(rows, length, &data);
        let mut lost: Vec<usize> = picks.iter().map(|pick| pick.index(rows + columns)).collect();
        lost.sort_unstable();
        lost.dedup();
        lost.truncate(rows);
        for kernel in kernels() {
            let whole = generated(kernel, rows, length, &data);
            prop_assert!(whole[..rows] == expected, "{:?}", kernel);
            check_reconstruction(kernel, rows, &whole, &lost);
        }
    }
}
