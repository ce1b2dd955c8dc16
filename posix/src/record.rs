//! What records of the intent log say of files: kinds, times, flags, and modes by access lists.
//!
//! The numbers of records are those of format/2e 3; what a znode's flags mean is in format/3b 3.

use crate::attributes::{Attributes, FLAG_PROJECT_ID};
use crate::fuid::Fuid;
use crate::kind::FileKind;
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_ondisk::acl::{Ace, FLAG_INHERIT_ONLY, TYPE_ALLOW, TYPE_DENY, Who};
use cenote_ondisk::intent_log::record::{Create, ExtendedAttributes, Whiteout, record_type};
use cenote_ondisk::wire;

/// The nine bits that an access list decides.
pub(crate) const ACCESS_BITS: u64 = 0o777;

/// The requested bits of a creation time and a project id.
const REQUEST_CREATION_TIME: u32 = 0x1;
const REQUEST_PROJECT: u32 = 0x4_0000;
/// The opaque flag's value is in the bit of the append-only flag (format/2e 3).
const REQUEST_OPAQUE: u32 = 0x200;
const VALUE_OPAQUE: u64 = 0x80;
const FLAG_OPAQUE: u64 = 0x100_0000_0000;

/// Requested bits of extended attributes, and the flags of a znode that they set: archive,
/// system, read-only, hidden, no-unlink, immutable, append-only, no-dump, quarantined, modified,
/// reparse, offline, sparse, project-inherit (format/2e 3, format/3b 3).
const FLAG_TABLE: [(u32, u64); 14] = [
    (0x2, 0x8_0000_0000),
    (0x4, 0x4_0000_0000),
    (0x8, 0x1_0000_0000),
    (0x10, 0x2_0000_0000),
    (0x20, 0x20_0000_0000),
    (0x40, 0x10_0000_0000),
    (0x80, 0x40_0000_0000),
    (0x100, 0x80_0000_0000),
    (0x400, 0x200_0000_0000),
    (0x800, 0x400_0000_0000),
    (0x2000, 0x800_0000_0000),
    (0x8000, 0x1000_0000_0000),
    (0x1_0000, 0x2000_0000_0000),
    (0x2_0000, 0x4000_0000_0000),
];

/// Bits of setattr's mask that only Linux sets: mode, change time, extended attributes
/// (format/2e 3). A change of attributes there always changes their time as well.
const MASK_LINUX: u64 = 1 | 64 | 1 << 31;
/// Bits that only other implementations set: size, times, extended attributes.
const MASK_OTHERS: u64 = 0x80 | 0x100 | 0x200 | 0x400 | 0x1_0000;

/// Whether records of this type create objects of this kind; the type in their mode does not count.
pub(crate) fn is_made_by(of_type: u64, kind: FileKind) -> bool {
    match of_type {
        record_type::MKDIR
        | record_type::MKDIR_ACL
        | record_type::MKDIR_ATTR
        | record_type::MKDIR_ACL_ATTR => kind == FileKind::Directory,
        record_type::SYMLINK => kind == FileKind::Symlink,
        _ => kind != FileKind::Directory && kind != FileKind::Symlink,
    }
}

/// What a rename leaves as `name` in `directory`, as a record that makes it would say.
pub(crate) fn create_of<'a>(
    whiteout: &Whiteout,
    directory: ObjectId,
    name: &'a [u8],
) -> Create<'a> {
    Create {
        directory,
        new: whiteout.new,
        mode: whiteout.mode,
        uid: whiteout.uid,
        gid: whiteout.gid,
        generation: whiteout.generation,
        crtime: whiteout.crtime,
        device: whiteout.device,
        attributes: None,
        acl: None,
        domains: &[],
        name,
        target: None,
    }
}

/// From the two words of a record.
pub(crate) fn time_of(words: (u64, u64)) -> Timestamp {
    Timestamp::from_stored((words.0.cast_signed(), words.1.cast_signed()))
}

/// Whether Linux wrote a setattr record.
pub(crate) fn is_of_linux(mask: u64) -> bool {
    mask & MASK_LINUX != 0 || mask & MASK_OTHERS == 0
}

