//! Whose an object is, for the accounting of space (format/2b 6).
//!
//! The ids are at fixed offsets behind the header of the attributes, in every layout.

use cenote_dmu::{Owner, OwnerHook};
use cenote_ondisk::ObjectType;
use cenote_ondisk::system_attributes::{MAGIC, SaHeader};

use crate::attributes::FLAG_PROJECT_ID;

/// Finds the owner of objects of file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixOwnerHook;

const UID: usize = 24;
const GID: usize = 32;
const FLAGS: usize = 48;
const PROJECT: usize = 128;
const LEGACY_UID: usize = 128;
const LEGACY_GID: usize = 136;

fn word(bytes: &[u8], at: usize, big_endian: bool) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(match big_endian {
        true => u64::from_be_bytes(word),
        false => u64::from_le_bytes(word),
    })
}

fn owner_in(buffer: &[u8]) -> Option<Owner> {
    if !buffer.starts_with(&MAGIC.to_le_bytes()) && !buffer.starts_with(&MAGIC.to_be_bytes()) {
        // Just created: it has no owner yet.
        return Some(Owner {
            project: Some(0),
            ..Owner::default()
        });
    }
    let header = SaHeader::decode(buffer).ok()?;
    let word = |at| word(buffer, header.size + at, header.big_endian);
    let has_project = word(FLAGS)? & FLAG_PROJECT_ID != 0;
    let project = has_project.then(|| word(PROJECT)).flatten();
    Some(Owner {
        user: word(UID)?,
        group: word(GID)?,
        project: Some(project.unwrap_or(0)),
    })
}

impl OwnerHook for PosixOwnerHook {
    fn owner(&self, bonus_type: ObjectType, bonus: &[u8], spill: Option<&[u8]>) -> Option<Owner> {
        match bonus_type {
            ObjectType::SYSTEM_ATTRIBUTES if bonus.is_empty() => owner_in(spill.unwrap_or(&[])),
            ObjectType::SYSTEM_ATTRIBUTES => owner_in(bonus),
            ObjectType::ZNODE => Some(Owner {
                user: word(bonus, LEGACY_UID, false)?,
                group: word(bonus, LEGACY_GID, false)?,
                project: Some(0),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_at_their_places() {
        let mut buffer = vec![0; 8 + 144];
        buffer[..4].copy_from_slice(&MAGIC.to_le_bytes());
        buffer[5] = 1 << 2;
        let mut put = |at: usize, value: u64| {
            buffer[8 + at..16 + at].copy_from_slice(&value.to_le_bytes());
        };
        put(UID, 1000);
        put(GID, 100);
        put(PROJECT, 7);
        let hook = PosixOwnerHook;
        let owner = hook.owner(ObjectType::SYSTEM_ATTRIBUTES, &buffer, None);
        let mut expected = Owner {
            user: 1000,
            group: 100,
            project: Some(0),
        };
        assert_eq!(owner, Some(expected), "the flag is not set");
        buffer[8 + FLAGS..16 + FLAGS].copy_from_slice(&FLAG_PROJECT_ID.to_le_bytes());
        expected.project = Some(7);
        let spilled = hook.owner(ObjectType::SYSTEM_ATTRIBUTES, &[], Some(&buffer));
        assert_eq!(spilled, Some(expected));
        assert_eq!(hook.owner(ObjectType::NONE, &buffer, None), None);
        let new = hook.owner(ObjectType::SYSTEM_ATTRIBUTES, &[0; 168], None);
        assert_eq!(new.map(|owner| owner.user), Some(0));
    }
}
