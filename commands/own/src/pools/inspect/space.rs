//! Space maps, and raw bytes by address.

use super::arguments::{Arguments, wrong};
use super::node::Members;
use super::printer::{Printer, failed};
use crate::reading::failure::Failure;
use crate::reading::output::hex;
use cenote_base::{ObjectId, Txg, VdevId};
use cenote_dmu::{DmuError, IoContext, Object, ObjectSet};
use cenote_dsl::directory_keys;
use cenote_ondisk::space_map::{LOG_SHIFT, SpaceMapHeader, SpaceMapItems};
use cenote_ondisk::{Dva, VdevConfig};
use cenote_words::format::number::nicebytes;
use std::sync::Arc;

/// The maximum size of one read.
const READ_MAX: u64 = 16 << 20;

/// The numbers of an object that is an array of them, up to its last block.
fn numbers(object: &Object, count: u64) -> Result<Vec<u64>, DmuError> {
    let stored = (object.dnode().block_id_max.0.saturating_add(1))
        .saturating_mul(object.dnode().data_block_size);
    let length = count.saturating_mul(8).min(stored);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    object.read(0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// A space map to show.
struct Map<'a> {
    set: &'a Arc<ObjectSet>,
    id: ObjectId,
    start: u64,
    shift: u32,
}

impl Map<'_> {
    fn header(&self) -> Result<(Object, SpaceMapHeader), DmuError> {
        let object = self.set.object(self.id)?;
        let header = SpaceMapHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| object.malformed(source))?;
        Ok((object, header))
    }

    /// Prints all entries, block by block.
    fn entries(&self, printer: &mut Printer) -> Result<(), Failure> {
        let what = format!("space map in object {}", self.id);
        let (object, header) = self.header().map_err(failed(what.as_str()))?;
        let size = object.dnode().data_block_size;
        let stored = object
            .dnode()
            .block_id_max
            .0
            .saturating_add(1)
            .saturating_mul(size);
        let end = header.length.min(stored);
        let mut at = 0;
        while at < end {
            let length = usize::try_from(size.min(end - at)).expect("at most a block");
            let mut bytes = vec![0; length];
            object.read(at, &mut bytes).map_err(failed(what.as_str()))?;
            for entry in SpaceMapItems::new(&bytes, self.start, self.shift).entries() {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        printer.complain(&format!("{what}: {error}"));
                        return Ok(());
                    }
                };
                let action = format!("{:?}", entry.action).to_lowercase();
                let mut members = Members::new();
                members.put("action", action.as_str());
                members.put("vdev", entry.vdev.0);
                members.put("offset", entry.offset);
                members.put("length", entry.length);
                let text = format!(
                    "        {action:<5} {}:{:x}:{:x}",
                    entry.vdev, entry.offset, entry.length
                );
                printer.row(members, &text)?;
            }
            at += size;
        }
        Ok(())
    }
}

/// `inspect spacemaps POOL`.
pub fn space_maps(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = arguments.open(&arguments.spec()?)?;
    let pool = session.pool();
    for top in &pool.vdev_tree().children {
        if let Err(failure) = metaslabs(pool.mos(), top, arguments, printer) {
            match failure {
                Failure::Output(_) => return Err(failure),
                failure => printer.complain(&failure.to_string()),
            }
        }
    }
    let logs = pool
        .dsl()
        .object_directory()
        .object(directory_keys::LOG_SPACE_MAPS);
    let Some(logs) = logs.map_err(failed("the object directory"))? else {
        return Ok(());
    };
    printer.title("logs:")?;
    let zap = pool
        .mos()
        .zap(logs)
        .map_err(failed("the list of space map logs"))?;
    for entry in zap.entries() {
        let entry = entry.map_err(failed("the list of space map logs"))?;
        let txg = entry.key.as_str().unwrap_or_default().to_owned();
        let txg = u64::from_str_radix(&txg, 16).unwrap_or(0);
        let map = Map {
            set: pool.mos(),
            id: ObjectId(entry.value.as_u64().unwrap_or(0)),
            start: 0,
            shift: LOG_SHIFT,
        };
        let mut members = Members::new();
        members.put("log_of_txg", txg);
        members.put("object", map.id.0);
        printer.row(members, &format!("    txg {txg:<10} object {}", map.id))?;
        if arguments.entries {
            map.entries(printer)?;
        }
    }
    Ok(())
}

