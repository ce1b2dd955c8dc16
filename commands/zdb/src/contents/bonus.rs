//! Bonus buffers that are structures of the pool.

use crate::pointer;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_base::ObjectId;
use cenote_dmu::Object;
use cenote_ondisk::bpobj::BpobjHeader;
use cenote_ondisk::history::HistoryHeader;
use cenote_ondisk::{DecodeError, DslDataset, DslDir, ObjectType};

/// Prints the bonus buffer of an object, if its type has a form.
pub fn print(object: &Object, printer: &mut Printer) -> Result<(), Problem> {
    let dnode = object.dnode();
    let lines = match dnode.bonus_type {
        ObjectType::DSL_DIR => directory(&dnode.bonus, printer),
        ObjectType::DSL_DATASET => dataset(&dnode.bonus, printer),
        ObjectType::BPOBJ_HEADER => block_list(&dnode.bonus, printer),
        ObjectType::HISTORY_OFFSETS => history(&dnode.bonus),
        _ => return Ok(()),
    };
    let lines = lines.map_err(failed(format!("object {}", object.id())))?;
    for (name, value) in lines {
        printer.line(&format!("\t\t{name} = {value}"))?;
    }
    Ok(())
}

type Lines = Vec<(&'static str, String)>;

fn object_number(id: Option<ObjectId>) -> String {
    id.map_or(0, |id| id.0).to_string()
}

fn directory(bonus: &[u8], printer: &Printer) -> Result<Lines, DecodeError> {
    let found = DslDir::decode(bonus)?;
    let size = |bytes| printer.number(bytes);
    let parts = &found.breakdown;
    Ok(vec![
        ("creation_time", printer.time(found.creation_time)),
        ("head_dataset_obj", object_number(found.head_dataset)),
        ("parent_dir_obj", object_number(found.parent)),
        ("origin_obj", object_number(found.origin)),
        ("child_dir_zapobj", found.child_map.to_string()),
        ("used_bytes", size(found.used_bytes)),
        ("compressed_bytes", size(found.compressed_bytes)),
        ("uncompressed_bytes", size(found.uncompressed_bytes)),
        ("quota", size(found.quota)),
        ("reserved", size(found.reservation)),
        ("props_zapobj", found.properties.to_string()),
        ("deleg_zapobj", object_number(found.delegations)),
        ("flags", format!("{:x}", found.flags)),
        ("used_breakdown[HEAD]", size(parts.head)),
        ("used_breakdown[SNAP]", size(parts.snapshots)),
        ("used_breakdown[CHILD]", size(parts.children)),
        ("used_breakdown[CHILD_RSRV]", size(parts.child_reservations)),
        ("used_breakdown[REFRSRV]", size(parts.refreservation)),
        ("clones", object_number(found.clones)),
    ])
}

fn dataset(bonus: &[u8], printer: &Printer) -> Result<Lines, DecodeError> {
    let found = DslDataset::decode(bonus)?;
    let size = |bytes| printer.number(bytes);
    Ok(vec![
        ("dir_obj", found.directory.to_string()),
        ("prev_snap_obj", object_number(found.previous_snapshot)),
        ("prev_snap_txg", found.previous_snapshot_txg.to_string()),
        ("next_snap_obj", object_number(found.next_snapshot)),
        ("snapnames_zapobj", object_number(found.snapshot_names)),
        ("num_children", found.children.to_string()),
        ("userrefs_obj", object_number(found.holds)),
        ("creation_time", printer.time(found.creation_time)),
        ("creation_txg", found.creation_txg.to_string()),
        ("deadlist_obj", found.deadlist.to_string()),
        ("used_bytes", size(found.referenced_bytes)),
        ("compressed_bytes", size(found.compressed_bytes)),
        ("uncompressed_bytes", size(found.uncompressed_bytes)),
        ("unique", size(found.unique_bytes)),
        ("fsid_guid", found.fsid_guid.to_string()),
        ("guid", found.guid.to_string()),
        ("flags", format!("{:x}", found.flags)),
        ("next_clones_obj", object_number(found.next_clones)),
        ("props_obj", object_number(found.properties)),
        ("bp", pointer::full(&found.block_pointer)),
    ])
}

fn block_list(bonus: &[u8], printer: &Printer) -> Result<Lines, DecodeError> {
    let found = BpobjHeader::decode(bonus)?;
    let size = |bytes| printer.number(bytes);
    let mut lines = vec![
        ("num_blkptrs", found.entries.to_string()),
        ("bytes", size(found.bytes)),
    ];
    // Older lists have shorter headers.
    lines.extend(found.compressed_bytes.map(|bytes| ("comp", size(bytes))));
    lines.extend(
        found
            .uncompressed_bytes
            .map(|bytes| ("uncomp", size(bytes))),
    );
    if bonus.len() >= 48 {
        lines.push(("subobjs", object_number(found.subobjects)));
        lines.push(("num_subobjs", found.subobject_count.to_string()));
        lines.push(("num_freed", found.freed.unwrap_or(0).to_string()));
    }
    Ok(lines)
}

fn history(bonus: &[u8]) -> Result<Lines, DecodeError> {
    let found = HistoryHeader::decode(bonus)?;
    Ok(vec![
        ("pool_create_len", found.creation_end.to_string()),
        ("phys_max_off", found.physical_end.to_string()),
        ("bof", found.begin.to_string()),
        ("eof", found.end.to_string()),
        ("records_lost", found.records_lost.to_string()),
    ])
}
