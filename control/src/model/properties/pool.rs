//! Properties of pools.

use super::info::Unit::{BytesOrDash, Exact, Number, Percent, Ratio, TableQuota, Text};
use super::info::{Layout, PropertyInfo, Unit};
use crate::model::dataset::KindSet;

const LEFT: Layout = Layout::Measured;
const RIGHT: Layout = Layout::Number(5);
const RO: bool = false;
const RW: bool = true;

const fn row(
    name: &'static str,
    alias: &'static str,
    header: &'static str,
    unit: Unit,
    layout: Layout,
    editable: bool,
    values: &'static str,
) -> PropertyInfo {
    PropertyInfo {
        name,
        alias,
        header,
        kinds: KindSet::ALL,
        unit,
        layout,
        editable,
        inherits: false,
        values,
    }
}

/// The table, in the order of `zpool get all`; features and user properties follow it there.
#[rustfmt::skip]
pub const POOL: &[PropertyInfo] = &[
    row("name", "", "NAME", Text, LEFT, RO, ""),
    row("size", "", "SIZE", Number, RIGHT, RO, "<size>"),
    row("capacity", "cap", "CAP", Percent, RIGHT, RO, "<percent>"),
    row("altroot", "", "ALTROOT", Text, LEFT, RW, "<path>"),
    row("health", "", "HEALTH", Text, Layout::Number(8), RO, "<state>"),
    row("guid", "", "GUID", Exact, Layout::MeasuredNumber, RO, "<guid>"),
    row("version", "", "VERSION", Text, RIGHT, RW, "<version>"),
    row("bootfs", "", "BOOTFS", Text, LEFT, RW, "<filesystem>"),
    row("delegation", "", "DELEGATION", Text, Layout::Words(3), RW, "on | off"),
    row("autoreplace", "replace", "REPLACE", Text, Layout::Words(3), RW, "on | off"),
    row("cachefile", "", "CACHEFILE", Text, LEFT, RW, "<file> | none"),
    row("failmode", "", "FAILMODE", Text, Layout::Words(8), RW, "wait | continue | panic"),
    row("listsnapshots", "listsnaps", "LISTSNAPS", Text, Layout::Words(3), RW, "on | off"),
    row("autoexpand", "expand", "EXPAND", Text, Layout::Words(3), RW, "on | off"),
    row("dedupratio", "dedup", "DEDUP", Ratio, RIGHT, RO, "<1.00x or higher if deduped>"),
    row("free", "", "FREE", Number, RIGHT, RO, "<size>"),
    row("allocated", "alloc", "ALLOC", Number, RIGHT, RO, "<size>"),
    row("readonly", "rdonly", "RDONLY", Text, Layout::Words(3), RW, "on | off"),
    row("ashift", "", "ASHIFT", Number, RIGHT, RW, "<ashift, 9-16, or 0=default>"),
    row("comment", "", "COMMENT", Text, LEFT, RW, "<comment-string>"),
    row("expandsize", "expandsz", "EXPANDSZ", BytesOrDash, RIGHT, RO, "<size>"),
    row("freeing", "", "FREEING", Number, RIGHT, RO, "<size>"),
    row("fragmentation", "frag", "FRAG", Percent, RIGHT, RO, "<percent>"),
    row("leaked", "", "LEAKED", Number, RIGHT, RO, "<size>"),
    row("multihost", "", "MULTIHOST", Text, Layout::Words(3), RW, "on | off"),
    row("checkpoint", "ckpoint", "CKPOINT", BytesOrDash, RIGHT, RO, "<size>"),
    row("load_guid", "", "LOAD_GUID", Exact, RIGHT, RO, "<load_guid>"),
    row("autotrim", "", "AUTOTRIM", Text, Layout::Words(3), RW, "on | off"),
    row("compatibility", "", "COMPATIBILITY", Text, LEFT, RW, "<file[,file...]> | off | legacy"),
    row("bcloneused", "", "BCLONE_USED", Number, RIGHT, RO, "<size>"),
    row("bclonesaved", "", "BCLONE_SAVED", Number, RIGHT, RO, "<size>"),
    row("bcloneratio", "", "BCLONE_RATIO", Ratio, RIGHT, RO, "<1.00x or higher if cloned>"),
    row("dedup_table_size", "ddtsize", "DDTSIZE", Number, RIGHT, RO, "<size>"),
    row("dedup_table_quota", "", "DDTQUOTA", TableQuota, RIGHT, RW, "<size>"),
    row("last_scrubbed_txg", "", "LAST_SCRUBBED_TXG", Exact, RIGHT, RO, "<txg>"),
    row("maxblocksize", "", "MAXBLOCKSIZE", Number, RIGHT, RO, ""),
    row("maxdnodesize", "", "MAXDNODESIZE", Number, RIGHT, RO, ""),
    row("dedupused", "", "DEDUPUSED", Number, RIGHT, RO, ""),
    row("dedupsaved", "", "DEDUPSAVED", Number, RIGHT, RO, ""),
    row("available", "", "AVAIL", Number, RIGHT, RO, ""),
    row("usable", "", "USABLE", Number, RIGHT, RO, ""),
    row("used", "", "USED", Number, RIGHT, RO, ""),
];
