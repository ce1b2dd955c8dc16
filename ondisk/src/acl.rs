//! Access control lists in NFSv4 form (format/3b 8).
//!
//! Version 1 entries stand one after another, each as long as its type and flags say:
//!
//! ```text
//! 0 type (u16)  2 flags (u16)  4 access mask (u32)
//! 8 who: user or group id (u64); absent for owner@, group@ and everyone@
//! 16 object types only: two GUIDs of 16 bytes
//! ```
//!
//! Version 0 entries (file systems before version 3) are 12 bytes:
//! `0 who (u32)  4 access mask (u32)  8 flags (u16)  10 type (u16)`.

use crate::DecodeError;
use crate::wire;

/// Allows what the mask says.
pub const TYPE_ALLOW: u16 = 0;
/// Denies what the mask says.
pub const TYPE_DENY: u16 = 1;

/// The entry is about the file's owner.
pub const FLAG_OWNER: u16 = 0x1000;
/// The entry is about the file's group, with [`FLAG_IDENTIFIER_GROUP`].
pub const FLAG_GROUP: u16 = 0x2000;
/// The entry is about everyone.
pub const FLAG_EVERYONE: u16 = 0x4000;
/// The id is a group's.
pub const FLAG_IDENTIFIER_GROUP: u16 = 0x40;
/// Files made in the directory inherit the entry.
pub const FLAG_FILE_INHERIT: u16 = 1;
/// Directories made in the directory inherit the entry.
pub const FLAG_DIRECTORY_INHERIT: u16 = 2;
/// What inherits the entry does not pass it on.
pub const FLAG_NO_PROPAGATE: u16 = 4;
/// The entry was inherited.
pub const FLAG_INHERITED: u16 = 0x80;
/// Only for what inherits the entry.
pub const FLAG_INHERIT_ONLY: u16 = 8;

/// The most entries that a list may have.
pub const ACES_MAX: usize = 1024;

const STRUCTURE: &str = "access control list";
const HEADER_SIZE: usize = 8;
const WHO_SIZE: usize = 16;
const OBJECT_SIZE: usize = 48;
const OLD_SIZE: usize = 12;
const KIND_FLAGS: u16 = FLAG_OWNER | FLAG_GROUP | FLAG_EVERYONE | FLAG_IDENTIFIER_GROUP;

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The file's owner.
    Owner,
    /// The file's group.
    OwningGroup,
    /// Everyone.
    Everyone,
    /// A user, by the id as the file system stores ids.
    User(u64),
    /// A group.
    Group(u64),
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// `TYPE_*`, audit (2), alarm (3) or an object type (5 to 8).
    pub ace_type: u16,
    /// Inheritance flags, and those that name the kind of subject.
    pub flags: u16,
    /// What is allowed or denied.
    pub mask: u32,
    /// The user or group that it applies to.
    pub who: Who,
}

/// Bytes of a version 1 entry, from the first 4 little-endian bytes of its header.
pub(crate) fn ace_size(header: [u8; 4]) -> usize {
    let ace_type = u16::from_le_bytes([header[0], header[1]]);
    let flags = u16::from_le_bytes([header[2], header[3]]);
    match ace_type {
        5..=8 => OBJECT_SIZE,
        TYPE_ALLOW | TYPE_DENY if is_about_class(flags) => HEADER_SIZE,
        _ => WHO_SIZE,
    }
}

/// Whether the flags say owner@, group@ or everyone@: then there is no id.
fn is_about_class(flags: u16) -> bool {
    const OWNING_GROUP: u16 = FLAG_GROUP | FLAG_IDENTIFIER_GROUP;
    matches!(
        flags & KIND_FLAGS,
        FLAG_OWNER | OWNING_GROUP | FLAG_EVERYONE
    )
}

fn who(flags: u16, id: u64) -> Who {
    if flags & FLAG_OWNER != 0 {
        Who::Owner
    } else if flags & FLAG_EVERYONE != 0 {
        Who::Everyone
    } else if flags & FLAG_GROUP != 0 {
        Who::OwningGroup
    } else if flags & FLAG_IDENTIFIER_GROUP != 0 {
        Who::Group(id)
    } else {
        Who::User(id)
    }
}

/// Decodes `count` version 1 entries. Bytes after them are ignored.
pub fn decode(bytes: &[u8], count: usize) -> Result<Vec<Ace>, DecodeError> {
    let mut aces = Vec::with_capacity(checked_count(count)?);
    let mut offset = 0;
    for _ in 0..count {
        let header: [u8; HEADER_SIZE] = wire::array(bytes, offset, STRUCTURE)?;
        let size = ace_size([header[0], header[1], header[2], header[3]]);
        let bytes = wire::slice(bytes, offset, size, STRUCTURE)?;
        let flags = wire::u16_le(bytes, 2, STRUCTURE)?;
        let id = match size {
            HEADER_SIZE => 0,
            _ => wire::u64_le(bytes, 8, STRUCTURE)?,
        };
        aces.push(Ace {
            ace_type: wire::u16_le(bytes, 0, STRUCTURE)?,
            flags,
            mask: wire::u32_le(bytes, 4, STRUCTURE)?,
            who: who(flags, id),
        });
        offset += size;
    }
    Ok(aces)
}

