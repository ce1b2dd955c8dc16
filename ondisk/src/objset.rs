//! The object set block: the root of a dataset, a volume or the pool's own metadata.
//!
//! Source: format/2b 3. 1024, 2048 or 4096 bytes by the age of the software that wrote it:
//!
//! ```text
//!    0 meta-dnode      512 intent log header (192)   704 type   712 flags
//!  720 portable MAC (32)  752 local MAC (32)         784 pad
//! 1024 user-used dnode  1536 group-used dnode  2048 project-used dnode
//! ```

use crate::wire;
use crate::{DecodeError, Dnode};

/// The kind of an object set (`os_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjsetKind {
    /// Not set; only in object sets that were never used.
    None,
    /// The meta object set.
    Meta,
    /// A POSIX file system.
    Zfs,
    /// A volume.
    Volume,
    /// Made by tests.
    Other,
}

/// User and group accounting is complete.
pub const FLAG_USER_ACCOUNTING_COMPLETE: u64 = 1;
/// Accounting of object numbers is complete.
pub const FLAG_USER_OBJECT_ACCOUNTING_COMPLETE: u64 = 2;
/// Project accounting is complete.
pub const FLAG_PROJECT_QUOTA_COMPLETE: u64 = 4;

/// Bytes of the intent log header.
pub const INTENT_LOG_HEADER_SIZE: usize = 192;

const STRUCTURE: &str = "object set";
const SIZE_MIN: usize = 1024;

/// A decoded object set block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objset {
    /// The dnode whose data is all other dnodes.
    pub meta_dnode: Dnode,
    /// The intent log header's bytes, for `intent_log` to decode.
    pub intent_log_header: [u8; INTENT_LOG_HEADER_SIZE],
    /// What the object set holds.
    pub kind: ObjsetKind,
    /// `FLAG_*`.
    pub flags: u64,
    /// MAC over what a raw send carries.
    pub portable_mac: [u8; 32],
    /// MAC over what only this pool knows: the accounting objects.
    pub local_mac: [u8; 32],
    /// Space used by user, if accounted.
    pub user_used: Option<Dnode>,
    /// Space used by group.
    pub group_used: Option<Dnode>,
    /// Space used by project.
    pub project_used: Option<Dnode>,
}

impl Objset {
    /// Decodes an object set block of 1024 bytes or more.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        wire::slice(bytes, 0, SIZE_MIN, STRUCTURE)?;
        let meta_dnode = Dnode::decode(&bytes[..512])?.ok_or(DecodeError::Missing {
            structure: STRUCTURE,
            key: "meta-dnode",
        })?;
        let kind = match wire::u64_le(bytes, 704, STRUCTURE)? {
            0 => ObjsetKind::None,
            1 => ObjsetKind::Meta,
            2 => ObjsetKind::Zfs,
            3 => ObjsetKind::Volume,
            4 => ObjsetKind::Other,
            value => {
                return Err(DecodeError::BadValue {
                    structure: STRUCTURE,
                    field: "type",
                    value,
                });
            }
        };
        Ok(Self {
            meta_dnode,
            intent_log_header: wire::array(bytes, 512, STRUCTURE)?,
            kind,
            flags: wire::u64_le(bytes, 712, STRUCTURE)?,
            portable_mac: wire::array(bytes, 720, STRUCTURE)?,
            local_mac: wire::array(bytes, 752, STRUCTURE)?,
            user_used: optional_dnode(bytes, 1024)?,
            group_used: optional_dnode(bytes, 1536)?,
            project_used: optional_dnode(bytes, 2048)?,
        })
    }
}

/// The dnode at `offset`, if the block is long enough to have one and it is in use.
fn optional_dnode(bytes: &[u8], offset: usize) -> Result<Option<Dnode>, DecodeError> {
    match bytes.get(offset..offset + 512) {
        Some(bytes) => Dnode::decode(bytes),
        None => Ok(None),
    }
}
