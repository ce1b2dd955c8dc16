//! Where raidz puts a block's columns, also after and during an expansion.
//!
//! Source: format/1c 2 and 3. All children together form one sequence of sectors, dealt out row
//! by row: sector `b` is on child `b mod n`. A block takes consecutive sectors; its first
//! sectors, one per parity level, are parity. Seen child by child the block is a rectangle whose
//! columns are contiguous on a child, `q` full rows and one of `r` data sectors:
//!
//! ```text
//! n = 5, parity 1, 7 data sectors:  q = 1, r = 3, big columns = 4
//!          column 0    1    2    3    4          block: D0 = sectors 0-1, D1 = 2-3,
//! row 0           P    D0   D1   D2   D3                D2 = 4-5, D3 = 6
//! row 1           P    D0   D1   D2   -
//! ```
//!
//! An expansion deals the same sequence out to one child more. An old block keeps its *logical*
//! width, so its rows wrap at odd places: [`Raidz::map`] then makes each sector a column of its
//! own and each logical row a parity unit. While the expansion runs, sectors up to the *reflow
//! offset* are at their new places and the others still at their old ones.

use super::{Column, Map, Row, deflate_block_size, deflate_ratio};
use cenote_base::Txg;
use std::ops::Range;

/// Bit of a block's offset that decides whether single parity and first data column swap places.
const SWAP_BIT: u64 = 1 << 20;

/// Bytes per child of the scratch area: the boot region, 3.5 MiB.
const SCRATCH_BYTES: u64 = 0x38_0000;

/// Progress of an expansion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflow {
    /// Bytes of the vdev's address space that are at their new place.
    pub offset: u64,
    /// The first step's sectors are to be read from the children's boot regions.
    pub use_scratch: bool,
}

/// The geometry of a raidz vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raidz {
    children: u64,
    parity: u64,
    ashift: u32,
    /// The txgs from which each completed expansion's width applies.
    expand_txgs: Vec<Txg>,
    reflow: Option<Reflow>,
}

/// How many whole and partial rows a block has.
struct Shape {
    /// Full rows.
    full: u64,
    /// Data sectors in the partial row.
    rest: u64,
    /// Columns that reach into the partial row; 0 if there is none.
    big_columns: u64,
    /// Sectors with parity.
    total: u64,
}

impl Raidz {
    /// The geometry of `children` disks, the numbers as in the configuration.
    ///
    /// `reflow` is `Some` while an expansion is running. `None` is returned for numbers that no
    /// raidz has: parity 1 to 3, at most 255 children, a width that leaves room for data.
    pub fn new(
        children: usize,
        parity: u64,
        ashift: u32,
        expand_txgs: Vec<Txg>,
        reflow: Option<Reflow>,
    ) -> Option<Self> {
        let children = u64::try_from(children).ok()?;
        let raidz = Self {
            children,
            parity,
            ashift,
            expand_txgs,
            reflow,
        };
        let grown = raidz.expand_txgs.len() as u64 + u64::from(raidz.reflow.is_some());
        let is_sane = (1..=3).contains(&parity)
            && children <= 255
            && (9..=16).contains(&ashift)
            && children.checked_sub(grown)? > parity;
        is_sane.then_some(raidz)
    }

    /// Parity columns.
    pub fn parity(&self) -> usize {
        self.parity as usize
    }

    /// The width before any expansion.
    pub fn original_width(&self) -> u64 {
        self.children - self.expand_txgs.len() as u64 - u64::from(self.reflow.is_some())
    }

    /// The width that a block born in `birth` was written with.
    pub fn logical_width(&self, birth: Txg) -> u64 {
        let applied = self.expand_txgs.partition_point(|txg| *txg <= birth);
        self.original_width() + applied as u64
    }

    /// Bytes that a block of `size` bytes takes at logical width `width`.
    pub fn asize_at_width(&self, size: u64, width: u64) -> u64 {
        let sectors = size.div_ceil(1 << self.ashift);
        let parity = self.parity * sectors.div_ceil(width - self.parity);
        (sectors + parity).next_multiple_of(self.parity + 1) << self.ashift
    }

    /// Bytes that a block of `size` bytes born in `birth` takes.
    pub fn asize(&self, size: u64, birth: Txg) -> u64 {
        self.asize_at_width(size, self.logical_width(birth))
    }

    /// Accounted 512-byte units per 512 bytes of space: always by the original width.
    pub fn deflate_ratio(&self) -> u64 {
        deflate_ratio(self.asize_at_width(deflate_block_size(), self.original_width()))
    }

