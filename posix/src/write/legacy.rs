//! Znodes of file systems before version 5: their fields have fixed places in the bonus buffer
//! (format/3b 2, "Legacy znode").
//!
//! There is no place for project ids and for lists of extended attributes; access control lists
//! of more than 72 bytes, and targets of symbolic links of more than 56, are contents of objects.

use super::change::Change;
use super::create::FLAGS_MODIFIED;
use super::store::{Changes, Value};
use crate::attributes::FLAG_PROJECT_ID;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::VERSION_FUIDS;
use cenote_base::ObjectId;
use cenote_dmu::{NewObject, Object};
use cenote_ondisk::ObjectType;
use cenote_ondisk::acl;
use cenote_ondisk::system_attributes::Attribute;
use cenote_ondisk::znode_phys::{BONUS_SIZE_MAX, ZNODE_SIZE};

/// Where the flags are.
const FLAGS: std::ops::Range<usize> = 120..128;
/// Where the access control list, or what leads to it, is.
const ACL: std::ops::Range<usize> = 176..264;
/// Bytes of a list that a znode has room for.
const ACES_MAX: usize = 72;

/// The parts of a new file.
pub(super) struct NewZnode {
    /// The bonus buffer.
    pub bonus: Vec<u8>,
    /// A symbolic link's target that does not fit there: the object's contents.
    pub target: Option<Vec<u8>>,
}

/// The result of storing values in a znode.
#[derive(Default)]
struct Lists {
    /// The object that had the access control list until then.
    before: Option<ObjectId>,
    /// The list in its stored form, if it needs an object.
    large: Option<Vec<u8>>,
}

impl FileSystem {
    /// Changes a legacy znode: what it has no place for is refused.
    pub(super) fn change_legacy(
        &self,
        tx: &Change<'_>,
        object: &Object,
        changes: &Changes,
    ) -> Result<(), PosixError> {
        let mut bonus = object.dnode().bonus.clone();
        if bonus.len() < ZNODE_SIZE {
            return Err(PosixError::NoSuchZnode {
                object: object.id(),
            });
        }
        let lists = put_fields(&mut bonus, changes, self.version())?;
        self.put_large_list(tx, &mut bonus, lists.large)?;
        object.set_bonus(tx, ObjectType::ZNODE, bonus)?;
        let before = lists.before;
        before.map_or(Ok(()), |list| self.free_list(tx, list))
    }

    /// The parts of a new file with these attributes.
    pub(super) fn new_legacy(
        &self,
        tx: &Change<'_>,
        attributes: &Changes,
    ) -> Result<NewZnode, PosixError> {
        let (mut bonus, large) = new_bonus(attributes, self.version())?;
        self.put_large_list(tx, &mut bonus, large)?;
        let mut target = attributes.iter().find_map(|change| match change {
            (Attribute::Symlink, Value::Bytes(target)) => Some(target.clone()),
            _ => None,
        });
        let fits = |target: &mut Vec<u8>| ZNODE_SIZE + target.len() <= BONUS_SIZE_MAX;
        if let Some(target) = target.take_if(fits) {
            bonus.extend_from_slice(&target);
        }
        Ok(NewZnode { bonus, target })
    }

    fn put_large_list(
        &self,
        tx: &Change<'_>,
        bonus: &mut [u8],
        list: Option<Vec<u8>>,
    ) -> Result<(), PosixError> {
        let Some(list) = list else { return Ok(()) };
        let object = self.make_list(tx, &list)?;
        bonus[ACL][..8].copy_from_slice(&object.0.to_le_bytes());
        Ok(())
    }

    /// Makes an object that has an access control list as its contents.
    fn make_list(&self, tx: &Change<'_>, aces: &[u8]) -> Result<ObjectId, PosixError> {
        let size = (aces.len() as u64).next_multiple_of(512);
        let new = match self.version() < VERSION_FUIDS {
            true => NewObject::new(ObjectType::OLD_ACL, size),
            false => {
                let bonus = vec![0; BONUS_SIZE_MAX];
                NewObject::new(ObjectType::ACL, size).with_bonus(ObjectType::DSL_PERMISSIONS, bonus)
            }
        };
        let object = self.set().allocate(tx, new)?;
        object.write(tx, 0, aces)?;
        Ok(object.id())
    }

