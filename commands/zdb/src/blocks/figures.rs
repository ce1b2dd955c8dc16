//! What is counted of blocks.

use cenote_ondisk::block_pointer::EMBEDDED_PAYLOAD_MAX;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::HashSet;

/// Types with rows of their own.
pub const TYPES: usize = 54;
/// The row of blocks to be freed.
pub const DEFERRED: usize = TYPES;
/// The row of types without a row of their own.
pub const OTHER: usize = TYPES + 1;
/// All rows but the totals.
pub const ROWS: usize = TYPES + 2;
/// Levels of block trees: they are stored in 5 bits.
pub const LEVELS: usize = 32;
/// Sizes of blocks, from 512 bytes to 16 MiB.
pub const SIZES: usize = 16;

/// A number of blocks and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Blocks.
    pub count: u64,
    /// Bytes without compression.
    pub logical: u64,
    /// Bytes as stored.
    pub physical: u64,
    /// Bytes allocated.
    pub allocated: u64,
}

impl Sum {
    fn add(&mut self, pointer: &BlockPointer) {
        self.count += 1;
        self.logical += pointer.logical_size();
        if !pointer.is_embedded() {
            self.physical += pointer.physical_size();
            self.allocated += pointer.allocated_size();
        }
    }

    /// Adds another sum.
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            logical: self.logical + other.logical,
            physical: self.physical + other.physical,
            allocated: self.allocated + other.allocated,
        }
    }
}

/// Blocks of one size: how many, and their bytes.
pub type SizeRows = [(u64, u64); SIZES];

/// All that is counted.
#[derive(Debug)]
pub struct Figures {
    /// By row and level.
    pub by_type: Vec<[Sum; LEVELS]>,
    /// By physical, logical and allocated size.
    pub by_size: [SizeRows; 3],
    /// Blocks in gangs.
    pub ganged: u64,
    /// Further references to deduplicated blocks.
    pub deduplicated: Sum,
    /// Further references to cloned blocks.
    pub cloned: Sum,
    /// Blocks in their pointers, by their size there.
    pub embedded: [u64; EMBEDDED_PAYLOAD_MAX + 1],
    /// Blocks with several copies on one vdev.
    pub same_vdev: u64,
    /// Addresses of blocks that were cloned.
    clones: HashSet<(u64, u64)>,
    /// Those of shared blocks that were met.
    met: HashSet<(u64, u64)>,
}

/// The place of a size in a histogram.
fn size_index(size: u64) -> usize {
    let shift = size.max(512).ilog2() as usize - 9;
    shift.min(SIZES - 1)
}

impl Figures {
    /// Nothing yet. `clones` are the addresses of blocks that were cloned.
    pub fn new(clones: HashSet<(u64, u64)>) -> Self {
        Self {
            by_type: vec![[Sum::default(); LEVELS]; ROWS],
            by_size: [[(0, 0); SIZES]; 3],
            ganged: 0,
            deduplicated: Sum::default(),
            cloned: Sum::default(),
            embedded: [0; EMBEDDED_PAYLOAD_MAX + 1],
            same_vdev: 0,
            clones,
            met: HashSet::new(),
        }
    }

    /// Counts a block.
    pub fn add(&mut self, pointer: &BlockPointer) {
        let row = usize::from(pointer.object_type().0);
        self.add_to(if row < TYPES { row } else { OTHER }, pointer);
    }

    /// Counts a block that is to be freed.
    pub fn add_deferred(&mut self, pointer: &BlockPointer) {
        self.add_to(DEFERRED, pointer);
    }

    fn add_to(&mut self, row: usize, pointer: &BlockPointer) {
        if pointer.is_hole() || pointer.is_redacted() {
            return;
        }
        let level = usize::from(pointer.level().0);
        self.by_type[row][level].add(pointer);
        if pointer.is_embedded() {
            let size = usize::try_from(pointer.physical_size()).unwrap_or(usize::MAX);
            self.embedded[size.min(EMBEDDED_PAYLOAD_MAX)] += 1;
            return;
        }
        let sizes = [
            pointer.physical_size(),
            pointer.logical_size(),
            pointer.allocated_size(),
        ];
        for (rows, size) in self.by_size.iter_mut().zip(sizes) {
            let (count, bytes) = &mut rows[size_index(size)];
            *count += 1;
            *bytes += size;
        }
        self.ganged += u64::from(pointer.is_gang());
        let vdevs: Vec<_> = pointer.dvas().map(|dva| dva.vdev()).collect();
        let distinct: HashSet<_> = vdevs.iter().collect();
        self.same_vdev += u64::from(distinct.len() < vdevs.len());
        self.share(pointer);
    }

    /// A shared block takes space once.
    fn share(&mut self, pointer: &BlockPointer) {
        let first = pointer.dva(0);
        let place = (first.vdev().0, first.offset());
        let is_shared = pointer.is_dedup() || self.clones.contains(&place);
        if !is_shared || self.met.insert(place) {
            return;
        }
        match pointer.is_dedup() {
            true => self.deduplicated.add(pointer),
            false => self.cloned.add(pointer),
        }
    }

    /// The sum of a row.
    pub fn row(&self, row: usize) -> Sum {
        self.by_type[row]
            .iter()
            .copied()
            .fold(Sum::default(), Sum::plus)
    }

    /// The sum of a level over all types.
    pub fn level(&self, level: usize) -> Sum {
        let rows = self.by_type.iter().map(|levels| levels[level]);
        rows.fold(Sum::default(), Sum::plus)
    }

    /// The sum of metadata, as far as OpenZFS counts it: of types with rows of their own that are
    /// not only in pointers.
    pub fn metadata(&self) -> Sum {
        let rows = (0..TYPES).filter(|row| self.row(*row).allocated > 0);
        let of_row = |row: usize| {
            let is_metadata = u8::try_from(row).is_ok_and(|row| ObjectType(row).is_metadata());
            let levels = self.by_type[row].iter().enumerate();
            let counted = levels.filter(move |(level, _)| *level > 0 || is_metadata);
            counted.map(|(_, sum)| *sum).fold(Sum::default(), Sum::plus)
        };
        rows.map(of_row).fold(Sum::default(), Sum::plus)
    }

    /// The sum of all.
    pub fn total(&self) -> Sum {
        (0..ROWS)
            .map(|row| self.row(row))
            .fold(Sum::default(), Sum::plus)
    }

    /// Bytes that all blocks take, each counted once.
    pub fn stored(&self) -> u64 {
        let shared = self.deduplicated.allocated + self.cloned.allocated;
        self.total().allocated.saturating_sub(shared)
    }
}