/// The three bits of `mode` that each class of users has, by the list (format/3b 8): the first
/// entry that speaks of a bit decides it.
pub(crate) fn access_of(aces: &[Ace], attributes: &Attributes) -> u64 {
    let mut seen = 0;
    let mut mode = 0;
    for ace in aces.iter().filter(|ace| ace.flags & FLAG_INHERIT_ONLY == 0) {
        let classes: u64 = match ace.who {
            Who::Owner => 0o700,
            Who::OwningGroup => 0o070,
            Who::Everyone => 0o777,
            Who::User(id) if Fuid(id) == attributes.uid => 0o700,
            Who::Group(id) if Fuid(id) == attributes.gid => 0o070,
            Who::User(_) | Who::Group(_) => 0,
        };
        let rights = [(0x1, 0o444), (0x2, 0o222), (0x20, 0o111)];
        let bits = rights.iter().filter(|(right, _)| ace.mask & right != 0);
        let bits = bits.fold(0, |all, (_, bits)| all | bits) & classes & !seen;
        match ace.ace_type {
            TYPE_ALLOW => mode |= bits,
            TYPE_DENY => {}
            _ => continue,
        }
        seen |= bits;
    }
    mode & ACCESS_BITS
}

/// A znode's flags after an extended attribute block.
pub(crate) fn flags_after(flags: u64, extended: &ExtendedAttributes) -> u64 {
    let mut flags = flags;
    let mut set_flag = |flag: u64, value: bool| match value {
        true => flags |= flag,
        false => flags &= !flag,
    };
    for (bit, flag) in FLAG_TABLE {
        if extended.requested & bit != 0 {
            set_flag(flag, extended.values & u64::from(bit) != 0);
        }
    }
    if extended.requested & REQUEST_OPAQUE != 0 {
        set_flag(FLAG_OPAQUE, extended.values & VALUE_OPAQUE != 0);
    }
    if extended.requested & REQUEST_PROJECT != 0 {
        set_flag(FLAG_PROJECT_ID, true);
    }
    flags
}

/// The extended attribute block that brings those flags that changed, a project and a creation
/// time to a znode; `None` if there is nothing to bring.
pub(crate) fn extended_of(
    (changed, flags): (u64, u64),
    project: Option<u64>,
    created: Option<Timestamp>,
) -> Option<ExtendedAttributes> {
    let mut extended = ExtendedAttributes {
        requested: 0,
        values: 0,
        crtime: (0, 0),
        scanstamp: [0; 32],
    };
    for (bit, flag) in FLAG_TABLE {
        if changed & flag != 0 {
            extended.requested |= bit;
        }
        if changed & flags & flag != 0 {
            extended.values |= u64::from(bit);
        }
    }
    if let Some(project) = project {
        extended.requested |= REQUEST_PROJECT;
        extended.scanstamp[..8].copy_from_slice(&project.to_le_bytes());
    }
    if let Some(created) = created {
        extended.requested |= REQUEST_CREATION_TIME;
        extended.crtime = words_of(created);
    }
    (extended.requested != 0).then_some(extended)
}

/// The two words of a time in a record.
pub(crate) fn words_of(time: Timestamp) -> (u64, u64) {
    (time.seconds.cast_unsigned(), u64::from(time.nanoseconds))
}

/// The creation time that an extended attribute block sets.
pub(crate) fn created_by(extended: &ExtendedAttributes) -> Option<Timestamp> {
    let is_set = extended.requested & REQUEST_CREATION_TIME != 0;
    is_set.then(|| time_of(extended.crtime))
}

/// The project that an extended attribute block sets.
pub(crate) fn project_of(extended: &ExtendedAttributes) -> Option<u64> {
    let is_set = extended.requested & REQUEST_PROJECT != 0;
    let project = wire::u64_le(&extended.scanstamp, 0, "project id");
    is_set.then(|| project.expect("the stamp has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::acl::FLAG_OWNER;

    fn ace(ace_type: u16, mask: u32, who: Who) -> Ace {
        Ace {
            ace_type,
            flags: FLAG_OWNER,
            mask,
            who,
        }
    }

    #[test]
    fn the_first_entry_that_speaks_of_a_bit_decides() {
        let attributes = Attributes {
            uid: Fuid(7),
            ..Attributes::default()
        };
        let aces = [
            ace(TYPE_DENY, 0x2, Who::Owner),
            ace(TYPE_ALLOW, 0x23, Who::Owner),
            ace(TYPE_ALLOW, 0x21, Who::OwningGroup),
            ace(TYPE_ALLOW, 0x1, Who::Everyone),
        ];
        assert_eq!(access_of(&aces, &attributes), 0o554);
        let own = [
            ace(TYPE_ALLOW, 0x1, Who::User(7)),
            ace(TYPE_ALLOW, 0x2, Who::User(8)),
        ];
        assert_eq!(access_of(&own, &attributes), 0o400);
    }

    #[test]
    fn the_writer_of_a_mask_is_told_by_its_bits() {
        assert!(is_of_linux(1 | 64), "chmod on Linux");
        assert!(is_of_linux(8 | 32 | 64), "truncate on Linux");
        assert!(!is_of_linux(0x80), "truncate elsewhere");
        assert!(!is_of_linux(2 | 0x400), "chmod and times elsewhere");
    }
}
