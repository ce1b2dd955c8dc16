//! The master node: object 1, where everything of a file system begins (format/3b 1).

use crate::error::PosixError;
use cenote_base::ObjectId;
use cenote_dmu::{DmuError, ObjectSet, Zap};
use cenote_ondisk::DecodeError;
pub use cenote_ondisk::master_node::MASTER_NODE;
use cenote_ondisk::master_node::keys;
use std::sync::Arc;

/// The newest supported file system version; the oldest is 1.
pub const VERSION_MAX: u64 = 5;

/// From this version on directory entries have the type of the object.
pub const VERSION_ENTRY_TYPES: u64 = 2;

/// From this version on ids may be of a domain, access control lists have the newer form, and
/// names may be compared in other ways than byte by byte.
pub const VERSION_FUIDS: u64 = 3;

/// From this version on users and groups have quotas.
pub const VERSION_QUOTAS: u64 = 4;

/// From this version on attributes are system attributes; before, they are a fixed structure.
pub const VERSION_SYSTEM_ATTRIBUTES: u64 = 5;

/// Which spellings of a name mean the same entry (`casesensitivity`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// Each spelling is a name of its own.
    #[default]
    Sensitive,
    /// Case does not matter.
    Insensitive,
    /// Case matters to local callers; callers can also request lookups in which it does not.
    Mixed,
}

/// How names are compared: fixed when the file system is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameRules {
    /// `casesensitivity`.
    pub case: CaseSensitivity,
    /// Normal form flags as in ZAPs (format/2b 5.4): 0x10 D, 0x20 KD, 0x50 C, 0x60 KC; 0 none.
    pub normalization: u64,
    /// Only names in UTF-8 may be created.
    pub utf8_only: bool,
}

/// Whose space an account or quota is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

impl AccountKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];
}

/// Where the limits of one [`AccountKind`] are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaObjects {
    /// ZAP of limits in bytes.
    pub space: Option<ObjectId>,
    /// ZAP of limits in objects.
    pub objects: Option<ObjectId>,
    /// The default limit in bytes, for ids without a limit of their own; 0 for no limit.
    pub space_default: u64,
    /// The default limit in objects, for ids without a limit of their own; 0 for no limit.
    pub objects_default: u64,
}

/// The master node's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterNode {
    /// File system version, 1 to [`VERSION_MAX`].
    pub version: u64,
    /// The root directory.
    pub root: ObjectId,
    /// ZAP of objects that wait for being freed.
    pub delete_queue: Option<ObjectId>,
    /// Where attribute numbers and layouts are; from version 5 on.
    pub system_attributes: Option<ObjectId>,
    /// The table of FUID domains.
    pub fuid_table: Option<ObjectId>,
    /// The directory of shares that older releases made.
    pub shares: Option<ObjectId>,
    /// How names are compared.
    pub names: NameRules,
    /// Limits of users, groups and projects, in the order of [`AccountKind::ALL`].
    pub quotas: [QuotaObjects; 3],
}

fn malformed(source: DecodeError) -> PosixError {
    PosixError::Malformed {
        object: MASTER_NODE,
        source,
    }
}

fn missing(key: &'static str) -> PosixError {
    malformed(DecodeError::Missing {
        structure: "master node",
        key,
    })
}

impl MasterNode {
    /// Reads the master node of `set`.
    pub fn read(set: &Arc<ObjectSet>) -> Result<Self, PosixError> {
        let zap = match set.zap(MASTER_NODE) {
            Err(DmuError::NoSuchObject { .. }) => {
                return Err(PosixError::NotFileSystem { objset: set.id() });
            }
            zap => zap?,
        };
        let version = number(&zap, keys::VERSION)?.ok_or_else(|| missing(keys::VERSION))?;
        if version == 0 || version > VERSION_MAX {
            return Err(PosixError::UnknownVersion {
                objset: set.id(),
                version,
            });
        }
        let system_attributes = match version >= VERSION_SYSTEM_ATTRIBUTES {
            true => Some(
                object(&zap, keys::SA_MASTER_NODE)?.ok_or_else(|| missing(keys::SA_MASTER_NODE))?,
            ),
            false => None,
        };
        Ok(Self {
            version,
            root: object(&zap, keys::ROOT)?.ok_or_else(|| missing(keys::ROOT))?,
            delete_queue: object(&zap, keys::DELETE_QUEUE)?,
            system_attributes,
            fuid_table: object(&zap, keys::FUID_TABLE)?,
            shares: object(&zap, keys::SHARES)?,
            names: read_name_rules(&zap)?,
            quotas: [
                read_quotas(&zap, ["userquota@", "userobjquota@"], "user")?,
                read_quotas(&zap, ["groupquota@", "groupobjquota@"], "group")?,
                read_quotas(&zap, ["projectquota@", "projectobjquota@"], "project")?,
            ],
        })
    }

    /// The limits of one kind.
    pub fn quotas(&self, kind: AccountKind) -> &QuotaObjects {
        &self.quotas[kind as usize]
    }
}

fn number(zap: &Zap, key: &str) -> Result<Option<u64>, PosixError> {
    Ok(zap.lookup_u64(key)?)
}

/// An object number; 0 and absence both mean that there is none.
fn object(zap: &Zap, key: &str) -> Result<Option<ObjectId>, PosixError> {
    Ok(number(zap, key)?.filter(|id| *id != 0).map(ObjectId))
}

fn read_name_rules(zap: &Zap) -> Result<NameRules, PosixError> {
    let case = match number(zap, keys::CASE_SENSITIVITY)?.unwrap_or(0) {
        0 => CaseSensitivity::Sensitive,
        1 => CaseSensitivity::Insensitive,
        2 => CaseSensitivity::Mixed,
        value => {
            let (structure, field) = ("master node", keys::CASE_SENSITIVITY);
            return Err(malformed(DecodeError::BadValue {
                structure,
                field,
                value,
            }));
        }
    };
    Ok(NameRules {
        case,
        normalization: number(zap, keys::NORMALIZATION)?.unwrap_or(0),
        utf8_only: number(zap, keys::UTF8_ONLY)?.unwrap_or(0) != 0,
    })
}

fn read_quotas(zap: &Zap, keys: [&str; 2], kind: &str) -> Result<QuotaObjects, PosixError> {
    let default = |what: &str| number(zap, &format!("default{kind}{what}"));
    Ok(QuotaObjects {
        space: object(zap, keys[0])?,
        objects: object(zap, keys[1])?,
        space_default: default("quota")?.unwrap_or(0),
        objects_default: default("objquota")?.unwrap_or(0),
    })
}
