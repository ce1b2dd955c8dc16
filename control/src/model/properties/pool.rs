//! Properties of pools.

use super::{KindSet, Layout, PropertyInfo, Unit};

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
    row("name", "", "NAME", Unit::Text, Layout::Measured, RO, ""),
    row("size", "", "SIZE", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("capacity", "cap", "CAP", Unit::Percent, Layout::Number(5), RO, "<percent>"),
    row("altroot", "", "ALTROOT", Unit::Text, Layout::Measured, RW, "<path>"),
    row("health", "", "HEALTH", Unit::Text, Layout::Number(8), RO, "<state>"),
    row("guid", "", "GUID", Unit::Exact, Layout::MeasuredNumber, RO, "<guid>"),
    row("version", "", "VERSION", Unit::Text, Layout::Number(5), RW, "<version>"),
    row("bootfs", "", "BOOTFS", Unit::Text, Layout::Measured, RW, "<filesystem>"),
    row("delegation", "", "DELEGATION", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("autoreplace", "replace", "REPLACE", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("cachefile", "", "CACHEFILE", Unit::Text, Layout::Measured, RW, "<file> | none"),
    row("failmode", "", "FAILMODE", Unit::Text, Layout::Words(8), RW, "wait | continue | panic"),
    row("listsnapshots", "listsnaps", "LISTSNAPS", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("autoexpand", "expand", "EXPAND", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("dedupratio", "dedup", "DEDUP", Unit::Ratio, Layout::Number(5), RO, "<1.00x or higher if deduped>"),
    row("free", "", "FREE", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("allocated", "alloc", "ALLOC", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("readonly", "rdonly", "RDONLY", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("ashift", "", "ASHIFT", Unit::Number, Layout::Number(5), RW, "<ashift, 9-16, or 0=default>"),
    row("comment", "", "COMMENT", Unit::Text, Layout::Measured, RW, "<comment-string>"),
    row("expandsize", "expandsz", "EXPANDSZ", Unit::BytesOrDash, Layout::Number(5), RO, "<size>"),
    row("freeing", "", "FREEING", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("fragmentation", "frag", "FRAG", Unit::Percent, Layout::Number(5), RO, "<percent>"),
    row("leaked", "", "LEAKED", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("multihost", "", "MULTIHOST", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("checkpoint", "ckpoint", "CKPOINT", Unit::BytesOrDash, Layout::Number(5), RO, "<size>"),
    row("load_guid", "", "LOAD_GUID", Unit::Exact, Layout::Number(5), RO, "<load_guid>"),
    row("autotrim", "", "AUTOTRIM", Unit::Text, Layout::Words(3), RW, "on | off"),
    row("compatibility", "", "COMPATIBILITY", Unit::Text, Layout::Measured, RW, "<file[,file...]> | off | legacy"),
    row("bcloneused", "", "BCLONE_USED", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("bclonesaved", "", "BCLONE_SAVED", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("bcloneratio", "", "BCLONE_RATIO", Unit::Ratio, Layout::Number(5), RO, "<1.00x or higher if cloned>"),
    row("dedup_table_size", "ddtsize", "DDTSIZE", Unit::Number, Layout::Number(5), RO, "<size>"),
    row("dedup_table_quota", "", "DDTQUOTA", Unit::TableQuota, Layout::Number(5), RW, "<size>"),
    row("last_scrubbed_txg", "", "LAST_SCRUBBED_TXG", Unit::Exact, Layout::Number(5), RO, "<txg>"),
    row("maxblocksize", "", "MAXBLOCKSIZE", Unit::Number, Layout::Number(5), RO, ""),
    row("maxdnodesize", "", "MAXDNODESIZE", Unit::Number, Layout::Number(5), RO, ""),
    row("dedupused", "", "DEDUPUSED", Unit::Number, Layout::Number(5), RO, ""),
    row("dedupsaved", "", "DEDUPSAVED", Unit::Number, Layout::Number(5), RO, ""),
    row("available", "", "AVAIL", Unit::Number, Layout::Number(5), RO, ""),
    row("usable", "", "USABLE", Unit::Number, Layout::Number(5), RO, ""),
    row("used", "", "USED", Unit::Number, Layout::Number(5), RO, ""),
];
