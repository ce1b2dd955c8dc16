//! Disks that record: the exports of an NBD server.

use super::record::{Event, Record};
use anyhow::Result;
use cenote_nbd::{
    BlockDevice, BlockError, Client, ExportEntry, Exports, Extent, FileDisk, OpenError, ReadData,
    ZeroMode,
};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// All disks of a pool; their names are numbers.
pub(super) struct Disks(Vec<Arc<Disk>>);

struct Disk {
    number: usize,
    file: FileDisk,
    record: Arc<Record>,
}

impl Disks {
    /// Empty disks of this size, on files in `place`.
    pub fn create(place: &Path, record: &Arc<Record>, size: u64) -> Result<Self> {
        let disk = |number: usize| {
            let path = place.join(format!("disk-{number}"));
            File::create(&path)?.set_len(size)?;
            Ok(Arc::new(Disk {
                number,
                file: FileDisk::open(&path, false)?,
                record: Arc::clone(record),
            }))
        };
        let disks: Result<Vec<_>> = (0..record.disks()).map(disk).collect();
        disks.map(Self)
    }
}

impl Exports for Disks {
    fn list(&self) -> Vec<ExportEntry> {
        Vec::new()
    }

    fn open(&self, name: &str, _client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let number = name.parse::<usize>().ok();
        let disk = number.and_then(|number| self.0.get(number));
        match disk {
            Some(disk) => Ok(Arc::clone(disk) as Arc<dyn BlockDevice>),
            None => Err(OpenError::Unknown(name.to_owned())),
        }
    }
}

impl BlockDevice for Disk {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        self.file.read(offset, length, data)
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.file.write(offset, bytes, false)?;
        self.record.write(self.number, offset, bytes, is_durable)?;
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        // What is answered while this is under way may not be covered.
        let begun = self.record.now();
        self.record.note(Event::Flush {
            disk: self.number,
            begun,
        });
        Ok(())
    }

    fn trim(&self, _range: Range<u64>) -> Result<(), BlockError> {
        // It may have no effect.
        Ok(())
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        self.file.zero(range.clone(), mode)?;
        self.record.note(Event::Zero {
            disk: self.number,
            offset: range.start,
            length: range.end - range.start,
        });
        Ok(())
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        self.file.extents(context, range, most)
    }
}
