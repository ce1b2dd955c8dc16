//! The znode: a file's fields before system attributes (file system versions 1 to 4).
//!
//! Source: format/3b 2, "Legacy znode". The bonus buffer (264 bytes) of type 17:
//!
//! ```text
//!   0 atime  16 mtime  32 ctime  48 crtime (seconds, nanoseconds each)
//!  64 generation  72 mode  80 size  88 parent  96 links  104 xattr directory  112 device
//! 120 flags  128 user  136 group  144 pad (32)
//! 176 ACL: external object   184 size in bytes (version 0: entries) (u32)
//!     188 version (u16)  190 entries (u16)  192 entries inline (72)
//! 264 a symbolic link's target, if it fits the bonus buffer
//! ```

use crate::acl::{self, Ace};
use crate::wire;
use crate::{DecodeError, Dnode};
use cenote_base::ObjectId;

/// Bytes of a znode.
pub const ZNODE_SIZE: usize = 264;
/// The most bytes of a bonus buffer in the dnodes of the time.
pub const BONUS_SIZE_MAX: usize = 320;

const STRUCTURE: &str = "znode";
const ACES_OFFSET: usize = 192;

/// A time: seconds and nanoseconds since 1970.
pub type Time = (i64, i64);

/// Where a znode's access control list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZnodeAcl {
    /// In the znode.
    Inline(Vec<Ace>),
    /// In an object of type 33 (or 18 for version 0).
    External {
        /// The object.
        object: ObjectId,
        /// How many entries it has.
        count: usize,
        /// Whether they are version 0 entries.
        is_old: bool,
    },
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZnodePhys {
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Creation.
    pub crtime: Time,
    /// The txg of creation.
    pub generation: u64,
    /// Type and permissions.
    pub mode: u64,
    /// Bytes; of directories entries + 2.
    pub size: u64,
    /// The directory that it was last linked in.
    pub parent: ObjectId,
    /// Number of names.
    pub links: u64,
    /// The directory of extended attributes.
    pub xattr: Option<ObjectId>,
    /// Device number.
    pub device: u64,
    /// `z_pflags`.
    pub flags: u64,
    /// User id.
    pub uid: u64,
    /// Group id.
    pub gid: u64,
    /// The access control list.
    pub acl: ZnodeAcl,
}

impl ZnodePhys {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        wire::slice(bonus, 0, ZNODE_SIZE, STRUCTURE)?;
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let time = |offset| Ok((word(offset)? as i64, word(offset + 8)? as i64));
        Ok(Self {
            atime: time(0)?,
            mtime: time(16)?,
            ctime: time(32)?,
            crtime: time(48)?,
            generation: word(64)?,
            mode: word(72)?,
            size: word(80)?,
            parent: ObjectId(word(88)?),
            links: word(96)?,
            xattr: Some(ObjectId(word(104)?)).filter(|object| object.0 != 0),
            device: word(112)?,
            flags: word(120)?,
            uid: word(128)?,
            gid: word(136)?,
            acl: decode_acl(bonus)?,
        })
    }

    /// A symbolic link's target of this length, if it is in the dnode's bonus buffer; otherwise
    /// it is the object's data.
    pub fn inline_symlink(dnode: &Dnode, length: u64) -> Option<&[u8]> {
        let length = usize::try_from(length).ok()?;
        let end = ZNODE_SIZE.checked_add(length)?;
        if end > BONUS_SIZE_MAX {
            return None;
        }
        dnode.bonus.get(ZNODE_SIZE..end)
    }
}

fn decode_acl(bonus: &[u8]) -> Result<ZnodeAcl, DecodeError> {
    let external = wire::u64_le(bonus, 176, STRUCTURE)?;
    let is_old = match wire::u16_le(bonus, 188, STRUCTURE)? {
        0 => true,
        1 => false,
        version => {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "ACL version",
                value: u64::from(version),
            });
        }
    };
    let count = match is_old {
        true => wire::u32_le(bonus, 184, STRUCTURE)? as usize,
        false => usize::from(wire::u16_le(bonus, 190, STRUCTURE)?),
    };
    if external != 0 {
        return Ok(ZnodeAcl::External {
            object: ObjectId(external),
            count,
            is_old,
        });
    }
    let aces = &bonus[ACES_OFFSET..ZNODE_SIZE];
    Ok(ZnodeAcl::Inline(match is_old {
        true => acl::decode_old(aces, count)?,
        false => acl::decode(aces, count)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Who;

    fn bytes() -> Vec<u8> {
        let mut bytes = vec![0; ZNODE_SIZE];
        for (i, word) in bytes.chunks_exact_mut(8).take(18).enumerate() {
            word[0] = i as u8 + 1;
        }
        bytes[188] = 1;
        bytes[190] = 1;
        bytes[195] = 0x10;
        bytes
    }

    #[test]
    fn each_field_has_its_place() {
        let znode = ZnodePhys::decode(&bytes()).expect("valid");
        assert_eq!((znode.atime, znode.crtime), ((1, 2), (7, 8)));
        assert_eq!((znode.mode, znode.size, znode.links), (10, 11, 13));
        assert_eq!((znode.xattr, znode.gid), (Some(ObjectId(14)), 18));
        let ZnodeAcl::Inline(aces) = znode.acl else {
            panic!("no external object");
        };
        assert_eq!(aces[0].who, Who::Owner);
    }

    #[test]
    fn lists_elsewhere_old_and_too_long() {
        let mut bytes = bytes();
        bytes[188] = 0;
        bytes[184] = 7;
        assert!(ZnodePhys::decode(&bytes).is_err(), "room for 6 old entries");
        bytes[176] = 99;
        let external = ZnodeAcl::External {
            object: ObjectId(99),
            count: 7,
            is_old: true,
        };
        assert_eq!(ZnodePhys::decode(&bytes).expect("valid").acl, external);
        bytes[188] = 2;
        assert!(ZnodePhys::decode(&bytes).is_err());
        assert!(ZnodePhys::decode(&bytes[..263]).is_err());
    }
}