    /// The vdev's allocatable bytes, given the smallest child's.
    pub fn vdev_asize(&self, child_asize: u64) -> u64 {
        let width = self.children - u64::from(self.reflow.is_some());
        child_asize.saturating_mul(width)
    }

    fn shape(&self, sectors: u64, width: u64) -> Shape {
        let data_width = width - self.parity;
        let (full, rest) = (sectors / data_width, sectors % data_width);
        let partial = u64::from(rest != 0);
        Shape {
            full,
            rest,
            big_columns: if rest == 0 { 0 } else { rest + self.parity },
            total: sectors + self.parity * (full + partial),
        }
    }

    /// The columns of the block of `size` bytes at `offset`, born in `birth`.
    ///
    /// `offset` must be a multiple of the allocation unit and `size` not 0.
    pub fn map(&self, offset: u64, size: u64, birth: Txg) -> Map {
        assert!(offset.is_multiple_of(1 << self.ashift) && size > 0);
        let sectors = size.div_ceil(1 << self.ashift);
        let width = self.logical_width(birth);
        let mut map = if width == self.children {
            self.map_plain(offset, sectors)
        } else {
            self.map_reflowed(offset, sectors, width)
        };
        if self.parity == 1 && offset & SWAP_BIT != 0 {
            for row in &mut map.rows {
                swap_parity(row);
            }
        }
        if cfg!(debug_assertions) {
            map.assert_sound();
        }
        map
    }

    /// A block as wide as the vdev: columns are contiguous, so one row will do.
    fn map_plain(&self, offset: u64, sectors: u64) -> Map {
        let shape = self.shape(sectors, self.children);
        let first = offset >> self.ashift;
        let used = if shape.full == 0 {
            shape.big_columns
        } else {
            self.children
        };
        let mut block_offset = 0;
        let columns = (0..used).map(|index| {
            let (child, device_offset) = self.place(first + index, self.children);
            let length = (shape.full + u64::from(index < shape.big_columns)) << self.ashift;
            let column = Column {
                child,
                offset: device_offset,
                in_scratch: false,
                length,
                skip: 0,
                block_offset,
            };
            block_offset += if index < self.parity { 0 } else { length };
            column
        });
        let columns = columns.collect();
        Map {
            parity: self.parity(),
            rows: vec![Row { columns }],
            size: sectors << self.ashift,
            unit: 1 << self.ashift,
        }
    }

    /// Child and byte offset of the sectors behind a block's last one that belong to its space and
    /// hold nothing; none for blocks of another width than the vdev's.
    pub fn padding(&self, offset: u64, size: u64, birth: Txg) -> Vec<(usize, u64)> {
        let width = self.logical_width(birth);
        if width != self.children {
            return Vec::new();
        }
        let sectors = size.div_ceil(1 << self.ashift);
        let first = offset >> self.ashift;
        let used = first + self.shape(sectors, width).total;
        let end = first + (self.asize_at_width(size, width) >> self.ashift);
        (used..end).map(|b| self.place(b, width)).collect()
    }

    /// The bytes of a child that a range of the vdev's space is on, whole sectors only.
    pub fn child_range(&self, child: usize, range: Range<u64>) -> Range<u64> {
        let unit = 1 << self.ashift;
        let (first, end) = (range.start.div_ceil(unit), range.end / unit);
        // The child has every sector `row * children + child` of the space.
        let rows_below = |b: u64| (b + self.children - 1 - child as u64) / self.children;
        let (first, end) = (rows_below(first), rows_below(end));
        (first << self.ashift)..(end.max(first) << self.ashift)
    }

    /// Whether an expansion is running: then some sectors are at their new places already.
    pub fn is_reflowing(&self) -> bool {
        self.reflow.is_some()
    }

    /// Whether an expansion stopped while its first step was in the boot region.
    pub fn uses_scratch(&self) -> bool {
        self.reflow.is_some_and(|reflow| reflow.use_scratch)
    }

    /// Child and byte offset of sector `b` when dealt out to `width` children.
    fn place(&self, b: u64, width: u64) -> (usize, u64) {
        ((b % width) as usize, (b / width) << self.ashift)
    }

    /// Sectors at the new place, and whether those are in the scratch area.
    fn reflowed_sectors(&self) -> (u64, bool) {
        match self.reflow {
            None => (u64::MAX, false),
            Some(reflow) if reflow.use_scratch => {
                ((SCRATCH_BYTES >> self.ashift) * self.children, true)
            }
            Some(reflow) => (reflow.offset >> self.ashift, false),
        }
    }

