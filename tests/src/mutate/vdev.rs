//! Where a top-level vdev keeps a block, and how to put another there.
//!
//! A block on disks and mirrors has the same bytes on each of them. On raidz and draid it is
//! divided into columns with parity. The parity of a mutation is corrected, since a reader would
//! otherwise repair the mutation.

use super::{Devices, Write};
use anyhow::{Context, Result, ensure};
use cenote_base::{Guid, Txg, VdevId};
use cenote_codec::parity;
use cenote_ondisk::uberblock::ReflowScratch;
use cenote_ondisk::{Uberblock, VdevConfig, VdevKind, label};
use cenote_vdev::geometry::draid::Draid;
use cenote_vdev::geometry::raidz::{Raidz, Reflow};
use cenote_vdev::geometry::{Column, Map, Row};
use std::collections::HashMap;

/// How addresses become places on devices.
enum Layout {
    Same,
    Raidz(Raidz),
    Draid(Draid),
}

/// A top-level vdev that blocks can be read from and written to.
pub(super) struct TopVdev {
    pub id: VdevId,
    /// log2 of the allocation unit.
    pub ashift: u32,
    /// Whether it holds intent logs only.
    pub is_log: bool,
    /// Indexes of the devices of each child; of a disk or mirror, there is one child.
    slots: Vec<Vec<usize>>,
    layout: Layout,
    asize: u64,
}

impl TopVdev {
    /// The vdev that `config` describes; `None` for holes, removed ones and what makes no sense.
    pub fn new(
        config: &VdevConfig,
        devices: &HashMap<Guid, usize>,
        is_log: bool,
        uberblock: &Uberblock,
    ) -> Option<Self> {
        let ashift = config.ashift.unwrap_or(label::ASHIFT_MIN);
        let found = |vdev: &VdevConfig| -> Vec<usize> {
            let mut found: Vec<usize> = vdev
                .leaves()
                .filter_map(|leaf| devices.get(&leaf.guid).copied())
                .collect();
            found.sort_unstable();
            found
        };
        let count = config.children.len();
        let layout = match (&config.kind, config.draid) {
            (VdevKind::Disk | VdevKind::File | VdevKind::Mirror, _) => Layout::Same,
            (VdevKind::Raidz, _) => {
                let progress = uberblock.raidz_reflow();
                let reflow = config.raidz_expanding.then(|| Reflow {
                    offset: progress.map_or(0, |reflow| reflow.offset),
                    use_scratch: progress.is_some_and(|r| r.scratch == ReflowScratch::Valid),
                });
                let txgs = config.raidz_expand_txgs.clone();
                Layout::Raidz(Raidz::new(count, config.parity, ashift, txgs, reflow)?)
            }
            (VdevKind::Draid, Some(draid)) => {
                let (data, spares, groups) = (draid.data, draid.spares, draid.groups);
                let parity = config.parity;
                Layout::Draid(Draid::new(count, parity, data, spares, groups, ashift)?)
            }
            _ => return None,
        };
        let slots = match layout {
            Layout::Same => vec![found(config)],
            _ => config.children.iter().map(found).collect(),
        };
        Some(Self {
            id: config.id?,
            ashift,
            is_log: is_log || config.is_log,
            slots,
            layout,
            asize: config.asize,
        })
    }

    /// How many copies of a block there are.
    pub fn copies(&self) -> usize {
        match self.layout {
            Layout::Same => self.slots[0].len(),
            _ => 1,
        }
    }

    /// Bytes that a block of `size` bytes takes.
    pub fn allocated(&self, size: u64, birth: Txg) -> u64 {
        match &self.layout {
            Layout::Same => size.next_multiple_of(1 << self.ashift),
            Layout::Raidz(raidz) => raidz.asize(size, birth),
            Layout::Draid(draid) => draid.asize(size),
        }
    }

    /// What offsets of blocks are multiples of.
    fn alignment(&self) -> u64 {
        match &self.layout {
            Layout::Draid(draid) => draid.stripe_bytes(),
            _ => 1 << self.ashift,
        }
    }

    fn map(&self, offset: u64, size: u64, birth: Txg) -> Option<Map> {
        match &self.layout {
            Layout::Same => None,
            Layout::Raidz(raidz) => Some(raidz.map(offset, size, birth)),
            Layout::Draid(draid) => Some(draid.map(offset, size)),
        }
    }

    /// Copy `copy` of the `size` bytes at `offset`, nothing checked; `None` if it is not there.
    pub fn read(
        &self,
        devices: &Devices,
        copy: usize,
        offset: u64,
        size: usize,
        birth: Txg,
    ) -> Option<Vec<u8>> {
        if size == 0 || !offset.is_multiple_of(self.alignment()) {
            return None;
        }
        let Some(map) = self.map(offset, size as u64, birth) else {
            let device = *self.slots[0].get(copy)?;
            return devices.read(device, offset + label::DATA_OFFSET, size).ok();
        };
        let mut block = vec![0; usize::try_from(map.size).ok()?];
        for column in map.data_columns() {
            let device = *self.slots[column.child].first()?;
            let length = usize::try_from(column.length).ok()?;
            let bytes = devices.read(device, place(column), length).ok()?;
            block[column.block_range()].copy_from_slice(&bytes);
        }
        block.truncate(size);
        Some(block)
    }