    /// Frees the object that has an access control list, if it is one.
    pub(super) fn free_list(&self, tx: &Change<'_>, id: ObjectId) -> Result<(), PosixError> {
        let object_type = self.set().object(id)?.dnode().object_type;
        match [ObjectType::ACL, ObjectType::OLD_ACL].contains(&object_type) {
            true => Ok(self.set().free(tx, id)?),
            false => Ok(()),
        }
    }
}

/// The bonus buffer of a new file, with an access control list that needs an object.
pub(super) fn new_bonus(
    attributes: &Changes,
    version: u64,
) -> Result<(Vec<u8>, Option<Vec<u8>>), PosixError> {
    let mut fields = Changes::new();
    for (attribute, value) in attributes.iter() {
        let value = match (attribute, value) {
            (Attribute::Symlink | Attribute::ProjectId, _) => continue,
            (Attribute::Flags, Value::Word(flags)) if version < VERSION_FUIDS => {
                Value::Word(flags & !FLAGS_MODIFIED)
            }
            (_, value) => value.clone(),
        };
        fields = fields.with(*attribute, value);
    }
    let mut bonus = vec![0; ZNODE_SIZE];
    let lists = put_fields(&mut bonus, &fields, version)?;
    Ok((bonus, lists.large))
}

/// Puts values where they belong.
fn put_fields(bonus: &mut [u8], changes: &Changes, version: u64) -> Result<Lists, PosixError> {
    let (mut count, mut lists) = (0, Lists::default());
    for (attribute, value) in changes.iter() {
        match (attribute, value) {
            (Attribute::DaclCount, Value::Word(entries)) => count = *entries,
            (Attribute::DaclAces, Value::Bytes(aces)) => {
                lists = put_list(&mut bonus[ACL], aces, count, version)?;
            }
            _ => {
                let place = place_of(*attribute).ok_or(PosixError::NotSupported)?;
                value.with_bytes(|bytes| match bytes {
                    Some(bytes) => bonus[place..place + bytes.len()].copy_from_slice(bytes),
                    None => bonus[place..place + 8].fill(0),
                });
            }
        }
    }
    // A project id cannot be stored.
    let flags = &mut bonus[FLAGS];
    let word = u64::from_le_bytes((&*flags).try_into().expect("8 bytes")) & !FLAG_PROJECT_ID;
    flags.copy_from_slice(&word.to_le_bytes());
    Ok(lists)
}

/// Puts `count` entries into a znode, or what is said of them if they do not fit.
fn put_list(place: &mut [u8], aces: &[u8], count: u64, version: u64) -> Result<Lists, PosixError> {
    const FORM: u16 = 1;
    let too_large = |_| PosixError::AttributesTooLarge;
    let count = u16::try_from(count).map_err(too_large)?;
    let is_old = version < VERSION_FUIDS;
    let stored = match is_old {
        true => {
            let entries = acl::decode(aces, usize::from(count));
            let entries = entries.map_err(|_| PosixError::InvalidValue)?;
            acl::encode_old(&entries).ok_or(PosixError::NotSupported)?
        }
        false => aces.to_vec(),
    };
    let length = u32::try_from(stored.len()).map_err(too_large)?;
    let before = u64::from_le_bytes(place[..8].try_into().expect("8 bytes"));
    place.fill(0);
    match is_old {
        true => place[8..12].copy_from_slice(&u32::from(count).to_le_bytes()),
        false => {
            place[8..12].copy_from_slice(&length.to_le_bytes());
            place[12..14].copy_from_slice(&FORM.to_le_bytes());
            place[14..16].copy_from_slice(&count.to_le_bytes());
        }
    }
    let fits = stored.len() <= ACES_MAX;
    if fits {
        place[16..16 + stored.len()].copy_from_slice(&stored);
    }
    Ok(Lists {
        before: Some(ObjectId(before)).filter(|object| object.0 != 0),
        large: (!fits).then_some(stored),
    })
}

/// Where a znode has an attribute.
fn place_of(attribute: Attribute) -> Option<usize> {
    Some(match attribute {
        Attribute::Atime => 0,
        Attribute::Mtime => 16,
        Attribute::Ctime => 32,
        Attribute::Crtime => 48,
        Attribute::Gen => 64,
        Attribute::Mode => 72,
        Attribute::Size => 80,
        Attribute::Parent => 88,
        Attribute::Links => 96,
        Attribute::Xattr => 104,
        Attribute::Rdev => 112,
        Attribute::Flags => FLAGS.start,
        Attribute::Uid => 128,
        Attribute::Gid => 136,
        _ => return None,
    })
}