    /// A block of another width than the vdev: every sector is a column of its own.
    fn map_reflowed(&self, offset: u64, sectors: u64, width: u64) -> Map {
        let spread = self.spread(offset, sectors, width);
        let (reflowed, scratch) = self.reflowed_sectors();
        let rows = (0..spread.rows).map(|row| {
            let is_new = spread.range(row).end <= reflowed;
            let mut row = self.spread_row(&spread, row, is_new);
            for column in &mut row.columns {
                column.in_scratch = is_new && scratch && column.length > 0;
            }
            row
        });
        Map {
            parity: self.parity(),
            rows: rows.collect(),
            size: sectors << self.ashift,
            unit: 1 << self.ashift,
        }
    }

    /// The row of a block, and its number, that crosses the offset that an expansion has reached:
    /// the places of its sectors after they have moved.
    ///
    /// Such a row is read from its old places. The expansion continues behind the offset, so it
    /// will not move the row's first sectors. A write therefore stores these, and the others, at
    /// both places (format/1c 1c.3).
    pub fn shadow_row(&self, offset: u64, size: u64, birth: Txg) -> Option<(usize, Row)> {
        let reflow = self.reflow.filter(|reflow| !reflow.use_scratch)?;
        let reflowed = reflow.offset >> self.ashift;
        let sectors = size.div_ceil(1 << self.ashift);
        let spread = self.spread(offset, sectors, self.logical_width(birth));
        let row = reflowed.checked_sub(spread.first)? / spread.width;
        let reached = spread.range(row);
        if row >= spread.rows || reached.start == reflowed || reached.end <= reflowed {
            return None;
        }
        let mut shadow = self.spread_row(&spread, row, true);
        if self.parity == 1 && offset & SWAP_BIT != 0 {
            swap_parity(&mut shadow);
        }
        Some((row as usize, shadow))
    }

    /// How a block of another width than the vdev lies in it.
    fn spread(&self, offset: u64, sectors: u64, width: u64) -> Spread {
        let shape = self.shape(sectors, width);
        Spread {
            first: offset >> self.ashift,
            width,
            rows: shape.total.div_ceil(width),
            columns: shape.total.min(width),
            shape,
        }
    }

    /// A row of such a block, at its old or its new places.
    fn spread_row(&self, spread: &Spread, row: u64, is_new: bool) -> Row {
        let shape = &spread.shape;
        let start = spread.range(row).start;
        let physical_width = self.children - u64::from(!is_new);
        let is_last = row + 1 == spread.rows && shape.big_columns != 0;
        let columns = (0..spread.columns).map(|index| {
            if is_last && index >= shape.big_columns {
                return Column::default();
            }
            let (child, device_offset) = self.place(start + index, physical_width);
            let data = index.checked_sub(self.parity);
            let sector = data.map_or(0, |data| data_sector(shape, index, data, row, spread.rows));
            Column {
                child,
                offset: device_offset,
                in_scratch: false,
                length: 1 << self.ashift,
                skip: 0,
                block_offset: sector << self.ashift,
            }
        });
        Row {
            columns: columns.collect(),
        }
    }
}

/// A block of another width than its vdev, in sectors of the vdev's space.
struct Spread {
    shape: Shape,
    first: u64,
    /// From the start of one row to that of the next.
    width: u64,
    rows: u64,
    /// Of each row, counting those that the last one lacks.
    columns: u64,
}

impl Spread {
    /// The sectors of a row.
    fn range(&self, row: u64) -> Range<u64> {
        let start = self.first + row * self.width;
        start..start + self.columns
    }
}

/// The block's sector in data column `data` (column `index` of the row) of logical row `row`.
fn data_sector(shape: &Shape, index: u64, data: u64, row: u64, rows: u64) -> u64 {
    if shape.rest == 0 || index < shape.big_columns {
        data * rows + row
    } else {
        shape.rest * rows + (data - shape.rest) * (rows - 1) + row
    }
}

