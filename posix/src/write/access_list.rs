//! Access control lists of new and changed files.
//!
//! Every file has an NFSv4 list that says what its mode says ([`trivial`], format/3b 8). POSIX
//! lists are extended attributes: a directory's default list becomes the list of what is made in
//! it, masked with the requested mode, as POSIX.1e defines ([`inherit`]).

use cenote_ondisk::acl::{
    Ace, FLAG_EVERYONE, FLAG_GROUP, FLAG_IDENTIFIER_GROUP, FLAG_OWNER, TYPE_ALLOW, TYPE_DENY, Who,
};

const READ: u32 = 0x1;
const WRITE: u32 = 0x2 | 0x4;
const DELETE_CHILD: u32 = 0x40;
const EXECUTE: u32 = 0x20;
/// What the owner may always: attributes, list and owner.
const OWNER_ALWAYS: u32 = 0x1E_0198;
/// What everyone may always: to read attributes and the list.
pub(super) const ALWAYS: u32 = 0x12_0088;

/// The mask of three permission bits.
pub(super) fn mask(bits: u64, is_directory: bool) -> u32 {
    let mut mask = 0;
    for (bit, means) in [(4, READ), (2, WRITE), (1, EXECUTE)] {
        if bits & bit != 0 {
            mask |= means;
        }
    }
    if is_directory && bits & 2 != 0 {
        mask |= DELETE_CHILD;
    }
    mask
}

/// The list that repeats `mode`.
pub(super) fn trivial(mode: u64, is_directory: bool) -> Vec<Ace> {
    let (owner, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
    let allow_first = owner & !group & other;
    let deny_owner = !owner & (group | other) & 7;
    let deny_group = !group & other & 7;
    let ace = |ace_type, flags, mask, who| Ace {
        ace_type,
        flags,
        mask,
        who,
    };
    const OWNING_GROUP: u16 = FLAG_GROUP | FLAG_IDENTIFIER_GROUP;
    let mask = |bits| mask(bits, is_directory);
    let mut aces = Vec::with_capacity(6);
    if allow_first != 0 {
        aces.push(ace(TYPE_ALLOW, FLAG_OWNER, mask(allow_first), Who::Owner));
    }
    if deny_owner != 0 {
        aces.push(ace(TYPE_DENY, FLAG_OWNER, mask(deny_owner), Who::Owner));
    }
    if deny_group != 0 {
        aces.push(ace(
            TYPE_DENY,
            OWNING_GROUP,
            mask(deny_group),
            Who::OwningGroup,
        ));
    }
    let of = |bits, always| mask(bits) | always;
    aces.push(ace(
        TYPE_ALLOW,
        FLAG_OWNER,
        of(owner, OWNER_ALWAYS),
        Who::Owner,
    ));
    aces.push(ace(
        TYPE_ALLOW,
        OWNING_GROUP,
        of(group, ALWAYS),
        Who::OwningGroup,
    ));
    aces.push(ace(
        TYPE_ALLOW,
        FLAG_EVERYONE,
        of(other, ALWAYS),
        Who::Everyone,
    ));
    aces
}

const VERSION: u32 = 2;
const TAG_USER_OWNER: u16 = 0x01;
const TAG_GROUP_OWNER: u16 = 0x04;
const TAG_MASK: u16 = 0x10;
const TAG_OTHER: u16 = 0x20;

/// What a POSIX default list gives to a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    /// The requested permissions that remain.
    pub(super) permissions: u64,
    /// The new file's list; `None` if it only repeats the permissions.
    pub(super) access: Option<Vec<u8>>,
}

/// Masks a default list with the requested `mode`; `None` if the bytes are no such list.
pub(super) fn inherit(default: &[u8], mode: u64) -> Option<Inherited> {
    mode_of(default)?;
    let entries = &default[4..];
    let tag = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.chunks_exact(8).any(|entry| tag(entry) == TAG_MASK);
    let mut access = default.to_vec();
    let mut permissions = mode & 0o7777;
    for entry in access[4..].chunks_exact_mut(8) {
        // The mask stands for the group's bits where there is one.
        let shift = match tag(entry) {
            TAG_USER_OWNER => 6,
            TAG_MASK => 3,
            TAG_GROUP_OWNER if !has_mask => 3,
            TAG_OTHER => 0,
            _ => continue,
        };
        let allowed = u64::from(u16::from_le_bytes([entry[2], entry[3]])) & 7;
        let left = allowed & (mode >> shift);
        permissions = permissions & !(7 << shift) | left << shift;
        entry[2..4].copy_from_slice(&(left as u16).to_le_bytes());
    }
    let is_minimal = entries.len() == 3 * 8 && !has_mask;
    Some(Inherited {
        permissions,
        access: (!is_minimal).then_some(access),
    })
}

