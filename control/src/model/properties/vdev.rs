//! Properties of vdevs.

use super::info::{Layout, PropertyInfo, Unit};
use crate::model::dataset::KindSet;

const fn row(name: &'static str, header: &'static str, unit: Unit, layout: Layout) -> PropertyInfo {
    PropertyInfo {
        name,
        alias: "",
        header,
        kinds: KindSet::ALL,
        unit,
        layout,
        editable: false,
        inherits: false,
        values: "",
    }
}

/// One that `zpool set` takes; the values are for help and suggestions.
const fn settable(info: PropertyInfo, values: &'static str) -> PropertyInfo {
    PropertyInfo {
        editable: true,
        values,
        ..info
    }
}

/// The table, in the order of `zpool get all POOL VDEV`; user properties follow it there.
#[rustfmt::skip]
pub const VDEV: &[PropertyInfo] = &[
    row("name", "NAME", Unit::Text, Layout::Measured),
    row("capacity", "CAP", Unit::Percent, Layout::Number(5)),
    row("state", "STATE", Unit::Text, Layout::Words(8)),
    row("guid", "GUID", Unit::Exact, Layout::MeasuredNumber),
    row("asize", "ASIZE", Unit::Number, Layout::Number(5)),
    row("psize", "PSIZE", Unit::Number, Layout::Number(5)),
    row("ashift", "ASHIFT", Unit::Number, Layout::Number(5)),
    row("size", "SIZE", Unit::Number, Layout::Number(5)),
    row("free", "FREE", Unit::Number, Layout::Number(5)),
    row("allocated", "ALLOC", Unit::Number, Layout::Number(5)),
    settable(row("comment", "COMMENT", Unit::Text, Layout::Measured), "<comment-string>"),
    row("expandsize", "EXPANDSZ", Unit::BytesOrDash, Layout::Number(5)),
    row("fragmentation", "FRAG", Unit::Percent, Layout::Number(5)),
    row("bootsize", "BOOTSIZE", Unit::Number, Layout::Number(5)),
    row("parity", "PARITY", Unit::Number, Layout::Number(5)),
    settable(row("path", "PATH", Unit::Text, Layout::Measured), "<path>"),
    row("devid", "DEVID", Unit::Text, Layout::Measured),
    row("physpath", "PHYSPATH", Unit::Text, Layout::Measured),
    row("encpath", "ENCPATH", Unit::Text, Layout::Measured),
    row("fru", "FRU", Unit::Text, Layout::Measured),
    row("parent", "PARENT", Unit::Text, Layout::Measured),
    row("children", "CHILDREN", Unit::Text, Layout::Measured),
    row("numchildren", "NUMCHILD", Unit::Number, Layout::Number(5)),
    row("read_errors", "RDERR", Unit::Number, Layout::Number(5)),
    row("write_errors", "WRERR", Unit::Number, Layout::Number(5)),
    row("checksum_errors", "CKERR", Unit::Number, Layout::Number(5)),
    row("initialize_errors", "INITERR", Unit::Number, Layout::Number(5)),
    row("null_ops", "NULL_OPS", Unit::Number, Layout::Number(5)),
    row("read_ops", "READ_OPS", Unit::Number, Layout::Number(5)),
    row("write_ops", "WRITE_OPS", Unit::Number, Layout::Number(5)),
    row("free_ops", "FREE_OPS", Unit::Number, Layout::Number(5)),
    row("claim_ops", "CLAIM_OPS", Unit::Number, Layout::Number(5)),
    row("trim_ops", "TRIM_OPS", Unit::Number, Layout::Number(5)),
    row("null_bytes", "NULL_BYTES", Unit::Number, Layout::Number(5)),
    row("read_bytes", "READ_BYTES", Unit::Number, Layout::Number(5)),
    row("write_bytes", "WRITE_BYTES", Unit::Number, Layout::Number(5)),
    row("free_bytes", "FREE_BYTES", Unit::Number, Layout::Number(5)),
    row("claim_bytes", "CLAIM_BYTES", Unit::Number, Layout::Number(5)),
    row("trim_bytes", "TRIM_BYTES", Unit::Number, Layout::Number(5)),
    row("removing", "REMOVING", Unit::Text, Layout::Words(3)),
    settable(row("allocating", "ALLOCATING", Unit::Text, Layout::Words(3)), "on | off"),
    settable(row("failfast", "FAILFAST", Unit::Text, Layout::Words(3)), "on | off"),
    settable(row("checksum_n", "CKSUM_N", Unit::Exact, Layout::Number(5)), "<events> | none"),
    settable(row("checksum_t", "CKSUM_T", Unit::Exact, Layout::Number(5)), "<seconds> | none"),
    settable(row("io_n", "IO_N", Unit::Exact, Layout::Number(5)), "<events> | none"),
    settable(row("io_t", "IO_T", Unit::Exact, Layout::Number(5)), "<seconds> | none"),
    row("raidz_expanding", "RAIDZ_EXPANDING", Unit::Text, Layout::Words(3)),
    settable(row("slow_io_n", "SLOW_IO_N", Unit::Exact, Layout::Number(5)), "<events> | none"),
    settable(row("slow_io_t", "SLOW_IO_T", Unit::Exact, Layout::Number(5)), "<seconds> | none"),
    row("trim_support", "TRIMSUP", Unit::Text, Layout::Words(3)),
    row("trim_errors", "TRIMERR", Unit::Number, Layout::Number(5)),
    row("slow_ios", "SLOW", Unit::Number, Layout::Number(5)),
    settable(row("sit_out", "SIT_OUT", Unit::Text, Layout::Words(3)), "on | off"),
    settable(row("autosit", "AUTOSIT", Unit::Text, Layout::Words(3)), "on | off"),
];