    /// The writes that put `content` at `offset`.
    pub fn write(&self, offset: u64, content: &[u8], birth: Txg) -> Vec<Write> {
        let Some(map) = self.map(offset, content.len() as u64, birth) else {
            let devices = self.slots[0].iter();
            let write = |device: &usize| Write {
                device: *device,
                offset: offset + label::DATA_OFFSET,
                bytes: content.to_vec(),
            };
            return devices.map(write).collect();
        };
        let mut block = content.to_vec();
        block.resize(usize::try_from(map.size).expect("a block"), 0);
        let mut writes = Vec::new();
        for row in &map.rows {
            for (column, mut bytes) in row.columns.iter().zip(columns(row, map.parity, &block)) {
                if column.length == 0 && column.skip == 0 {
                    continue;
                }
                bytes.resize(
                    bytes.len() + usize::try_from(column.skip).expect("short"),
                    0,
                );
                for device in &self.slots[column.child] {
                    writes.push(Write {
                        device: *device,
                        offset: place(column),
                        bytes: bytes.clone(),
                    });
                }
            }
        }
        writes
    }

    /// The first and last offset between which no device ever held data.
    pub fn unused(&self, devices: &Devices) -> Result<(u64, u64)> {
        let mut start = 0;
        let mut end = u64::MAX;
        for device in self.slots.iter().flatten() {
            let size = devices.size(*device)?;
            let area = label::allocatable_size(size).context("room for labels")?;
            end = end.min(area);
            let tail = area + label::DATA_OFFSET;
            let segments = devices.segments(*device)?;
            let last = segments.iter().rev().find(|(start, _)| *start < tail);
            let used = last.map_or(0, |(_, end)| (*end).min(tail));
            start = start.max(used.saturating_sub(label::DATA_OFFSET));
        }
        let unit = 1_u64 << self.ashift;
        if matches!(self.layout, Layout::Same) {
            return Ok((start.next_multiple_of(unit), end - end % unit));
        }
        let used = start;
        let end = self.asize - self.asize % self.alignment();
        // Probes rather than arithmetic: where columns lie is the geometry's business.
        let step = (end / PROBES)
            .next_multiple_of(self.alignment())
            .max(self.alignment());
        let mut start = end;
        while start >= step && self.begins_at_or_behind(start - step, used) {
            start -= step;
        }
        Ok((start.next_multiple_of(self.alignment()), end))
    }

    /// Whether a block there has no column before `used` on any child.
    fn begins_at_or_behind(&self, offset: u64, used: u64) -> bool {
        let offset = offset - offset % self.alignment();
        let map = self.map(offset, 128 << 10, Txg(u64::MAX));
        map.is_some_and(|map| {
            let mut columns = map.rows.iter().flat_map(|row| &row.columns);
            columns.all(|column| column.length == 0 || column.offset >= used)
        })
    }

    /// The offset of a block of `size` bytes in unused space from `cursor` on.
    pub fn allocate(&self, cursor: &mut u64, end: u64, size: u64, birth: Txg) -> Result<u64> {
        let allocated = self.allocated(size, birth);
        let offset = cursor.next_multiple_of(self.alignment());
        ensure!(offset + allocated <= end, "no unused space is left");
        *cursor = offset + allocated;
        Ok(offset)
    }
}

/// How finely unused space is looked for.
const PROBES: u64 = 4096;

/// Where a column begins on its device.
fn place(column: &Column) -> u64 {
    match column.in_scratch {
        true => column.offset + label::BOOT_REGION_OFFSET,
        false => column.offset + label::DATA_OFFSET,
    }
}

/// The bytes of each column of a row, parity first.
fn columns(row: &Row, parity_count: usize, block: &[u8]) -> Vec<Vec<u8>> {
    let (parity_columns, data_columns) = row.columns.split_at(parity_count);
    // Columns that a short row lacks count as zeros, and keep their places.
    let bytes = |column: &Column| &block[column.block_range()];
    let data: Vec<&[u8]> = data_columns.iter().map(bytes).collect();
    let mut all: Vec<Vec<u8>> = parity_columns
        .iter()
        .map(|column| vec![0; usize::try_from(column.length).expect("a column")])
        .collect();
    let mut sums: Vec<&mut [u8]> = all.iter_mut().map(Vec::as_mut_slice).collect();
    parity::generate(&mut sums, &data);
    all.extend(data.into_iter().map(<[u8]>::to_vec));
    all
}