/// Decodes `count` version 0 entries. Bytes after them are ignored.
pub fn decode_old(bytes: &[u8], count: usize) -> Result<Vec<Ace>, DecodeError> {
    let bytes = wire::slice(bytes, 0, checked_count(count)? * OLD_SIZE, STRUCTURE)?;
    bytes
        .chunks_exact(OLD_SIZE)
        .map(|ace| {
            let flags = wire::u16_le(ace, 8, STRUCTURE)?;
            Ok(Ace {
                ace_type: wire::u16_le(ace, 10, STRUCTURE)?,
                flags,
                mask: wire::u32_le(ace, 4, STRUCTURE)?,
                who: who(flags, u64::from(wire::u32_le(ace, 0, STRUCTURE)?)),
            })
        })
        .collect()
}

fn checked_count(count: usize) -> Result<usize, DecodeError> {
    if count > ACES_MAX {
        return Err(DecodeError::BadValue {
            structure: STRUCTURE,
            field: "number of entries",
            value: count as u64,
        });
    }
    Ok(count)
}

/// The bytes of version 0 entries; `None` if an id does not fit their 32 bits.
pub fn encode_old(aces: &[Ace]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(aces.len() * OLD_SIZE);
    for ace in aces {
        let id = match ace.who {
            Who::User(id) | Who::Group(id) => u32::try_from(id).ok()?,
            Who::Owner | Who::OwningGroup | Who::Everyone => u32::MAX,
        };
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&ace.mask.to_le_bytes());
        bytes.extend_from_slice(&ace.flags.to_le_bytes());
        bytes.extend_from_slice(&ace.ace_type.to_le_bytes());
    }
    Some(bytes)
}

/// The bytes of version 1 entries. Object types are not written: their GUIDs are not kept.
pub fn encode(aces: &[Ace]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(aces.len() * WHO_SIZE);
    for ace in aces {
        assert!(
            !(5..=8).contains(&ace.ace_type),
            "object types are read only"
        );
        let [type0, type1] = ace.ace_type.to_le_bytes();
        let [flags0, flags1] = ace.flags.to_le_bytes();
        let header = [type0, type1, flags0, flags1];
        bytes.extend(header);
        bytes.extend(ace.mask.to_le_bytes());
        if ace_size(header) > HEADER_SIZE {
            let id = match ace.who {
                Who::User(id) | Who::Group(id) => id,
                Who::Owner | Who::OwningGroup | Who::Everyone => 0,
            };
            bytes.extend(id.to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Ace> {
        let ace = |flags, who| Ace {
            ace_type: TYPE_ALLOW,
            flags,
            mask: 0x1E_019F,
            who,
        };
        vec![
            ace(FLAG_OWNER, Who::Owner),
            ace(FLAG_IDENTIFIER_GROUP, Who::Group(1000)),
            ace(FLAG_GROUP | FLAG_IDENTIFIER_GROUP, Who::OwningGroup),
            ace(0, Who::User(7)),
            ace(FLAG_EVERYONE, Who::Everyone),
        ]
    }

    #[test]
    fn sizes_depend_on_whom_it_is_about() {
        let bytes = encode(&example());
        assert_eq!(bytes.len(), 8 + 16 + 8 + 16 + 8);
        assert_eq!(decode(&bytes, 5), Ok(example()));
        assert!(decode(&bytes, 6).is_err() && decode(&bytes, usize::MAX).is_err());
        assert_eq!(ace_size([5, 0, 0, 0x10]), OBJECT_SIZE);
        assert_eq!(
            ace_size([2, 0, 0, 0x10]),
            WHO_SIZE,
            "audit entries keep the id"
        );
    }

    #[test]
    fn old_entries() {
        let mut bytes = vec![0xe8, 3, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0];
        bytes.extend([0, 0, 0, 0, 2, 0, 0, 0, 0, 0x10, 0, 0]);
        let aces = decode_old(&bytes, 2).expect("two entries");
        assert_eq!(
            (aces[0].who, aces[0].ace_type),
            (Who::User(1000), TYPE_DENY)
        );
        assert_eq!((aces[1].who, aces[1].mask), (Who::Owner, 2));
        let again = encode_old(&aces).and_then(|bytes| decode_old(&bytes, 2).ok());
        assert_eq!(again.as_ref(), Some(&aces));
        assert!(decode_old(&bytes, 3).is_err());
    }
}
