//! The names of permissions and of permission sets.
//!
//! A permission is the use of a subcommand, or the change of a property. Which properties can be
//! delegated follows from the table of properties; the others are here.

/// Characters of a set's name, with its `@`.
pub const SET_NAME_MAX: usize = 64;

/// What a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The use of a subcommand.
    Subcommand,
    /// Something else: parts of a subcommand, or properties of many names.
    Other,
}

/// A permission that is no property.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    /// Its name.
    pub name: &'static str,
    /// What it allows.
    pub form: Form,
    /// What else it needs, or what exactly it allows.
    pub note: &'static str,
}

const fn subcommand(name: &'static str, note: &'static str) -> Permission {
    let form = Form::Subcommand;
    Permission { name, form, note }
}

const fn other(name: &'static str, note: &'static str) -> Permission {
    let form = Form::Other;
    Permission { name, form, note }
}

/// The permissions that are no properties.
#[rustfmt::skip]
pub const PERMISSIONS: [Permission; 33] = [
    subcommand("allow", "Must also have the permission that is being allowed"),
    subcommand("bookmark", ""),
    subcommand("change-key", "Allows changing an encryption key"),
    subcommand("clone", "Must also have 'create' and 'mount' in the new parent"),
    subcommand("create", "Must also have 'mount'"),
    subcommand("destroy", "Must also have 'mount'"),
    subcommand("diff", "Allows comparing snapshots of the dataset"),
    subcommand("hold", "Allows adding a user hold to a snapshot"),
    subcommand("load-key", "Allows loading and unloading an encryption key"),
    subcommand("mount", "Allows mounting and unmounting"),
    subcommand("promote", "Must also have 'mount', and 'promote' in the origin file system"),
    subcommand("receive", "Must also have 'mount' and 'create'"),
    subcommand("release", "Allows releasing a user hold, which may destroy the snapshot"),
    subcommand("rename", "Must also have 'mount', and 'create' and 'mount' in the new parent"),
    subcommand("rollback", ""),
    subcommand("send", ""),
    subcommand("share", "Allows sharing file systems over NFS or SMB"),
    subcommand("snapshot", ""),
    other("groupobjquota", "Allows accessing any groupobjquota@... property"),
    other("groupobjused", "Allows reading any groupobjused@... property"),
    other("groupquota", "Allows accessing any groupquota@... property"),
    other("groupused", "Allows reading any groupused@... property"),
    other("projectobjquota", "Allows accessing any projectobjquota@... property"),
    other("projectobjused", "Allows reading any projectobjused@... property"),
    other("projectquota", "Allows accessing any projectquota@... property"),
    other("projectused", "Allows reading any projectused@... property"),
    other("receive:append", "As 'receive', but not 'zfs receive -F'"),
    other("send:raw", "As 'send', but only raw streams of encrypted datasets ('zfs send -w')"),
    other("userobjquota", "Allows accessing any userobjquota@... property"),
    other("userobjused", "Allows reading any userobjused@... property"),
    other("userprop", "Allows changing any user property"),
    other("userquota", "Allows accessing any userquota@... property"),
    other("userused", "Allows reading any userused@... property"),
];

/// Whether a name can be one of a permission set.
pub fn is_set_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    let rest = name.strip_prefix('@');
    name.len() <= SET_NAME_MAX
        && rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_begin_with_their_sign_and_are_short() {
        assert!(is_set_name("@backup") && is_set_name("@a-b_c.d:e"));
        for bad in ["", "@", "backup", "@a/b", "@a@b", "@ä"] {
            assert!(!is_set_name(bad), "{bad}");
        }
        let longest = format!("@{}", "x".repeat(SET_NAME_MAX - 1));
        assert!(is_set_name(&longest) && !is_set_name(&format!("{longest}x")));
    }

    #[test]
    fn each_permission_is_there_once() {
        for (at, one) in PERMISSIONS.iter().enumerate() {
            let before = &PERMISSIONS[..at];
            assert!(
                before.iter().all(|other| other.name != one.name),
                "{}",
                one.name
            );
        }
    }
}