/// The list after the permissions were changed; `None` if the bytes are no list.
pub(super) fn change_mode(access: &[u8], mode: u64) -> Option<Vec<u8>> {
    let mut changed = access.to_vec();
    let entries = changed.get_mut(4..)?;
    let tag = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.chunks_exact(8).any(|entry| tag(entry) == TAG_MASK);
    for entry in entries.chunks_exact_mut(8) {
        let bits = match tag(entry) {
            TAG_USER_OWNER => mode >> 6,
            TAG_MASK => mode >> 3,
            TAG_GROUP_OWNER if !has_mask => mode >> 3,
            TAG_OTHER => mode,
            _ => continue,
        };
        entry[2..4].copy_from_slice(&((bits & 7) as u16).to_le_bytes());
    }
    Some(changed)
}

/// The permissions that a list stands for, and whether it says no more than they do.
pub(super) fn mode_of(access: &[u8]) -> Option<(u64, bool)> {
    let entries = access.get(4..)?;
    if access[..4] != VERSION.to_le_bytes() || !entries.len().is_multiple_of(8) {
        return None;
    }
    let (mut owner, mut group, mut mask, mut other) = (None, None, None, None);
    for entry in entries.chunks_exact(8) {
        let bits = u64::from(u16::from_le_bytes([entry[2], entry[3]])) & 7;
        match u16::from_le_bytes([entry[0], entry[1]]) {
            TAG_USER_OWNER => owner = Some(bits),
            TAG_GROUP_OWNER => group = Some(bits),
            TAG_MASK => mask = Some(bits),
            TAG_OTHER => other = Some(bits),
            0x02 | 0x08 => {}
            _ => return None,
        }
    }
    let mode = owner? << 6 | mask.or(group)? << 3 | other?;
    group?;
    Some((mode, entries.len() == 3 * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(mode: u64, is_directory: bool) -> Vec<(u16, u32)> {
        let aces = trivial(mode, is_directory);
        aces.iter().map(|ace| (ace.ace_type, ace.mask)).collect()
    }

    #[test]
    fn lists_of_modes() {
        let file = [(0, 0x1E_019F), (0, 0x12_0089), (0, 0x12_0089)];
        assert_eq!(masks(0o644, false), file);
        let directory = [(0, 0x1E_01FF), (0, 0x12_00A9), (0, 0x12_00A9)];
        assert_eq!(masks(0o755, true), directory);
        let odd = masks(0o407, false);
        assert_eq!(odd[..3], [(0, 1), (1, 0x26), (1, 0x27)]);
        assert_eq!(odd.len(), 6);
    }

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, bits) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(bits.to_le_bytes());
            bytes.extend(u32::MAX.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn default_lists_are_cut_by_the_mode() {
        let minimal = list(&[(1, 7), (4, 5), (0x20, 0)]);
        let inherited = inherit(&minimal, 0o666).expect("a list");
        assert_eq!((inherited.permissions, inherited.access), (0o640, None));
        let full = list(&[(1, 7), (2, 6), (4, 5), (0x10, 7), (0x20, 5)]);
        let inherited = inherit(&full, 0o640).expect("a list");
        assert_eq!(inherited.permissions, 0o640);
        let expected = list(&[(1, 6), (2, 6), (4, 5), (0x10, 4), (0x20, 0)]);
        assert_eq!(inherited.access, Some(expected));
        assert_eq!(inherit(&[], 0o640), None);
        assert_eq!(inherit(&minimal[..20], 0o640), None);
    }

    #[test]
    fn a_changed_mode_changes_the_mask() {
        let full = list(&[(1, 7), (2, 6), (4, 5), (0x10, 7), (0x20, 5)]);
        let changed = change_mode(&full, 0o610).expect("a list");
        let expected = list(&[(1, 6), (2, 6), (4, 5), (0x10, 1), (0x20, 0)]);
        assert_eq!(changed, expected);
        assert_eq!(mode_of(&changed), Some((0o610, false)));
        assert_eq!(
            mode_of(&list(&[(1, 7), (4, 5), (0x20, 0)])),
            Some((0o750, true))
        );
        assert_eq!(mode_of(&list(&[(1, 7)])), None);
    }
}