fn metaslabs(
    mos: &Arc<ObjectSet>,
    top: &VdevConfig,
    arguments: &Arguments,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let vdev = top.id.unwrap_or_default();
    let (Some(array), Some(ashift)) = (top.metaslab_array, top.ashift) else {
        return printer.title(&format!(
            "vdev {vdev}: {} without metaslabs",
            top.kind.name()
        ));
    };
    if top.metaslab_shift == 0 || top.metaslab_shift >= u64::BITS {
        return printer.title(&format!(
            "vdev {vdev}: {} without metaslabs",
            top.kind.name()
        ));
    }
    let what = format!("the metaslabs of vdev {vdev}");
    let count = top.asize >> top.metaslab_shift;
    let array = mos.object(array).map_err(failed(what.as_str()))?;
    let size = 1_u64 << top.metaslab_shift;
    printer.title(&format!(
        "vdev {vdev}: {count} metaslabs of {}",
        nicebytes(size)
    ))?;
    let maps = numbers(&array, count).map_err(failed(what.as_str()))?;
    for (id, index) in maps.into_iter().zip(0_u64..) {
        if id == 0 {
            continue;
        }
        let map = Map {
            set: mos,
            id: ObjectId(id),
            start: index.saturating_mul(size),
            shift: ashift,
        };
        match map.header() {
            Ok((_, header)) => {
                let mut members = Members::new();
                members.put("vdev", vdev.0);
                members.put("metaslab", index);
                members.put("start", map.start);
                members.put("object", id);
                members.put("bytes_of_map", header.length);
                members.put("allocated", super::node::Node::Signed(header.allocated));
                let allocated = u64::try_from(header.allocated).unwrap_or(0);
                let text = format!(
                    "    metaslab {index:<5} object {id:<6} {:>7} of map, {:>7} allocated",
                    nicebytes(header.length),
                    nicebytes(allocated)
                );
                printer.row(members, &text)?;
            }
            Err(error) => printer.complain(&format!("metaslab {vdev}:{index}: {error}")),
        }
        if arguments.entries {
            map.entries(printer)?;
        }
    }
    Ok(())
}

/// `VDEV:OFFSET:SIZE`, the vdev in decimal, the others in hex, as in printed block pointers.
fn parse_address(text: &str) -> Option<(VdevId, u64, u64)> {
    let mut parts = text.split(':');
    let vdev = parts.next()?.parse().ok()?;
    let offset = u64::from_str_radix(parts.next()?, 16).ok()?;
    let size = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts
        .next()
        .is_none()
        .then_some((VdevId(vdev), offset, size))
}

/// `inspect read POOL VDEV:OFFSET:SIZE`: the stored bytes at an address, without verification.
pub fn read(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = arguments.open(&arguments.spec()?)?;
    let text = arguments
        .operands
        .get(1)
        .map(|text| text.to_string_lossy().into_owned());
    let address = text.as_deref().and_then(parse_address);
    let Some((vdev, offset, size)) = address else {
        return Err(wrong(
            "give an address as VDEV:OFFSET:SIZE, offset and size in hex",
        ));
    };
    if size == 0 || size > READ_MAX || offset % 512 != 0 || size % 512 != 0 {
        return Err(wrong(
            "offset and size are multiples of 512, and at most 1000000 are read",
        ));
    }
    let length = usize::try_from(size).expect("at most 16 MiB");
    let dva = Dva::new(vdev, offset, size);
    let vdevs = session.pool().vdevs();
    let outcome = vdevs.read(dva, length, Txg(0), &|_| true, &IoContext::COMMAND);
    let outcome = outcome.map_err(|error| Failure::Absent {
        what: dva.to_string(),
        problem: error.to_string(),
    })?;
    if arguments.raw {
        return printer.output.bytes(&outcome.bytes);
    }
    for (row, at) in outcome.bytes.chunks(16).zip((0_u64..).step_by(16)) {
        let letters: String = row
            .iter()
            .map(|byte| match byte {
                0x20..=0x7e => char::from(*byte),
                _ => '.',
            })
            .collect();
        let mut members = Members::new();
        members.put("offset", at);
        members.put("hex", hex(row));
        let halves: Vec<String> = row.chunks(8).map(hex).collect();
        printer.row(
            members,
            &format!("{at:08x}  {}  {letters}", halves.join(" ")),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_in_block_pointers() {
        assert_eq!(
            parse_address("0:4e00:200"),
            Some((VdevId(0), 0x4e00, 0x200))
        );
        for wrong in ["", "0:1", "0:1:2:3", "x:1:2", "0:g:2"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }
}
