//! Where draid puts a block's columns.
//!
//! Source: format/1c 4. The vdev's space is cut into groups of `data + parity` columns of 16 MiB
//! each. Groups are laid side by side over the disks that are not spare space, wrapping to the
//! next 16 MiB row; after a *slice* of whole rows the layout starts again with another
//! permutation of the disks, so that every disk has its share of data, parity and spare space.
//!
//! ```text
//! 8 children, 1 spare, groups of 2 + 3:   column  0 1 2 3 4 | 5 6     spare: 7
//!                                         row 0   - group 0 - | group
//!                                         row 1   - 1 - | - group 2 ...
//! disk of column c = (table[permutation][c] + iteration) mod children
//! ```
//!
//! A group is filled row by row in units of one sector per column. Short columns are padded on
//! disk with zero sectors, so every column of a block takes the same space.

use super::draid_seeds::SEEDS;
use super::{Column, Map, Row, deflate_block_size, deflate_ratio};

/// Bytes of one disk in a row: 16 MiB.
const ROW_HEIGHT: u64 = 16 << 20;
/// Bytes at the end of each child that are not used: 32 MiB.
const CHILD_RESERVE: u64 = 32 << 20;
/// First word of the generator's state; the seed is the second.
const GENERATOR_START: u64 = 0xd_7a1d_5eed;
/// Distributed spares at most.
const SPARES_MAX: u64 = 100;

/// The generator of the permutations: xoroshiro128++ 1.0.
struct Generator([u64; 2]);

impl Generator {
    fn next(&mut self) -> u64 {
        let [s0, mut s1] = self.0;
        let result = s0.wrapping_add(s1).rotate_left(17).wrapping_add(s0);
        s1 ^= s0;
        self.0 = [s0.rotate_left(49) ^ s1 ^ (s1 << 21), s1.rotate_left(28)];
        result
    }
}

/// The table of permutations for `children` disks: one row of child numbers after another.
fn permutations(children: usize) -> Vec<u8> {
    let (seed, _) = SEEDS[children - 2];
    let mut generator = Generator([GENERATOR_START, seed]);
    let rows = if children <= 31 { 256 } else { 512 };
    let mut row: Vec<u8> = (0..children).map(|child| child as u8).collect();
    let mut table = Vec::with_capacity(rows * children);
    for _ in 0..rows {
        for j in (1..children).rev() {
            let k = generator.next() % (j as u64 + 1);
            row.swap(j, k as usize);
        }
        table.extend_from_slice(&row);
    }
    table
}

/// The geometry of a draid vdev.
#[derive(Clone, Debug)]
pub struct Draid {
    children: u64,
    parity: u64,
    data: u64,
    spares: u64,
    groups: u64,
    ashift: u32,
    table: Vec<u8>,
}

impl Draid {
    /// The geometry of `children` disks, the numbers as in the configuration.
    ///
    /// `None` if they contradict each other: the group count follows from the others.
    pub fn new(
        children: usize,
        parity: u64,
        data: u64,
        spares: u64,
        groups: u64,
        ashift: u32,
    ) -> Option<Self> {
        let count = children as u64;
        if !(2..=255).contains(&children) || !(1..=3).contains(&parity) || spares > SPARES_MAX {
            return None;
        }
        let disks = count.checked_sub(spares)?;
        let width = data.checked_add(parity)?;
        if data == 0 || width > disks || !(9..=16).contains(&ashift) {
            return None;
        }
        let smallest = (1..=disks).find(|groups| (groups * width).is_multiple_of(disks))?;
        (groups == smallest).then(|| Self {
            children: count,
            parity,
            data,
            spares,
            groups,
            ashift,
            table: permutations(children),
        })
    }

    /// Parity columns.
    pub fn parity(&self) -> usize {
        self.parity as usize
    }

    /// Distributed spares.
    pub fn spares(&self) -> u64 {
        self.spares
    }

    /// Columns of a group.
    fn group_width(&self) -> u64 {
        self.data + self.parity
    }

    /// Disks that hold groups: all but the spare space.
    fn disks(&self) -> u64 {
        self.children - self.spares
    }

    /// Bytes of a group.
    fn group_bytes(&self) -> u64 {
        self.group_width() * ROW_HEIGHT
    }

    /// Bytes of each disk until the permutation changes.
    fn slice_bytes(&self) -> u64 {
        self.group_bytes() * self.groups / self.disks()
    }

    /// Bytes of one sector in each column of a group: offsets are multiples of it.
    pub fn stripe_bytes(&self) -> u64 {
        self.group_width() << self.ashift
    }

    /// The least data that an allocation holds, in bytes.
    pub fn allocation_min(&self) -> u64 {
        self.data << self.ashift
    }

    /// Bytes that a block of `size` bytes takes.
    pub fn asize(&self, size: u64) -> u64 {
        size.div_ceil(self.allocation_min()) * self.stripe_bytes()
    }

    /// Accounted 512-byte units per 512 bytes of space.
    pub fn deflate_ratio(&self) -> u64 {
        deflate_ratio(self.asize(deflate_block_size()))
    }

