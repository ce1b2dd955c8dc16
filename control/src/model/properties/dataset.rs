//! Properties of file systems, volumes, snapshots and bookmarks.

use super::{KindSet, Layout, PropertyInfo, Unit};
use crate::model::DatasetKind::{Bookmark, Filesystem, Snapshot, Volume};

const FS: KindSet = KindSet::of(Filesystem);
const VOL: KindSet = KindSet::of(Volume);
const SNAP: KindSet = KindSet::of(Snapshot);
const HEADS: KindSet = KindSet::HEADS;
const FILES: KindSet = FS.union(SNAP);
const LIVE: KindSet = HEADS.union(SNAP);
const PAST: KindSet = SNAP.union(KindSet::of(Bookmark));
const ANY: KindSet = KindSet::ALL;

/// Editable, inherited.
type Flags = (bool, bool);
const RO: Flags = (false, false);
const RW: Flags = (true, false);
const RO_INHERIT: Flags = (false, true);
const RW_INHERIT: Flags = (true, true);

#[allow(
    clippy::too_many_arguments,
    reason = "one argument for each column of the table below"
)]
const fn row(
    name: &'static str,
    alias: &'static str,
    header: &'static str,
    kinds: KindSet,
    unit: Unit,
    layout: Layout,
    flags: Flags,
    values: &'static str,
) -> PropertyInfo {
    PropertyInfo {
        name,
        alias,
        header,
        kinds,
        unit,
        layout,
        editable: flags.0,
        inherits: flags.1,
        values,
    }
}

