//! Access control lists of files, and their text form.
//!
//! On Linux the mode is authoritative and POSIX lists live in extended attributes
//! ([`crate::xattr`]); what is stored here is the NFSv4 list that every file has, mostly the
//! trivial one that only repeats the mode (format/3b 8).

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::{Fuid, FuidTable};
pub use crate::stored_acl::StoredAcl;
use crate::znode::Znode;
use cenote_ondisk::acl::{self, ACES_MAX, Ace, Who};
use std::fmt::Write;

/// Bytes of the longest kind of entry.
const ACE_SIZE_MAX: usize = 48;

impl FileSystem {
    /// The NFSv4 access control list of `znode`; empty if none is stored.
    pub fn acl(&self, znode: &Znode) -> Result<Vec<Ace>, PosixError> {
        let malformed = |source| PosixError::Malformed {
            object: znode.id(),
            source,
        };
        match &znode.attributes().acl {
            StoredAcl::None => Ok(Vec::new()),
            StoredAcl::Encoded { count, bytes } => acl::decode(bytes, *count).map_err(malformed),
            StoredAcl::Decoded(aces) => Ok(aces.clone()),
            StoredAcl::External {
                count,
                is_old,
                object,
            } => {
                let count = (*count).min(ACES_MAX + 1);
                let contents = self.set().object(*object)?;
                let mut bytes = vec![0; count * ACE_SIZE_MAX];
                contents.read(0, &mut bytes)?;
                let decode = if *is_old {
                    acl::decode_old
                } else {
                    acl::decode
                };
                decode(&bytes, count).map_err(malformed)
            }
        }
    }

    /// The list as `getfacl` prints it, an entry each.
    pub fn acl_text(&self, znode: &Znode) -> Result<Vec<String>, PosixError> {
        let aces = self.acl(znode)?;
        Ok(aces
            .iter()
            .map(|ace| entry_text(ace, self.domains()))
            .collect())
    }
}

/// Letters of the access mask in the order in which they are printed.
const MASK_LETTERS: [(u32, char); 14] = [
    (0x1, 'r'),
    (0x2, 'w'),
    (0x20, 'x'),
    (0x4, 'p'),
    (0x40, 'D'),
    (0x1_0000, 'd'),
    (0x80, 'a'),
    (0x100, 'A'),
    (0x8, 'R'),
    (0x10, 'W'),
    (0x2_0000, 'c'),
    (0x4_0000, 'C'),
    (0x8_0000, 'o'),
    (0x10_0000, 's'),
];

/// Letters of the inheritance and audit flags in the order in which they are printed.
const FLAG_LETTERS: [(u32, char); 7] = [
    (1, 'f'),
    (2, 'd'),
    (8, 'i'),
    (4, 'n'),
    (0x10, 'S'),
    (0x20, 'F'),
    (0x80, 'I'),
];

fn letters(bits: u32, table: &[(u32, char)], text: &mut String) {
    text.extend(
        table
            .iter()
            .map(|(bit, letter)| if bits & bit != 0 { *letter } else { '-' }),
    );
}

/// One entry as `getfacl` prints NFSv4 entries: `owner@:rw-p--aARWcCos:-------:allow`.
pub fn entry_text(ace: &Ace, domains: &FuidTable) -> String {
    let mut text = match ace.who {
        Who::Owner => "owner@".to_owned(),
        Who::OwningGroup => "group@".to_owned(),
        Who::Everyone => "everyone@".to_owned(),
        Who::User(id) => format!("user:{}", domains.owner(Fuid(id))),
        Who::Group(id) => format!("group:{}", domains.owner(Fuid(id))),
    };
    text.push(':');
    letters(ace.mask, &MASK_LETTERS, &mut text);
    text.push(':');
    letters(u32::from(ace.flags), &FLAG_LETTERS, &mut text);
    match ace.ace_type {
        0 | 5 => text.push_str(":allow"),
        1 | 6 => text.push_str(":deny"),
        2 | 7 => text.push_str(":audit"),
        3 | 8 => text.push_str(":alarm"),
        // Writing to a string does not fail.
        other => drop(write!(text, ":type{other}")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::acl::{FLAG_IDENTIFIER_GROUP, FLAG_OWNER};

    #[test]
    fn trivial_and_named_entries() {
        let domains = FuidTable::default();
        let owner = Ace {
            ace_type: 0,
            flags: FLAG_OWNER,
            mask: 0x1E_019F,
            who: Who::Owner,
        };
        assert_eq!(
            entry_text(&owner, &domains),
            "owner@:rw-p--aARWcCos:-------:allow"
        );
        let flags = FLAG_IDENTIFIER_GROUP | 3;
        let group = Ace {
            ace_type: 1,
            flags,
            mask: 0x21,
            who: Who::Group(10),
        };
        assert_eq!(
            entry_text(&group, &domains),
            "group:10:r-x-----------:fd-----:deny"
        );
    }
}