    /// The vdev's allocatable bytes, given the smallest child's.
    pub fn vdev_asize(&self, child_asize: u64) -> u64 {
        let usable = child_asize.saturating_sub(CHILD_RESERVE) / ROW_HEIGHT * ROW_HEIGHT;
        usable.saturating_mul(self.disks()) / self.group_bytes() * self.group_bytes()
    }

    /// Start and length in bytes of metaslab `index` of `1 << shift` bytes: whole stripes only.
    pub fn metaslab(&self, index: u64, shift: u32) -> Option<(u64, u64)> {
        let nominal = index.checked_mul(1u64.checked_shl(shift)?)?;
        let start = nominal.checked_next_multiple_of(self.stripe_bytes())?;
        let room = (1u64 << shift).saturating_sub(start - nominal);
        Some((start, room / self.stripe_bytes() * self.stripe_bytes()))
    }

    /// The disk that plays column `column` in permutation number `permutation`.
    fn disk(&self, permutation: u64, column: u64) -> usize {
        let rows = self.table.len() as u64 / self.children;
        let position = permutation % (rows * self.children);
        let (row, iteration) = (position / self.children, position % self.children);
        let entry = self.table[(row * self.children + column) as usize];
        ((u64::from(entry) + iteration) % self.children) as usize
    }

    /// The disk that holds distributed spare number `spare` at `offset` of a disk's space, and up
    /// to which offset it does.
    pub fn spare_disk(&self, spare: u64, offset: u64) -> Option<(usize, u64)> {
        if spare >= self.spares {
            return None;
        }
        let permutation = offset / self.slice_bytes();
        let disk = self.disk(permutation, self.children - 1 - spare);
        Some((disk, (permutation + 1).saturating_mul(self.slice_bytes())))
    }

    /// The columns of the block of `size` bytes at `offset`.
    ///
    /// `offset` must be a multiple of [`Self::stripe_bytes`] and `size` not 0. A block that
    /// reaches into the next groups has one row for each.
    pub fn map(&self, offset: u64, size: u64) -> Map {
        assert!(offset.is_multiple_of(self.stripe_bytes()) && size > 0);
        let size = size.next_multiple_of(1 << self.ashift);
        let mut rows = Vec::with_capacity(1);
        let (mut at, mut done) = (offset, 0);
        while done < size {
            let group_end = (at / self.group_bytes() + 1) * self.group_bytes();
            let room = (group_end - at) / self.group_width() * self.data;
            let part = room.min(size - done);
            rows.push(self.row(at, part, done));
            (at, done) = (group_end, done + part);
        }
        let map = Map {
            parity: self.parity(),
            rows,
            size,
            unit: 1 << self.ashift,
        };
        if cfg!(debug_assertions) {
            map.assert_sound();
        }
        map
    }

