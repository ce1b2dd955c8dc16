//! The table of all dataset properties.
//!
//! Sources: format/3c 5 for defaults and stored values, cli/contract-zfs 3 for which kinds of
//! dataset have which property and for the order of `zfs get all`, which is the order here. The
//! properties behind [`Property::LAST_LISTED`] can be asked for by name and are never listed.

use super::words::{self, Words};

/// Which kinds of dataset a property applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// File systems.
    pub const FILESYSTEM: Self = Self(1);
    /// Volumes.
    pub const VOLUME: Self = Self(2);
    /// Snapshots of the other kinds in the set, or of both.
    pub const SNAPSHOT: Self = Self(4);
    /// Bookmarks.
    pub const BOOKMARK: Self = Self(8);

    /// Whether all kinds of `other` are in.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the property applies to a head (`snapshot` false) or snapshot of `head` kind.
    pub fn applies(self, head: Self, snapshot: bool) -> bool {
        if !snapshot {
            return self.contains(head);
        }
        let any_head = self.0 & (Self::FILESYSTEM.0 | Self::VOLUME.0) == 0;
        self.contains(Self::SNAPSHOT) && (any_head || self.contains(head))
    }
}

const F: Kinds = Kinds(1);
const V: Kinds = Kinds(2);
const S: Kinds = Kinds(4);
const FV: Kinds = Kinds(3);
const FS: Kinds = Kinds(5);
const VS: Kinds = Kinds(6);
const FVS: Kinds = Kinds(7);
const SB: Kinds = Kinds(12);
const FVSB: Kinds = Kinds(15);

/// Whether a property can be set, and to which datasets it then applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Computed, never set.
    ReadOnly,
    /// Set for one dataset.
    PerDataset,
    /// Set for a dataset and all below it.
    Inheritable,
    /// Set when the dataset is made and never after.
    AtCreation,
}

/// How a value is stored and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A number.
    Number,
    /// A number that is written as a word.
    Index(Words),
    /// Words.
    Text,
}

