//! Properties of file systems, volumes, snapshots and bookmarks.

use super::info::Unit::{
    Bytes, BytesOrNone, Date, DateSeconds, Exact, LimitOrNone, Number, Ratio, Text,
};
use super::info::{Layout, PropertyInfo, Unit};
use crate::model::DatasetKind::{Bookmark, Filesystem, Snapshot, Volume};
use crate::model::dataset::KindSet;

const FS: KindSet = KindSet::of(Filesystem);
const VOL: KindSet = KindSet::of(Volume);
const SNAP: KindSet = KindSet::of(Snapshot);
const HEADS: KindSet = KindSet::HEADS;
const FILES: KindSet = FS.union(SNAP);
const LIVE: KindSet = HEADS.union(SNAP);
const PAST: KindSet = SNAP.union(KindSet::of(Bookmark));
const ANY: KindSet = KindSet::ALL;

const LEFT: Layout = Layout::Measured;
const RIGHT: Layout = Layout::Number(5);
const EXACT: Layout = Layout::MeasuredNumber;

/// Left aligned, room for the longest word of an index.
const fn words(longest: usize) -> Layout {
    Layout::Words(longest)
}

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
    row("name", "", "NAME", ANY, Text, LEFT, RO, ""),
    row("type", "", "TYPE", ANY, Text, words(10), RO, "filesystem | volume | snapshot | bookmark"),
    row("creation", "", "CREATION", ANY, Date, LEFT, RO, "<date>"),
    row("used", "", "USED", LIVE, Bytes, RIGHT, RO, "<size>"),
    row("available", "avail", "AVAIL", HEADS, Bytes, RIGHT, RO, "<size>"),
    row("referenced", "refer", "REFER", ANY, Bytes, RIGHT, RO, "<size>"),
    row("compressratio", "ratio", "RATIO", ANY, Ratio, RIGHT, RO,
        "<1.00x or higher if compressed>"),
    row("mounted", "", "MOUNTED", FS, Text, words(3), RO, "yes | no"),
    row("origin", "", "ORIGIN", HEADS, Text, LEFT, RO, "<snapshot>"),
    row("quota", "", "QUOTA", FS, BytesOrNone, RIGHT, RW, "<size> | none"),
    row("reservation", "reserv", "RESERV", HEADS, BytesOrNone, RIGHT, RW, "<size> | none"),
    row("volsize", "", "VOLSIZE", VOL, Number, RIGHT, RW, "<size>"),
    row("volblocksize", "volblock", "VOLBLOCK", VOL, Number, RIGHT, RO_INHERIT,
        "512 to 128k, power of 2"),
    row("recordsize", "recsize", "RECSIZE", FS, Number, RIGHT, RW_INHERIT, "512 to 1M, power of 2"),
    row("mountpoint", "", "MOUNTPOINT", FS, Text, LEFT, RW_INHERIT, "<path> | legacy | none"),
    row("sharenfs", "", "SHARENFS", FS, Text, LEFT, RW_INHERIT, "on | off | NFS share options"),
    row("checksum", "", "CHECKSUM", HEADS, Text, words(9), RW_INHERIT,
        "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3"),
    row("compression", "compress", "COMPRESS", HEADS, Text, words(14), RW_INHERIT,
        "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | \
         zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]"),
    row("atime", "", "ATIME", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("devices", "", "DEVICES", FILES, Text, words(3), RW_INHERIT, "on | off"),
    row("exec", "", "EXEC", FILES, Text, words(3), RW_INHERIT, "on | off"),
    row("setuid", "", "SETUID", FILES, Text, words(3), RW_INHERIT, "on | off"),
    row("readonly", "rdonly", "RDONLY", HEADS, Text, words(3), RW_INHERIT, "on | off"),
    row("zoned", "", "ZONED", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("snapdir", "", "SNAPDIR", FS, Text, words(8), RW_INHERIT, "disabled | hidden | visible"),
    row("aclmode", "", "ACLMODE", FS, Text, words(11), RW_INHERIT,
        "discard | groupmask | passthrough | restricted"),
    row("aclinherit", "", "ACLINHERIT", FS, Text, words(13), RW_INHERIT,
        "discard | noallow | restricted | passthrough | passthrough-x"),
    row("createtxg", "", "CREATETXG", ANY, Exact, RIGHT, RO, "<uint64>"),
    row("canmount", "", "CANMOUNT", FS, Text, words(6), RW, "on | off | noauto"),
    row("xattr", "", "XATTR", FILES, Text, words(3), RW_INHERIT, "on | off | dir | sa"),
    row("copies", "", "COPIES", HEADS, Text, words(1), RW_INHERIT, "1 | 2 | 3"),
    row("version", "", "VERSION", FILES, Text, RIGHT, RW, "1 | 2 | 3 | 4 | 5 | current"),
    row("utf8only", "", "UTF8ONLY", FILES, Text, words(3), RO_INHERIT, "on | off"),
    row("normalization", "", "NORMALIZATION", FILES, Text, words(6), RO_INHERIT,
        "none | formC | formD | formKC | formKD"),
    row("casesensitivity", "case", "CASE", FILES, Text, words(11), RO_INHERIT,
        "sensitive | insensitive | mixed"),
    row("vscan", "", "VSCAN", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("nbmand", "", "NBMAND", FILES, Text, words(3), RW_INHERIT, "on | off"),
    row("sharesmb", "", "SHARESMB", FS, Text, LEFT, RW_INHERIT, "on | off | SMB share options"),
    row("refquota", "", "REFQUOTA", FS, BytesOrNone, RIGHT, RW, "<size> | none"),
    row("refreservation", "refreserv", "REFRESERV", HEADS, BytesOrNone, RIGHT, RW, "<size> | none"),
    row("guid", "", "GUID", ANY, Exact, EXACT, RO, "<uint64>"),
    row("primarycache", "", "PRIMARYCACHE", LIVE, Text, words(8), RW_INHERIT,
        "all | none | metadata"),
    row("secondarycache", "", "SECONDARYCACHE", LIVE, Text, words(8), RW_INHERIT,
        "all | none | metadata"),
    row("usedbysnapshots", "usedsnap", "USEDSNAP", HEADS, Bytes, RIGHT, RO, "<size>"),
    row("usedbydataset", "usedds", "USEDDS", HEADS, Bytes, RIGHT, RO, "<size>"),
    row("usedbychildren", "usedchild", "USEDCHILD", HEADS, Bytes, RIGHT, RO, "<size>"),
    row("usedbyrefreservation", "usedrefreserv", "USEDREFRESERV", HEADS, Bytes, RIGHT, RO,
        "<size>"),
    row("defer_destroy", "", "DEFER_DESTROY", SNAP, Text, words(3), RO, "yes | no"),
    row("userrefs", "", "USERREFS", SNAP, Number, RIGHT, RO, "<count>"),
    row("logbias", "", "LOGBIAS", HEADS, Text, words(10), RW_INHERIT, "latency | throughput"),
    row("objsetid", "", "OBJSETID", LIVE, Exact, RIGHT, RO, "<uint64>"),
    row("dedup", "", "DEDUP", HEADS, Text, words(13), RW_INHERIT,
        "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | \
         blake3[,verify]"),
    row("mlslabel", "", "MLSLABEL", LIVE, Text, LEFT, RW_INHERIT, "<sensitivity label>"),
    row("sync", "", "SYNC", HEADS, Text, words(8), RW_INHERIT, "standard | always | disabled"),
    row("dnodesize", "dnsize", "DNSIZE", FS, Text, words(6), RW_INHERIT,
        "legacy | auto | 1k | 2k | 4k | 8k | 16k"),
    row("refcompressratio", "refratio", "REFRATIO", ANY, Ratio, RIGHT, RO,
        "<1.00x or higher if compressed>"),
    row("written", "", "WRITTEN", LIVE, Number, RIGHT, RO, "<size>"),
    row("clones", "", "CLONES", SNAP, Text, LEFT, RO, "<dataset>[,...]"),
    row("logicalused", "lused", "LUSED", HEADS, Number, RIGHT, RO, "<size>"),
    row("logicalreferenced", "lrefer", "LREFER", ANY, Number, RIGHT, RO, "<size>"),
    row("volmode", "", "VOLMODE", HEADS, Text, words(7), RW_INHERIT,
        "default | full | geom | dev | none"),
    row("filesystem_limit", "fslimit", "FSLIMIT", FS, LimitOrNone, RIGHT, RW, "<count> | none"),
    row("snapshot_limit", "sslimit", "SSLIMIT", HEADS, LimitOrNone, RIGHT, RW, "<count> | none"),
    row("filesystem_count", "fscount", "FSCOUNT", FS, LimitOrNone, RIGHT, RO, "<count>"),
    row("snapshot_count", "sscount", "SSCOUNT", HEADS, LimitOrNone, RIGHT, RO, "<count>"),
    row("snapdev", "", "SNAPDEV", HEADS, Text, words(7), RW_INHERIT, "hidden | visible"),
    row("acltype", "", "ACLTYPE", FILES, Text, words(8), RW_INHERIT, "off | nfsv4 | posix"),
    row("context", "", "CONTEXT", LIVE, Text, LEFT, RW, "<selinux context>"),
    row("fscontext", "", "FSCONTEXT", LIVE, Text, LEFT, RW, "<selinux fscontext>"),
    row("defcontext", "", "DEFCONTEXT", LIVE, Text, LEFT, RW, "<selinux defcontext>"),
    row("rootcontext", "", "ROOTCONTEXT", LIVE, Text, LEFT, RW, "<selinux rootcontext>"),
    row("relatime", "", "RELATIME", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("redundant_metadata", "redund_md", "REDUND_MD", HEADS, Text, words(4), RW_INHERIT,
        "all | most | some | none"),
    row("overlay", "", "OVERLAY", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("receive_resume_token", "", "RESUMETOK", HEADS, Text, LEFT, RO, "<string token>"),
    row("encryption", "", "ENCRYPTION", LIVE, Text, words(11), RO_INHERIT,
        "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | \
         aes-256-gcm"),
    row("keylocation", "", "KEYLOCATION", HEADS, Text, LEFT, RW,
        "prompt | <file URI> | <https URL> | <http URL>"),
    row("keyformat", "", "KEYFORMAT", HEADS, Text, words(10), RO, "none | raw | hex | passphrase"),
    row("pbkdf2iters", "", "PBKDF2ITERS", HEADS, Exact, RIGHT, RO, "<iters>"),
    row("encryptionroot", "encroot", "ENCROOT", LIVE, Text, LEFT, RO, "<filesystem | volume>"),
    row("keystatus", "", "KEYSTATUS", LIVE, Text, words(11), RO, "none | unavailable | available"),
    row("special_small_blocks", "", "SPECIAL_SMALL_BLOCKS", FS, Number, RIGHT, RW_INHERIT,
        "zero or 512 to 1M, power of 2"),
    row("redact_snaps", "", "RSNAPS", PAST, Text, LEFT, RO, "<snapshot>[,...]"),
    row("snapshots_changed", "", "SNAPSHOTS_CHANGED", HEADS, DateSeconds, LEFT, RO, "<date>"),
    row("prefetch", "", "PREFETCH", LIVE, Text, words(8), RW_INHERIT, "none | metadata | all"),
    row("volthreading", "", "zvol threading", VOL, Text, words(3), RW, "on | off"),
    row("direct", "", "DIRECT", FS, Text, words(8), RW_INHERIT, "disabled | standard | always"),
    row("longname", "", "LONGNAME", FS, Text, words(3), RW_INHERIT, "on | off"),
    row("defaultuserquota", "", "DEFAULTUSERQUOTA", FS, BytesOrNone, RIGHT, RO, ""),
    row("defaultgroupquota", "", "DEFAULTGROUPQUOTA", FS, BytesOrNone, RIGHT, RO, ""),
    row("defaultprojectquota", "", "DEFAULTPROJECTQUOTA", FS, BytesOrNone, RIGHT, RO, ""),
    row("defaultuserobjquota", "", "DEFAULTUSEROBJQUOTA", FS, Number, RIGHT, RO, ""),
    row("defaultgroupobjquota", "", "DEFAULTGROUPOBJQUOTA", FS, Number, RIGHT, RO, ""),
    row("defaultprojectobjquota", "", "DEFAULTPROJECTOBJQUOTA", FS, Number, RIGHT, RO, ""),
    row("snapshots_changed_nsecs", "", "SNAPSHOTS_CHANGED_NSECS", HEADS, Exact, RIGHT, RO, ""),
    row("zoned_uid", "", "ZONED_UID", FS, Exact, RIGHT, RO, ""),
    // Shown only if it is requested.
    row("inconsistent", "", "INCONSISTENT", LIVE, Exact, RIGHT, RO, ""),
];