/// The table, in the order of `zfs get all`.
#[rustfmt::skip]
pub const DATASET: &[PropertyInfo] = &[
    row("name", "", "NAME", ANY, Unit::Text, Layout::Measured, RO, ""),
    row("type", "", "TYPE", ANY, Unit::Text, Layout::Words(10), RO, "filesystem | volume | snapshot | bookmark"),
    row("creation", "", "CREATION", ANY, Unit::Date, Layout::Measured, RO, "<date>"),
    row("used", "", "USED", LIVE, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("available", "avail", "AVAIL", HEADS, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("referenced", "refer", "REFER", ANY, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("compressratio", "ratio", "RATIO", ANY, Unit::Ratio, Layout::Number(5), RO, "<1.00x or higher if compressed>"),
    row("mounted", "", "MOUNTED", FS, Unit::Text, Layout::Words(3), RO, "yes | no"),
    row("origin", "", "ORIGIN", HEADS, Unit::Text, Layout::Measured, RO, "<snapshot>"),
    row("quota", "", "QUOTA", FS, Unit::BytesOrNone, Layout::Number(5), RW, "<size> | none"),
    row("reservation", "reserv", "RESERV", HEADS, Unit::BytesOrNone, Layout::Number(5), RW, "<size> | none"),
    row("volsize", "", "VOLSIZE", VOL, Unit::Number, Layout::Number(5), RW, "<size>"),
    row("volblocksize", "volblock", "VOLBLOCK", VOL, Unit::Number, Layout::Number(5), RO_INHERIT, "512 to 128k, power of 2"),
    row("recordsize", "recsize", "RECSIZE", FS, Unit::Number, Layout::Number(5), RW_INHERIT, "512 to 1M, power of 2"),
    row("mountpoint", "", "MOUNTPOINT", FS, Unit::Text, Layout::Measured, RW_INHERIT, "<path> | legacy | none"),
    row("sharenfs", "", "SHARENFS", FS, Unit::Text, Layout::Measured, RW_INHERIT, "on | off | NFS share options"),
    row("checksum", "", "CHECKSUM", HEADS, Unit::Text, Layout::Words(9), RW_INHERIT, "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3"),
    row("compression", "compress", "COMPRESS", HEADS, Unit::Text, Layout::Words(14), RW_INHERIT, "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]"),
    row("atime", "", "ATIME", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("devices", "", "DEVICES", FILES, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("exec", "", "EXEC", FILES, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("setuid", "", "SETUID", FILES, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("readonly", "rdonly", "RDONLY", HEADS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("zoned", "", "ZONED", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("snapdir", "", "SNAPDIR", FS, Unit::Text, Layout::Words(8), RW_INHERIT, "disabled | hidden | visible"),
    row("aclmode", "", "ACLMODE", FS, Unit::Text, Layout::Words(11), RW_INHERIT, "discard | groupmask | passthrough | restricted"),
    row("aclinherit", "", "ACLINHERIT", FS, Unit::Text, Layout::Words(13), RW_INHERIT, "discard | noallow | restricted | passthrough | passthrough-x"),
    row("createtxg", "", "CREATETXG", ANY, Unit::Exact, Layout::Number(5), RO, "<uint64>"),
    row("canmount", "", "CANMOUNT", FS, Unit::Text, Layout::Words(6), RW, "on | off | noauto"),
    row("xattr", "", "XATTR", FILES, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off | dir | sa"),
    row("copies", "", "COPIES", HEADS, Unit::Text, Layout::Words(1), RW_INHERIT, "1 | 2 | 3"),
    row("version", "", "VERSION", FILES, Unit::Text, Layout::Number(5), RW, "1 | 2 | 3 | 4 | 5 | current"),
    row("utf8only", "", "UTF8ONLY", FILES, Unit::Text, Layout::Words(3), RO_INHERIT, "on | off"),
    row("normalization", "", "NORMALIZATION", FILES, Unit::Text, Layout::Words(6), RO_INHERIT, "none | formC | formD | formKC | formKD"),
    row("casesensitivity", "case", "CASE", FILES, Unit::Text, Layout::Words(11), RO_INHERIT, "sensitive | insensitive | mixed"),
    row("vscan", "", "VSCAN", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("nbmand", "", "NBMAND", FILES, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("sharesmb", "", "SHARESMB", FS, Unit::Text, Layout::Measured, RW_INHERIT, "on | off | SMB share options"),
    row("refquota", "", "REFQUOTA", FS, Unit::BytesOrNone, Layout::Number(5), RW, "<size> | none"),
    row("refreservation", "refreserv", "REFRESERV", HEADS, Unit::BytesOrNone, Layout::Number(5), RW, "<size> | none"),
    row("guid", "", "GUID", ANY, Unit::Exact, Layout::MeasuredNumber, RO, "<uint64>"),
    row("primarycache", "", "PRIMARYCACHE", LIVE, Unit::Text, Layout::Words(8), RW_INHERIT, "all | none | metadata"),
    row("secondarycache", "", "SECONDARYCACHE", LIVE, Unit::Text, Layout::Words(8), RW_INHERIT, "all | none | metadata"),
    row("usedbysnapshots", "usedsnap", "USEDSNAP", HEADS, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("usedbydataset", "usedds", "USEDDS", HEADS, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("usedbychildren", "usedchild", "USEDCHILD", HEADS, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("usedbyrefreservation", "usedrefreserv", "USEDREFRESERV", HEADS, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("defer_destroy", "", "DEFER_DESTROY", SNAP, Unit::Text, Layout::Words(3), RO, "yes | no"),
    row("userrefs", "", "USERREFS", SNAP, Unit::Number, Layout::Number(5), RO, "<count>"),
    row("logbias", "", "LOGBIAS", HEADS, Unit::Text, Layout::Words(10), RW_INHERIT, "latency | throughput"),
    row("objsetid", "", "OBJSETID", LIVE, Unit::Exact, Layout::Number(5), RO, "<uint64>"),
    row("dedup", "", "DEDUP", HEADS, Unit::Text, Layout::Words(13), RW_INHERIT, "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | blake3[,verify]"),
    row("mlslabel", "", "MLSLABEL", LIVE, Unit::Text, Layout::Measured, RW_INHERIT, "<sensitivity label>"),
    row("sync", "", "SYNC", HEADS, Unit::Text, Layout::Words(8), RW_INHERIT, "standard | always | disabled"),
    row("dnodesize", "dnsize", "DNSIZE", FS, Unit::Text, Layout::Words(6), RW_INHERIT, "legacy | auto | 1k | 2k | 4k | 8k | 16k"),
    row("refcompressratio", "refratio", "REFRATIO", ANY, Unit::Ratio, Layout::Number(5), RO, "<1.00x or higher if compressed>"),
    row("written", "", "WRITTEN", LIVE, Unit::Bytes, Layout::Number(5), RO, "<size>"),
    row("clones", "", "CLONES", SNAP, Unit::Text, Layout::Measured, RO, "<dataset>[,...]"),
    row("logicalused", "lused", "LUSED", HEADS, Unit::Number, Layout::Number(5), RO, "<size>"),
    row("logicalreferenced", "lrefer", "LREFER", ANY, Unit::Number, Layout::Number(5), RO, "<size>"),
    row("volmode", "", "VOLMODE", HEADS, Unit::Text, Layout::Words(7), RW_INHERIT, "default | full | geom | dev | none"),
    row("filesystem_limit", "fslimit", "FSLIMIT", FS, Unit::LimitOrNone, Layout::Number(5), RW, "<count> | none"),
    row("snapshot_limit", "sslimit", "SSLIMIT", HEADS, Unit::LimitOrNone, Layout::Number(5), RW, "<count> | none"),
    row("filesystem_count", "fscount", "FSCOUNT", FS, Unit::LimitOrNone, Layout::Number(5), RO, "<count>"),
    row("snapshot_count", "sscount", "SSCOUNT", HEADS, Unit::LimitOrNone, Layout::Number(5), RO, "<count>"),
    row("snapdev", "", "SNAPDEV", HEADS, Unit::Text, Layout::Words(7), RW_INHERIT, "hidden | visible"),
    row("acltype", "", "ACLTYPE", FILES, Unit::Text, Layout::Words(8), RW_INHERIT, "off | nfsv4 | posix"),
    row("context", "", "CONTEXT", LIVE, Unit::Text, Layout::Measured, RW, "<selinux context>"),
    row("fscontext", "", "FSCONTEXT", LIVE, Unit::Text, Layout::Measured, RW, "<selinux fscontext>"),
    row("defcontext", "", "DEFCONTEXT", LIVE, Unit::Text, Layout::Measured, RW, "<selinux defcontext>"),
    row("rootcontext", "", "ROOTCONTEXT", LIVE, Unit::Text, Layout::Measured, RW, "<selinux rootcontext>"),
    row("relatime", "", "RELATIME", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("redundant_metadata", "redund_md", "REDUND_MD", HEADS, Unit::Text, Layout::Words(4), RW_INHERIT, "all | most | some | none"),
    row("overlay", "", "OVERLAY", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("receive_resume_token", "", "RESUMETOK", HEADS, Unit::Text, Layout::Measured, RO, "<string token>"),
    row("encryption", "", "ENCRYPTION", LIVE, Unit::Text, Layout::Words(11), RO_INHERIT, "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | aes-256-gcm"),
    row("keylocation", "", "KEYLOCATION", HEADS, Unit::Text, Layout::Measured, RW, "prompt | <file URI> | <https URL> | <http URL>"),
    row("keyformat", "", "KEYFORMAT", HEADS, Unit::Text, Layout::Words(10), RO, "none | raw | hex | passphrase"),
    row("pbkdf2iters", "", "PBKDF2ITERS", HEADS, Unit::Exact, Layout::Number(5), RO, "<iters>"),
    row("encryptionroot", "encroot", "ENCROOT", LIVE, Unit::Text, Layout::Measured, RO, "<filesystem | volume>"),
    row("keystatus", "", "KEYSTATUS", LIVE, Unit::Text, Layout::Words(11), RO, "none | unavailable | available"),
    row("special_small_blocks", "", "SPECIAL_SMALL_BLOCKS", FS, Unit::Number, Layout::Number(5), RW_INHERIT, "zero or 512 to 1M, power of 2"),
    row("redact_snaps", "", "RSNAPS", PAST, Unit::Text, Layout::Measured, RO, "<snapshot>[,...]"),
    row("snapshots_changed", "", "SNAPSHOTS_CHANGED", HEADS, Unit::DateSeconds, Layout::Measured, RO, "<date>"),
    row("prefetch", "", "PREFETCH", LIVE, Unit::Text, Layout::Words(8), RW_INHERIT, "none | metadata | all"),
    row("volthreading", "", "zvol threading", VOL, Unit::Text, Layout::Words(3), RW, "on | off"),
    row("direct", "", "DIRECT", FS, Unit::Text, Layout::Words(8), RW_INHERIT, "disabled | standard | always"),
    row("longname", "", "LONGNAME", FS, Unit::Text, Layout::Words(3), RW_INHERIT, "on | off"),
    row("defaultuserquota", "", "DEFAULTUSERQUOTA", FS, Unit::BytesOrNone, Layout::Number(5), RO, ""),
    row("defaultgroupquota", "", "DEFAULTGROUPQUOTA", FS, Unit::BytesOrNone, Layout::Number(5), RO, ""),
    row("defaultprojectquota", "", "DEFAULTPROJECTQUOTA", FS, Unit::BytesOrNone, Layout::Number(5), RO, ""),
    row("defaultuserobjquota", "", "DEFAULTUSEROBJQUOTA", FS, Unit::Number, Layout::Number(5), RO, ""),
    row("defaultgroupobjquota", "", "DEFAULTGROUPOBJQUOTA", FS, Unit::Number, Layout::Number(5), RO, ""),
    row("defaultprojectobjquota", "", "DEFAULTPROJECTOBJQUOTA", FS, Unit::Number, Layout::Number(5), RO, ""),
    row("snapshots_changed_nsecs", "", "SNAPSHOTS_CHANGED_NSECS", HEADS, Unit::Exact, Layout::Number(5), RO, ""),
    row("zoned_uid", "", "ZONED_UID", FS, Unit::Exact, Layout::Number(5), RO, ""),
];