    /// The columns of `size` bytes at `offset`, all in one group; they are the block's bytes from
    /// `block_offset` on.
    fn row(&self, offset: u64, size: u64, mut block_offset: u64) -> Row {
        let (group, width, disks) = (
            offset / self.group_bytes(),
            self.group_width(),
            self.disks(),
        );
        let (permutation, in_slice) = (group / self.groups, group % self.groups);
        let row = permutation * (self.groups * width / disks) + in_slice * width / disks;
        let start = in_slice * width % disks;
        let in_group = offset % self.group_bytes();
        let device_offset = row * ROW_HEIGHT + in_group / width;

        let sectors = size >> self.ashift;
        let (full, rest) = (sectors / self.data, sectors % self.data);
        let big_columns = if rest == 0 { 0 } else { rest + self.parity };
        let height = (full + u64::from(rest != 0)) << self.ashift;
        let columns = (0..width).map(|index| {
            let length = (full + u64::from(index < big_columns)) << self.ashift;
            let wraps = start + index >= disks;
            let column = Column {
                child: self.disk(permutation, (start + index) % disks),
                offset: device_offset + if wraps { ROW_HEIGHT } else { 0 },
                in_scratch: false,
                length,
                skip: height - length,
                block_offset,
            };
            block_offset += if index < self.parity { 0 } else { length };
            column
        });
        Row {
            columns: columns.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn permutation_tables_have_the_format_s_checksums() {
        for children in 2..=255 {
            let table = permutations(children);
            let words = table.chunks_exact(4);
            assert!(words.remainder().is_empty());
            let sum: u64 = words
                .map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("4 bytes"))))
                .sum();
            assert_eq!(sum, SEEDS[children - 2].1, "{children} children");
            for row in table.chunks_exact(children) {
                let distinct: BTreeSet<_> = row.iter().collect();
                assert_eq!(distinct.len(), children);
            }
        }
    }

    /// draid2:3d:1s of 8 disks, ashift 12.
    fn example() -> Draid {
        Draid::new(8, 2, 3, 1, 7, 12).expect("7 groups of 5 fill 5 rows of 7 disks")
    }

    #[test]
    fn sizes_follow_the_format() {
        let draid = example();
        // format/1c 4: 8 disks of 256 MiB.
        let child = (256 << 20) - 0x48_0000;
        assert_eq!(draid.vdev_asize(child), 1_509_949_440);
        assert_eq!(draid.asize(1), 5 * 4096);
        assert_eq!(draid.asize(3 * 4096 + 1), 10 * 4096);
        assert_eq!(draid.allocation_min(), 3 * 4096);
        // 128 KiB are 32 sectors, 11 stripes, 55 sectors: 440 units of 512 bytes.
        assert_eq!(draid.deflate_ratio(), 131_072 / 440);
    }

    #[test]
    fn metaslabs_hold_whole_stripes() {
        let draid = example();
        let stripe = 5 * 4096;
        assert_eq!(
            draid.metaslab(0, 24),
            Some((0, (16 << 20) / stripe * stripe))
        );
        let (start, length) = draid.metaslab(1, 24).expect("small numbers");
        assert_eq!(start, (16u64 << 20).next_multiple_of(stripe));
        assert!(start + length <= 32 << 20 && length.is_multiple_of(stripe));
        assert_eq!(draid.metaslab(u64::MAX, 24), None);
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(
            Draid::new(8, 2, 3, 1, 6, 12).is_none(),
            "wrong number of groups"
        );
        assert!(
            Draid::new(8, 2, 6, 1, 7, 12).is_none(),
            "a group wider than the disks"
        );
        assert!(Draid::new(8, 2, 0, 1, 7, 12).is_none());
        assert!(Draid::new(8, 4, 1, 1, 7, 12).is_none());
        assert!(Draid::new(256, 1, 1, 0, 128, 12).is_none());
        assert!(Draid::new(8, 2, u64::MAX, 1, 7, 12).is_none());
    }

    #[test]
    fn a_block_across_groups_has_a_row_for_each() {
        let draid = example();
        let stripe = draid.stripe_bytes();
        let map = draid.map(draid.group_bytes() - 2 * stripe, 9 * 4096);
        let lengths: Vec<Vec<_>> = map
            .rows
            .iter()
            .map(|row| row.columns.iter().map(|column| column.length).collect())
            .collect();
        assert_eq!(lengths, [vec![8192; 5], vec![4096; 5]]);
        let starts: Vec<_> = map.data_columns().map(|c| c.block_offset >> 12).collect();
        assert_eq!(starts, [0, 2, 4, 6, 7, 8]);
    }

    #[test]
    fn spare_columns_are_on_the_disk_that_the_data_columns_leave_out() {
        let draid = example();
        for slice in [0, 1, 7, 255, 256, 3000] {
            let offset = slice * draid.slice_bytes();
            let mut disks: Vec<_> = (0..7).map(|column| draid.disk(slice, column)).collect();
            let (spare, end) = draid.spare_disk(0, offset).expect("there is one spare");
            assert_eq!(end, offset + draid.slice_bytes());
            disks.push(spare);
            disks.sort_unstable();
            assert_eq!(disks, (0..8).collect::<Vec<_>>());
        }
        assert!(draid.spare_disk(1, 0).is_none());
    }

    proptest! {
        #[test]
        fn every_byte_has_one_place(
            parity in 1u64..=3, data in 1u64..5, more in 0u64..5, spares in 0u64..3,
            sectors in 1u64..60, stripe in 0u64..20_000, at_end: bool,
        ) {
            let disks = data + parity + more;
            let groups = (1..).find(|g| (g * (data + parity)) % disks == 0).expect("at most disks");
            let children = (disks + spares) as usize;
            let draid = Draid::new(children, parity, data, spares, groups, 9).expect("sane");
            let near_end = draid.group_bytes() - 5 * draid.stripe_bytes();
            let offset = if at_end { near_end } else { stripe * draid.stripe_bytes() };
            let map = draid.map(offset, sectors << 9);
            let mut places = BTreeSet::new();
            let mut block = BTreeSet::new();
            for row in &map.rows {
                prop_assert_eq!(row.columns.len() as u64, data + parity);
                let height = row.columns[0].length;
                for (index, column) in row.columns.iter().enumerate() {
                    prop_assert_eq!(column.length + column.skip, height);
                    for sector in 0..height >> 9 {
                        prop_assert!(places.insert((column.child, (column.offset >> 9) + sector)));
                    }
                    for sector in 0..column.length >> 9 {
                        let is_data = index >= map.parity;
                        prop_assert!(!is_data || block.insert((column.block_offset >> 9) + sector));
                    }
                }
            }
            prop_assert_eq!(block, (0..sectors).collect::<BTreeSet<_>>());
            let aligned = sectors.div_ceil(data) * (data + parity);
            prop_assert_eq!(places.len() as u64, aligned, "the space that asize counts");
            prop_assert_eq!(draid.asize(sectors << 9) >> 9, aligned);
        }

        #[test]
        fn groups_never_overlap(slice in 0u64..600) {
            let draid = example();
            let mut places = BTreeSet::new();
            for group in 0..7 {
                let offset = (slice * 7 + group) * draid.group_bytes();
                for column in &draid.map(offset, 4096).rows[0].columns {
                    prop_assert!(places.insert((column.child, column.offset / ROW_HEIGHT)));
                    prop_assert!(column.offset / draid.slice_bytes() == slice);
                }
            }
        }
    }
}
