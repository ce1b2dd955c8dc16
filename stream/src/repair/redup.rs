//! A deduplicated stream with its blocks in full, as receivers want it.
//!
//! Old senders replaced a block that they had sent before by a reference to it: the snapshot,
//! object and offset of the first. Receivers dropped the memory that this took. The stream has to
//! be a file here, and is read twice: once for all that is referred to, then for writing, when
//! the places of those blocks are noted as they come by, and read again where they are wanted.

use super::{refuse, rewrite};
use crate::error::{Refusal, StreamError};
use crate::reader::{Checks, Reader};
use cenote_ondisk::stream::{
    ByteOrder, Feature, RECORD_SIZE, Record, Write as WriteRecord, WriteByReference,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

/// Blocks referred to, at most: with 32 bytes each and a table half full, 320 MiB.
const BLOCKS_MAX: usize = 5_000_000;

/// Snapshot, object, offset.
type Key = (u64, u64, u64);

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redup {
    /// References that were replaced.
    pub references: u64,
    /// Bytes of the blocks that replace them.
    pub bytes: u64,
}

/// Reads a file from its start, whatever others do with it.
struct FromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Writes the stream in `file` to `sink`, with blocks instead of references to blocks.
///
/// # Errors
/// If the stream is damaged or cut, refers to what it does not have, or `sink` takes no more.
pub fn redup(file: &File, sink: impl Write) -> Result<Redup, StreamError> {
    let start = || FromStart { file, offset: 0 };
    let mut blocks = referred(start())?;
    let mut done = Redup::default();
    let mut order = ByteOrder::Little;
    rewrite(start(), sink, |item| {
        let place = item.header.place;
        match &item.header.record {
            Record::Begin(begin) => {
                let mut begin = begin.clone();
                let features = begin.features.without(Feature::Dedup);
                begin.features = features.without(Feature::DedupProperties);
                order = item.order;
                Ok((Record::Begin(begin), None))
            }
            Record::Write(write) => {
                let key = (write.to_guid.0, write.object.0, write.offset);
                if let Some(offset) = blocks.get_mut(&key) {
                    *offset = Some(place.offset);
                }
                Ok((Record::Write(*write), None))
            }
            Record::WriteByReference(write) => {
                let Some(Some(offset)) = blocks.get(&key(write)) else {
                    return refuse(item, Refusal::Reference);
                };
                let read = |source| StreamError::Read { place, source };
                let (block, payload) = read_block(file, *offset, order).map_err(read)?;
                let record = in_full(write, &block);
                if record.logical_size != write.length {
                    return refuse(item, Refusal::Reference);
                }
                done.references += 1;
                done.bytes += payload.len() as u64;
                Ok((Record::Write(record), Some(payload)))
            }
            record => Ok((record.clone(), None)),
        }
    })?;
    Ok(done)
}

/// Reads the WRITE at `offset`, which was read before.
fn read_block(file: &File, offset: u64, order: ByteOrder) -> io::Result<(WriteRecord, Vec<u8>)> {
    let changed = || io::Error::other("the file has changed");
    let mut header = [0; RECORD_SIZE];
    file.read_exact_at(&mut header, offset)?;
    let (record, _) = Record::decode(&header, order).map_err(|_| changed())?;
    let length = record.payload_length().map_err(|_| changed())?;
    let Record::Write(write) = record else {
        return Err(changed());
    };
    let mut payload = vec![0; length];
    file.read_exact_at(&mut payload, offset + RECORD_SIZE as u64)?;
    Ok((write, payload))
}

fn key(write: &WriteByReference) -> Key {
    let guid = write.reference_guid.0;
    (guid, write.reference_object.0, write.reference_offset)
}

/// All blocks that the stream refers to, with no places yet.
fn referred(source: impl Read) -> Result<HashMap<Key, Option<u64>>, StreamError> {
    let checks = Checks {
        contents: false,
        ..Checks::default()
    };
    let mut reader = Reader::with_checks(source, checks);
    let mut blocks = HashMap::new();
    while let Some(item) = reader.next_item()? {
        if let Record::WriteByReference(write) = &item.header.record {
            blocks.insert(key(write), None);
            if blocks.len() > BLOCKS_MAX {
                return refuse(&item, Refusal::TooManyBlocks);
            }
        }
    }
    Ok(blocks)
}

/// The record that replaces a reference to `block`.
fn in_full(write: &WriteByReference, block: &WriteRecord) -> WriteRecord {
    WriteRecord {
        object: write.object,
        offset: write.offset,
        to_guid: write.to_guid,
        checksum: write.checksum,
        flags: write.flags,
        key: write.key,
        ..*block
    }
}