/// Exchanges the places of single parity and the first data column.
fn swap_parity(row: &mut Row) {
    let [parity, data, ..] = row.columns.as_mut_slice() else {
        return;
    };
    std::mem::swap(&mut parity.child, &mut data.child);
    std::mem::swap(&mut parity.offset, &mut data.offset);
    std::mem::swap(&mut parity.in_scratch, &mut data.in_scratch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn plain(children: usize, parity: u64, ashift: u32) -> Raidz {
        Raidz::new(children, parity, ashift, vec![], None).expect("a sane raidz")
    }

    /// Child, offset in sectors, length in sectors of each column of the only row.
    fn columns(raidz: &Raidz, offset: u64, sectors: u64) -> Vec<(usize, u64, u64)> {
        let map = raidz.map(offset << raidz.ashift, sectors << raidz.ashift, Txg(4));
        assert_eq!(map.rows.len(), 1);
        let columns = map.rows[0].columns.iter();
        let in_sectors = |bytes: u64| bytes >> raidz.ashift;
        columns
            .map(|column| {
                (
                    column.child,
                    in_sectors(column.offset),
                    in_sectors(column.length),
                )
            })
            .collect()
    }

    #[test]
    fn the_rectangle_of_the_module_comment() {
        let raidz = plain(5, 1, 12);
        // Sector 13 is on child 3 in row 2.
        let expected = [(3, 2, 2), (4, 2, 2), (0, 3, 2), (1, 3, 2), (2, 3, 1)];
        assert_eq!(columns(&raidz, 13, 7), expected);
        let map = raidz.map(13 << 12, 7 << 12, Txg(4));
        let data: Vec<_> = map.data_columns().map(|c| c.block_range()).collect();
        assert_eq!(data, [0..8192, 8192..16384, 16384..24576, 24576..28672]);
    }

    #[test]
    fn a_range_of_the_space_is_one_range_of_each_child() {
        let raidz = plain(5, 2, 9);
        for (start, end) in [(0, 0), (0, 1), (3, 4), (3, 13), (7, 100), (10, 15)] {
            let mut expected = BTreeSet::new();
            expected.extend((start..end).map(|b| raidz.place(b, 5)));
            let mut found = BTreeSet::new();
            for child in 0..5 {
                let range = raidz.child_range(child, start << 9..end << 9);
                found.extend((range.start >> 9..range.end >> 9).map(|row| (child, row << 9)));
            }
            assert_eq!(found, expected, "{start}..{end}");
        }
        assert_eq!(raidz.child_range(0, 1..511), 512..512, "no whole sector");
    }

    #[test]
    fn padding_fills_the_space_up() {
        // One data sector and its parity are 2 of 3 sectors with double parity.
        let raidz = plain(6, 2, 12);
        assert_eq!(raidz.padding(6 << 12, 4096, Txg(4)), []);
        let two = raidz.padding(6 << 12, 8192, Txg(4));
        assert_eq!(two, [(4, 1 << 12), (5, 1 << 12)]);
        let whole = raidz.padding(0, 32 << 12, Txg(4));
        assert_eq!(whole, [], "48 sectors are a multiple of 3");
    }

    #[test]
    fn small_blocks_use_few_columns() {
        assert_eq!(
            columns(&plain(6, 2, 12), 6, 1),
            [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
        );
        assert_eq!(
            columns(&plain(6, 2, 12), 5, 1),
            [(5, 0, 1), (0, 1, 1), (1, 1, 1)]
        );
    }

    #[test]
    fn single_parity_swaps_by_bit_20_of_the_offset() {
        let raidz = plain(3, 1, 9);
        let offset = (1 << 20) >> 9; // sector 2048 = 3 * 682 + 2
        assert_eq!(columns(&raidz, offset, 1), [(0, 683, 1), (2, 682, 1)]);
        let raidz = plain(4, 2, 9);
        assert_eq!(
            columns(&raidz, offset, 1),
            [(0, 512, 1), (1, 512, 1), (2, 512, 1)]
        );
    }

    #[test]
    fn allocated_sizes_and_deflate_ratios() {
        // format/1c 5: raidz1 of 4, ashift 9 -> 383; raidz3 of 7, ashift 12 -> 448 sectors -> 292.
        assert_eq!(plain(4, 1, 9).asize(131_072, Txg(4)), 342 * 512);
        assert_eq!(plain(4, 1, 9).deflate_ratio(), 383);
        assert_eq!(plain(7, 3, 12).asize(131_072, Txg(4)), 448 * 512);
        assert_eq!(plain(7, 3, 12).deflate_ratio(), 292);
    }

    #[test]
    fn expansions_change_the_width_from_their_txg_on() {
        let txgs = vec![Txg(100), Txg(200)];
        let done = Raidz::new(6, 1, 9, txgs.clone(), None).expect("sane");
        let widths = [4, 99, 100, 199, 200].map(|txg| done.logical_width(Txg(txg)));
        assert_eq!(widths, [4, 4, 5, 5, 6]);
        let running = Raidz::new(6, 1, 9, txgs, Some(Reflow::default())).expect("sane");
        let widths = [4, 100, 200, 900].map(|txg| running.logical_width(Txg(txg)));
        assert_eq!(widths, [3, 4, 5, 5]);
        assert_eq!(running.vdev_asize(1000), 5000);
        assert_eq!(running.deflate_ratio(), plain(3, 1, 9).deflate_ratio());
    }

    #[test]
    fn absurd_configurations_are_refused() {
        assert_eq!(Raidz::new(3, 3, 9, vec![], None), None);
        assert_eq!(
            Raidz::new(3, 1, 9, vec![Txg(1)], Some(Reflow::default())),
            None
        );
        assert_eq!(Raidz::new(256, 1, 9, vec![], None), None);
        assert_eq!(Raidz::new(3, 0, 9, vec![], None), None);
        assert_eq!(Raidz::new(3, 1, 17, vec![], None), None);
    }

    #[test]
    fn the_scratch_area_holds_the_first_step() {
        let reflow = Reflow {
            offset: 0,
            use_scratch: true,
        };
        let raidz = Raidz::new(4, 1, 12, vec![], Some(reflow)).expect("sane");
        let first = raidz.map(0, 4096, Txg(4));
        assert!(first.rows[0].columns.iter().all(|column| column.in_scratch));
        // 896 sectors of 4 KiB per child are in the scratch area.
        let beyond = raidz.map((896 * 4) << 12, 4096, Txg(4));
        assert!(
            beyond.rows[0]
                .columns
                .iter()
                .all(|column| !column.in_scratch)
        );
        assert_eq!(beyond.rows[0].columns[0].child, 896 * 4 % 3);
    }

    /// The vdev's sectors that a map touches, as (child, sector), and the block's sectors.
    fn sectors_of(map: &Map, ashift: u32) -> (BTreeSet<(usize, u64)>, BTreeSet<u64>) {
        let (mut places, mut block) = (BTreeSet::new(), BTreeSet::new());
        for row in &map.rows {
            for (index, column) in row.columns.iter().enumerate() {
                for sector in 0..column.length >> ashift {
                    let fresh = places.insert((column.child, (column.offset >> ashift) + sector));
                    assert!(fresh, "no sector serves twice");
                    if index >= map.parity {
                        let fresh = block.insert((column.block_offset >> ashift) + sector);
                        assert!(fresh, "no byte of the block is stored twice");
                    }
                }
            }
        }
        (places, block)
    }

    proptest! {
        #[test]
        fn every_byte_has_one_place(
            parity in 1u64..=3, spare_width in 1usize..6, grown in 0usize..3,
            sectors in 1u64..80, start in 0u64..5000, big_offset: bool,
        ) {
            let ashift = 9;
            let children = parity as usize + spare_width + grown;
            let txgs = (0..grown as u64).map(|i| Txg(100 + i)).collect();
            let raidz = Raidz::new(children, parity, ashift, txgs, None).expect("sane");
            let start = start + if big_offset { 2048 } else { 0 };
            let map = raidz.map(start << ashift, sectors << ashift, Txg(4));
            let (places, block) = sectors_of(&map, ashift);
            let block_sectors: BTreeSet<_> = (0..sectors).collect();
            prop_assert_eq!(&block, &block_sectors);
            // Whatever the logical width, the block takes consecutive sectors of the vdev.
            if let Some(split) = map.split() {
                prop_assert_eq!(sectors_of(&split, ashift), (places.clone(), block_sectors));
            }
            let width = parity + spare_width as u64;
            let total = raidz.shape(sectors, width).total;
            let expected: BTreeSet<_> = (start..start + total)
                .map(|b| ((b % children as u64) as usize, b / children as u64))
                .collect();
            prop_assert_eq!(places, expected);
            prop_assert!(raidz.asize(sectors << ashift, Txg(4)) >> ashift >= total);
            for row in &map.rows {
                let used: Vec<_> = row.columns.iter().filter(|c| c.length > 0).collect();
                let distinct: BTreeSet<_> = used.iter().map(|c| c.child).collect();
                prop_assert_eq!(used.len(), distinct.len(), "a child fails once per row");
            }
        }

        #[test]
        fn a_running_reflow_places_rows_by_the_offset(
            parity in 1u64..=2, sectors in 1u64..40, start in 0u64..300, reflowed in 0u64..400,
        ) {
            let children = parity as usize + 4;
            let reflow = Reflow { offset: reflowed << 9, use_scratch: false };
            let raidz = Raidz::new(children, parity, 9, vec![], Some(reflow)).expect("sane");
            let map = raidz.map(start << 9, sectors << 9, Txg(4));
            let (_, block) = sectors_of(&map, 9);
            prop_assert_eq!(block, (0..sectors).collect::<BTreeSet<_>>());
            if start >= reflowed {
                // Nothing moved yet: the same places as before the expansion.
                let old = plain(children - 1, parity, 9).map(start << 9, sectors << 9, Txg(4));
                prop_assert_eq!(sectors_of(&map, 9).0, sectors_of(&old, 9).0);
            }
        }
    }
}
