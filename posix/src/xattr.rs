//! Extended attributes, in the two places where they are kept (format/3b 7).
//!
//! Small ones are a name-value list among the system attributes (`xattr=sa`); large ones, and all
//! with `xattr=dir`, are files in a hidden directory. The list is searched first.
//!
//! On Linux each name begins with its namespace. `user.` attributes of other systems have none
//! on disk: they are found under either name and listed with the prefix.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::znode::Znode;
use cenote_ondisk::{NvList, NvValue};
use std::collections::BTreeSet;

/// The largest value that is read; Linux allows 64 KiB.
pub const VALUE_SIZE_MAX: u64 = 1 << 20;

/// Namespaces of Linux, which are stored with the name.
const NAMESPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
/// What names without a namespace belong to.
const USER: &[u8] = b"user.";
/// FreeBSD's system namespace, which is not shown elsewhere.
const FREEBSD: &[u8] = b"freebsd:";

/// The POSIX access list of a file, as the kernel encodes it.
pub const POSIX_ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The POSIX list that new files in a directory get.
pub const POSIX_ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// The name to show for a stored one; `None` for those that are not shown.
fn shown_name(stored: &[u8]) -> Option<Vec<u8>> {
    if NAMESPACES
        .iter()
        .any(|namespace| stored.starts_with(namespace))
    {
        return Some(stored.to_vec());
    }
    if stored.starts_with(FREEBSD) || stored.is_empty() {
        return None;
    }
    Some([USER, stored].concat())
}

/// The names under which an attribute may be stored.
pub(crate) fn stored_names(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bare = name.strip_prefix(USER);
    // An empty name, `.` and `..` are no entries of a directory.
    let bare = bare.filter(|bare| ![b"".as_slice(), b".", b".."].contains(bare));
    // A bare name that begins with a namespace would be another attribute's.
    let bare = bare.filter(|bare| !NAMESPACES.iter().any(|other| bare.starts_with(other)));
    [Some(name), bare].into_iter().flatten()
}

/// A value in the list: bytes, or nothing for any other type.
fn list_value<'l>(list: &'l NvList, name: &[u8]) -> Option<&'l [u8]> {
    match list.get(name)? {
        NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) => Some(bytes),
        _ => None,
    }
}

impl FileSystem {
    /// The names of all extended attributes, each once, in no particular order.
    pub fn xattr_names(&self, znode: &Znode) -> Result<Vec<Vec<u8>>, PosixError> {
        let mut names = BTreeSet::new();
        if let Some(list) = znode.xattr_list()? {
            names.extend(list.iter().filter_map(|(name, _)| shown_name(name)));
        }
        if let Some(directory) = znode.attributes().xattr_directory {
            let directory = self.znode(directory)?;
            for entry in self.read_directory(&directory, 0)? {
                let entry = entry?;
                if entry.name != b"." && entry.name != b".." {
                    names.extend(shown_name(&entry.name));
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The value of extended attribute `name`; `None` if there is no such.
    pub fn xattr(&self, znode: &Znode, name: &[u8]) -> Result<Option<Vec<u8>>, PosixError> {
        match znode.attributes().xattr_directory.is_some() && self.is_writable() {
            true => self.xattr_between_changes(znode, name),
            false => self.xattr_unlocked(znode, name),
        }
    }

    /// The same for callers that hold the file's lock, or know that it does not change.
    pub(crate) fn xattr_unlocked(
        &self,
        znode: &Znode,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, PosixError> {
        for stored in stored_names(name) {
            if let Some(value) = self.stored_xattr(znode, stored)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// As [`Self::xattr`], with absence as the error that system calls return.
    pub fn require_xattr(&self, znode: &Znode, name: &[u8]) -> Result<Vec<u8>, PosixError> {
        let absent = || PosixError::NoAttribute {
            object: znode.id(),
            name: name.to_vec(),
        };
        self.xattr(znode, name)?.ok_or_else(absent)
    }

    fn stored_xattr(&self, znode: &Znode, stored: &[u8]) -> Result<Option<Vec<u8>>, PosixError> {
        let list = znode.xattr_list()?;
        if let Some(value) = list.as_ref().and_then(|list| list_value(list, stored)) {
            return Ok(Some(value.to_vec()));
        }
        let Some(directory) = znode.attributes().xattr_directory else {
            return Ok(None);
        };
        let directory = self.znode(directory)?;
        let Some(target) = self.lookup(&directory, stored)? else {
            return Ok(None);
        };
        let file = self.znode(target.object)?;
        if file.kind() != FileKind::Regular {
            return Err(file.inconsistent("an extended attribute is not a regular file"));
        }
        self.read_all(&file, VALUE_SIZE_MAX).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_namespace_belong_to_the_user() {
        assert_eq!(shown_name(b"user.a").as_deref(), Some(b"user.a".as_slice()));
        assert_eq!(
            shown_name(b"trusted.a").as_deref(),
            Some(b"trusted.a".as_slice())
        );
        assert_eq!(shown_name(b"a").as_deref(), Some(b"user.a".as_slice()));
        assert_eq!(shown_name(b"freebsd:system:a"), None);
    }

    #[test]
    fn both_stored_names_are_tried() {
        let names = |name: &'static [u8]| stored_names(name).collect::<Vec<_>>();
        assert_eq!(names(b"user.a"), [b"user.a".as_slice(), b"a"]);
        assert_eq!(names(b"system.a"), [b"system.a"]);
        assert_eq!(names(b"user.trusted.a"), [b"user.trusted.a"]);
        assert_eq!(names(b"user..."), [b"user..."], "not the parent directory");
    }
}
