//! Pure address arithmetic: which bytes of which child hold a block.
//!
//! A block on a raidz or draid vdev is a [`Map`]: one or more rows, each of some parity columns
//! followed by data columns. A row is the unit of parity: byte `i` of every parity column depends
//! on byte `i` of every data column, and a data column that is shorter than the first one counts
//! as zeros there. Nothing here does I/O or knows which children are healthy.

pub mod draid;
mod draid_seeds;
pub mod raidz;

use std::ops::Range;

/// The unit of the deflate ratio: space is counted as if in blocks of this size (128 KiB).
const DEFLATE_BLOCK_SIZE: u64 = 128 << 10;

/// The most children of a vdev whose blocks have columns.
const CHILDREN_MAX: usize = 255;

/// A piece of a block on one child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The child's position among the vdev's children.
    pub child: usize,
    /// Byte of the child's allocatable area, or boot region, where the column begins.
    pub offset: u64,
    /// The column is in the boot region: the scratch area of a raidz expansion.
    pub in_scratch: bool,
    /// Bytes of the column. 0: the row has no such column, it counts as zeros.
    pub length: u64,
    /// Bytes after the column that must be zero on the child (draid only).
    pub skip: u64,
    /// Where in the block the column's bytes belong; means nothing for a parity column.
    pub block_offset: u64,
}

impl Column {
    /// The part of the block that a data column holds.
    pub fn block_range(&self) -> Range<usize> {
        // A block has at most 16 MiB, which every usize holds.
        self.block_offset as usize..(self.block_offset + self.length) as usize
    }
}

/// A unit of parity: parity columns first, then data columns in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Parity columns, then data columns.
    pub columns: Vec<Column>,
}

/// A block's columns on the children of a vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Parity columns in each row.
    pub parity: usize,
    /// The rows in order.
    pub rows: Vec<Row>,
    /// Bytes of the block, rounded up to the allocation unit: what the data columns sum to.
    pub size: u64,
    /// The allocation unit in bytes: lengths of columns are multiples of it.
    pub unit: u64,
}

impl Map {
    /// The data columns of all rows.
    pub fn data_columns(&self) -> impl Iterator<Item = &Column> {
        let rows = self.rows.iter();
        rows.flat_map(|row| &row.columns[self.parity..])
            .filter(|column| column.length > 0)
    }

    /// Asserts that the columns hold each byte of the block once, and that each row has its parity
    /// and no two columns on one child: so that the loss of a child is the loss of one column.
    ///
    /// [`raidz`] and [`draid`] call it for each map in debug builds.
    pub(super) fn assert_sound(&self) {
        let mut end = 0;
        for row in &self.rows {
            assert!(row.columns.len() > self.parity, "a row has data");
            let mut used = [false; CHILDREN_MAX];
            for column in row.columns.iter().filter(|column| column.length > 0) {
                let is_taken = std::mem::replace(&mut used[column.child], true);
                assert!(!is_taken, "two columns of a row are on one child: {row:?}");
            }
            let height = row.columns.iter().map(|column| column.length).max();
            let mut parity = row.columns[..self.parity].iter();
            let is_whole = parity.all(|column| Some(column.length) == height);
            assert!(is_whole, "parity covers all columns: {row:?}");
        }
        let mut data: Vec<_> = self.data_columns().map(Column::block_range).collect();
        data.sort_unstable_by_key(|range| range.start);
        for range in data {
            assert_eq!(range.start, end, "each byte is in one column: {self:?}");
            end = range.end;
        }
        assert_eq!(end as u64, self.size, "the columns hold the whole block");
    }

    /// The same columns cut into rows of one allocation unit each; `None` if they are already.
    ///
    /// Parity is a matter of single bytes, so each of the rows can be recomputed by itself: what
    /// failed in one place of a column and what failed elsewhere in another are no longer one
    /// loss too many.
    pub fn split(&self) -> Option<Self> {
        if self
            .rows
            .iter()
            .all(|row| row.columns[0].length <= self.unit)
        {
            return None;
        }
        let rows = self.rows.iter().flat_map(|row| {
            let height = row.columns[0].length / self.unit;
            (0..height).map(move |step| row.cut(step * self.unit, self.unit))
        });
        Some(Self {
            rows: rows.collect(),
            ..*self
        })
    }
}

impl Row {
    /// The `unit` bytes of each column at `at`, where columns reach so far.
    fn cut(&self, at: u64, unit: u64) -> Self {
        let columns = self.columns.iter().map(|column| {
            if at >= column.length {
                return Column::default();
            }
            Column {
                offset: column.offset + at,
                length: unit,
                skip: 0,
                block_offset: column.block_offset + at,
                ..*column
            }
        });
        Self {
            columns: columns.collect(),
        }
    }
}

/// 512-byte units of space that `asize` bytes count for, from the space that 128 KiB take on a
/// vdev: the deflate ratio (format/1c 5).
pub fn deflate_ratio(asize_of_128_kib: u64) -> u64 {
    DEFLATE_BLOCK_SIZE / (asize_of_128_kib >> 9).max(1)
}

/// The block size that the deflate ratio goes by.
pub const fn deflate_block_size() -> u64 {
    DEFLATE_BLOCK_SIZE
}