/// The default value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// Nothing.
    None,
    /// A number, or the index of a word.
    Number(u64),
    /// Words.
    Text(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct PropertyInfo {
    /// The property.
    pub property: Property,
    /// Its full name.
    pub name: &'static str,
    /// The kinds of datasets that have it.
    pub kinds: Kinds,
    /// Whether it can be set, and where.
    pub class: Class,
    /// How it is written.
    pub format: Format,
    /// What it is when unset.
    pub default: Unset,
}

macro_rules! properties {
    ($($variant:ident $name:literal $kinds:ident $class:ident $format:expr, $default:expr;)*) => {
        /// A dataset property.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the table gives each variant's name")]
        pub enum Property { $($variant),* }

        /// All properties in the order of `zfs get all`, then those that are never listed.
        pub const TABLE: &[PropertyInfo] = &[$(PropertyInfo {
            property: Property::$variant,
            name: $name,
            kinds: $kinds,
            class: Class::$class,
            format: $format,
            default: $default,
        }),*];
    };
}

use Format::{Index, Number, Text};
use Unset::{None as Nothing, Number as N, Text as T};

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

const ON: Unset = N(1);
const OFF: Unset = N(0);

properties! {
    Type "type" FVSB ReadOnly Text, Nothing;
    Creation "creation" FVSB ReadOnly Number, Nothing;
    Used "used" FVS ReadOnly Number, Nothing;
    Available "available" FV ReadOnly Number, Nothing;
    Referenced "referenced" FVSB ReadOnly Number, Nothing;
    CompressRatio "compressratio" FVS ReadOnly Number, Nothing;
    Mounted "mounted" F ReadOnly Index(words::YES_NO), Nothing;
    Origin "origin" FV ReadOnly Text, Nothing;
    Quota "quota" F PerDataset Number, N(0);
    Reservation "reservation" FV PerDataset Number, N(0);
    VolumeSize "volsize" VS PerDataset Number, Nothing;
    VolumeBlockSize "volblocksize" V AtCreation Number, N(16384);
    RecordSize "recordsize" F Inheritable Number, N(131072);
    MountPoint "mountpoint" F Inheritable Text, T("/");
    ShareNfs "sharenfs" F Inheritable Text, T("off");
    Checksum "checksum" FV Inheritable Index(words::CHECKSUM), N(1);
    Compression "compression" FV Inheritable Index(words::COMPRESSION), N(1);
    Atime "atime" F Inheritable Index(words::BOOLEAN), ON;
    Devices "devices" FS Inheritable Index(words::BOOLEAN), ON;
    Exec "exec" FS Inheritable Index(words::BOOLEAN), ON;
    Setuid "setuid" FS Inheritable Index(words::BOOLEAN), ON;
    ReadOnly "readonly" FV Inheritable Index(words::BOOLEAN), OFF;
    Zoned "zoned" F Inheritable Index(words::BOOLEAN), OFF;
    SnapDir "snapdir" F Inheritable Index(words::SNAP_DIR), N(0);
    AclMode "aclmode" F Inheritable Index(words::ACL_MODE), N(0);
    AclInherit "aclinherit" F Inheritable Index(words::ACL_INHERIT), N(4);
    CreateTxg "createtxg" FVSB ReadOnly Number, Nothing;
    CanMount "canmount" F PerDataset Index(words::CAN_MOUNT), N(1);
    Xattr "xattr" FS Inheritable Index(words::XATTR), N(2);
    Copies "copies" FV Inheritable Number, N(1);
    Version "version" FS PerDataset Number, Nothing;
    Utf8Only "utf8only" FS AtCreation Index(words::BOOLEAN), OFF;
    Normalization "normalization" FS AtCreation Index(words::NORMALIZATION), N(0);
    CaseSensitivity "casesensitivity" FS AtCreation Index(words::CASE), N(0);
    VirusScan "vscan" F Inheritable Index(words::BOOLEAN), OFF;
    Nbmand "nbmand" FS Inheritable Index(words::BOOLEAN), OFF;
    ShareSmb "sharesmb" F Inheritable Text, T("off");
    RefQuota "refquota" F PerDataset Number, N(0);
    RefReservation "refreservation" FV PerDataset Number, N(0);
    Guid "guid" FVSB ReadOnly Number, Nothing;
    PrimaryCache "primarycache" FVS Inheritable Index(words::CACHE), N(2);
    SecondaryCache "secondarycache" FVS Inheritable Index(words::CACHE), N(2);
    UsedBySnapshots "usedbysnapshots" FV ReadOnly Number, Nothing;
    UsedByDataset "usedbydataset" FV ReadOnly Number, Nothing;
    UsedByChildren "usedbychildren" FV ReadOnly Number, Nothing;
    UsedByRefReservation "usedbyrefreservation" FV ReadOnly Number, Nothing;
    DeferDestroy "defer_destroy" S ReadOnly Index(words::BOOLEAN), Nothing;
    UserRefs "userrefs" S ReadOnly Number, Nothing;
    LogBias "logbias" FV Inheritable Index(words::LOG_BIAS), N(0);
    ObjsetId "objsetid" FVS ReadOnly Number, Nothing;
    Dedup "dedup" FV Inheritable Index(words::DEDUP), N(2);
    MlsLabel "mlslabel" FVS Inheritable Text, T("none");
    Sync "sync" FV Inheritable Index(words::SYNC), N(0);
    DnodeSize "dnodesize" F Inheritable Index(words::DNODE_SIZE), N(0);
    RefCompressRatio "refcompressratio" FVS ReadOnly Number, Nothing;
    Written "written" FVS ReadOnly Number, Nothing;
    Clones "clones" S ReadOnly Text, Nothing;
    LogicalUsed "logicalused" FV ReadOnly Number, Nothing;
    LogicalReferenced "logicalreferenced" FVSB ReadOnly Number, Nothing;
    VolumeMode "volmode" FV Inheritable Index(words::VOLUME_MODE), N(0);
    FilesystemLimit "filesystem_limit" F PerDataset Number, N(UNLIMITED);
    SnapshotLimit "snapshot_limit" FV PerDataset Number, N(UNLIMITED);
    FilesystemCount "filesystem_count" F ReadOnly Number, N(UNLIMITED);
    SnapshotCount "snapshot_count" FV ReadOnly Number, N(UNLIMITED);
    SnapDev "snapdev" FV Inheritable Index(words::SNAP_DEV), N(0);
    AclType "acltype" FS Inheritable Index(words::ACL_TYPE), N(0);
    Context "context" FVS PerDataset Text, T("none");
    FsContext "fscontext" FVS PerDataset Text, T("none");
    DefContext "defcontext" FVS PerDataset Text, T("none");
    RootContext "rootcontext" FVS PerDataset Text, T("none");
    Relatime "relatime" F Inheritable Index(words::BOOLEAN), ON;
    RedundantMetadata "redundant_metadata" FV Inheritable Index(words::REDUNDANT_METADATA), N(0);
    Overlay "overlay" F Inheritable Index(words::BOOLEAN), ON;
    ReceiveResumeToken "receive_resume_token" FV ReadOnly Text, Nothing;
    Encryption "encryption" FVS AtCreation Index(words::ENCRYPTION), N(2);
    KeyLocation "keylocation" FV PerDataset Text, T("none");
    KeyFormat "keyformat" FV AtCreation Index(words::KEY_FORMAT), N(0);
    Pbkdf2Iters "pbkdf2iters" FV AtCreation Number, N(0);
    EncryptionRoot "encryptionroot" FVS ReadOnly Text, Nothing;
    KeyStatus "keystatus" FVS ReadOnly Index(words::KEY_STATUS), Nothing;
    SpecialSmallBlocks "special_small_blocks" F Inheritable Number, N(0);
    RedactSnaps "redact_snaps" SB ReadOnly Text, Nothing;
    SnapshotsChanged "snapshots_changed" FV ReadOnly Number, Nothing;
    Prefetch "prefetch" FVS Inheritable Index(words::CACHE), N(2);
    VolumeThreading "volthreading" V PerDataset Index(words::BOOLEAN), ON;
    Direct "direct" F Inheritable Index(words::DIRECT), N(1);
    LongName "longname" F Inheritable Index(words::BOOLEAN), OFF;
    DefaultUserQuota "defaultuserquota" F PerDataset Number, Nothing;
    DefaultGroupQuota "defaultgroupquota" F PerDataset Number, Nothing;
    DefaultProjectQuota "defaultprojectquota" F PerDataset Number, Nothing;
    DefaultUserObjQuota "defaultuserobjquota" F PerDataset Number, Nothing;
    DefaultGroupObjQuota "defaultgroupobjquota" F PerDataset Number, Nothing;
    DefaultProjectObjQuota "defaultprojectobjquota" F PerDataset Number, Nothing;
    Name "name" FVSB ReadOnly Text, Nothing;
    SnapshotsChangedNsecs "snapshots_changed_nsecs" FV ReadOnly Number, Nothing;
    ZonedUid "zoned_uid" F Inheritable Number, N(0);
    CloneCount "numclones" S ReadOnly Number, Nothing;
    IscsiOptions "iscsioptions" V Inheritable Text, Nothing;
    ScsiLogicalUnit "stmf_sbd_lu" V Inheritable Text, Nothing;
    UserAccounting "useraccounting" FVS ReadOnly Number, Nothing;
    Unique "unique" FVS ReadOnly Number, Nothing;
    Inconsistent "inconsistent" FVS ReadOnly Number, Nothing;
    PreviousSnapshot "prevsnap" FV ReadOnly Text, Nothing;
    Pbkdf2Salt "pbkdf2salt" FV AtCreation Number, N(0);
    KeyGuid "keyguid" FVS ReadOnly Number, Nothing;
    IvsetGuid "ivsetguid" SB ReadOnly Number, Nothing;
    RemapTxg "remaptxg" FV ReadOnly Number, Nothing;
    Redacted "redacted" FVS ReadOnly Number, Nothing;
}

impl Property {
    /// The last one that `zfs get all` shows.
    pub const LAST_LISTED: Self = Self::DefaultProjectObjQuota;

    /// The property's row.
    pub fn info(self) -> &'static PropertyInfo {
        let info = &TABLE[self as usize];
        debug_assert_eq!(info.property, self);
        info
    }

    /// The property with this full name.
    pub fn by_name(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|info| info.name == name)
            .map(|info| info.property)
    }

    /// Whether `zfs get all` shows it where it applies and has a value.
    pub fn is_listed(self) -> bool {
        self <= Self::LAST_LISTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_places_and_names_are_unique() {
        let mut names = std::collections::HashSet::new();
        for (at, info) in TABLE.iter().enumerate() {
            assert_eq!(info.property as usize, at);
            assert_eq!(Property::by_name(info.name), Some(info.property));
            assert!(names.insert(info.name), "{} twice", info.name);
            if let (Format::Index(words), Unset::Number(number)) = (info.format, info.default) {
                assert!(words::word(words, number).is_some(), "{}", info.name);
            }
        }
    }

    #[test]
    fn kinds_of_snapshots_follow_their_heads() {
        let exec = Property::Exec.info().kinds;
        assert!(exec.applies(Kinds::FILESYSTEM, true) && !exec.applies(Kinds::VOLUME, true));
        let clones = Property::Clones.info().kinds;
        assert!(clones.applies(Kinds::VOLUME, true) && !clones.applies(Kinds::VOLUME, false));
        assert!(
            !Property::RecordSize
                .info()
                .kinds
                .applies(Kinds::FILESYSTEM, true)
        );
    }
}
