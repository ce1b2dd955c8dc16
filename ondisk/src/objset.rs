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

/// Bytes of the blocks that are written today. Pools of old software have 1024 or 2048.
pub const OBJSET_SIZE: usize = 4096;

const STRUCTURE: &str = "object set";
const SIZE_MIN: usize = 1024;
const DNODE_OFFSETS: [usize; 3] = [1024, 1536, 2048];

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
            user_used: optional_dnode(bytes, DNODE_OFFSETS[0])?,
            group_used: optional_dnode(bytes, DNODE_OFFSETS[1])?,
            project_used: optional_dnode(bytes, DNODE_OFFSETS[2])?,
        })
    }
}

impl ObjsetKind {
    /// The number in the block.
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Meta => 1,
            Self::Zfs => 2,
            Self::Volume => 3,
            Self::Other => 4,
        }
    }
}

impl Objset {
    /// The block's bytes: `size` of them, 1024, 2048 or 4096, of which the last two have room
    /// for the accounting's dnodes.
    pub fn encode(&self, size: usize) -> Vec<u8> {
        assert!([SIZE_MIN, 2048, OBJSET_SIZE].contains(&size));
        let mut bytes = vec![0; size];
        bytes[..512].copy_from_slice(&self.meta_dnode.encode());
        bytes[512..704].copy_from_slice(&self.intent_log_header);
        bytes[704..712].copy_from_slice(&self.kind.number().to_le_bytes());
        bytes[712..720].copy_from_slice(&self.flags.to_le_bytes());
        bytes[720..752].copy_from_slice(&self.portable_mac);
        bytes[752..784].copy_from_slice(&self.local_mac);
        let accounting = [&self.user_used, &self.group_used, &self.project_used];
        for (offset, dnode) in DNODE_OFFSETS.into_iter().zip(accounting) {
            if let Some(dnode) = dnode {
                bytes[offset..offset + 512].copy_from_slice(&dnode.encode());
            }
        }
        bytes
    }
}

/// The dnode at `offset`, if the block is long enough to have one and it is in use.
fn optional_dnode(bytes: &[u8], offset: usize) -> Result<Option<Dnode>, DecodeError> {
    match bytes.get(offset..offset + 512) {
        Some(bytes) => Dnode::decode(bytes),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        let mut bytes = vec![0; OBJSET_SIZE];
        for offset in [0, 1024, 2048] {
            bytes[offset..offset + 10].copy_from_slice(&[10, 17, 1, 3, 0, 0, 0, 0, 32, 0]);
        }
        bytes[512..704].fill(0x11);
        bytes[704] = 2;
        bytes[712] = 7;
        bytes[720..752].fill(0x22);
        bytes[752..784].fill(0x33);
        bytes
    }

    #[test]
    fn every_part_has_its_place() {
        let objset = Objset::decode(&bytes()).expect("valid");
        assert_eq!((objset.kind, objset.flags), (ObjsetKind::Zfs, 7));
        assert_eq!(
            (objset.portable_mac, objset.local_mac),
            ([0x22; 32], [0x33; 32])
        );
        assert!(objset.user_used.is_some() && objset.group_used.is_none());
        assert!(objset.project_used.is_some());
        assert_eq!(objset.encode(OBJSET_SIZE), bytes());
    }

    #[test]
    fn old_blocks_are_shorter() {
        let old = Objset::decode(&bytes()[..1024]).expect("valid");
        assert!(old.user_used.is_none());
        assert_eq!(old.encode(1024), bytes()[..1024]);
        let middle = Objset::decode(&bytes()[..2048]).expect("valid");
        assert!(middle.user_used.is_some() && middle.project_used.is_none());
        assert!(Objset::decode(&bytes()[..1023]).is_err());
        let mut unknown = bytes();
        unknown[704] = 9;
        assert!(Objset::decode(&unknown).is_err());
        unknown[0] = 0;
        assert!(Objset::decode(&unknown).is_err(), "no meta-dnode");
    }
}
