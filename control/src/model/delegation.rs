//! Delegated permissions: requests and answers about them, and their names.

use super::properties::{self, DATASET, PropertyInfo};
use cenote_delegation::{Grant, PERMISSIONS};
use serde::{Deserialize, Serialize};

/// A change of a dataset's grants. What is taken away goes before what is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The dataset.
    pub dataset: String,
    /// What is added.
    #[serde(default)]
    pub granted: Vec<Grant>,
    /// What is taken away; a grant without names stands for all that the grantee has.
    #[serde(default)]
    pub revoked: Vec<Grant>,
    /// Also from all datasets below (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// The grants of one dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetGrants {
    /// The dataset.
    pub dataset: String,
    /// In order of grantee and scope.
    pub grants: Vec<Grant>,
}

/// Whether a property can be delegated: it can be set, now or when the dataset is made.
pub fn is_delegable(info: &PropertyInfo) -> bool {
    const AT_CREATION: [&str; 7] = [
        "casesensitivity",
        "encryption",
        "keyformat",
        "normalization",
        "pbkdf2iters",
        "utf8only",
        "volblocksize",
    ];
    info.editable || AT_CREATION.contains(&info.name)
}

/// The permission with this name; properties may be given by their short names.
pub fn permission(name: &str) -> Option<&'static str> {
    let known = PERMISSIONS.iter().map(|permission| permission.name);
    let found = known.into_iter().find(|known| *known == name);
    found.or_else(|| {
        let info = properties::find(DATASET, name)?;
        is_delegable(info).then_some(info.name)
    })
}

/// The permission that setting a property takes; `None` if no permission allows it.
///
/// Properties of our own publish contents, so they stay the administrator's.
pub fn permission_for(property: &str) -> Option<&'static str> {
    if property.starts_with("cenote:") {
        return None;
    }
    if property.contains(':') {
        return permission("userprop");
    }
    match property.split_once('@') {
        Some((kind, _)) => permission(kind),
        None => permission(property),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_set_can_be_delegated() {
        for name in [
            "create",
            "receive:append",
            "quota",
            "casesensitivity",
            "userquota",
        ] {
            assert_eq!(permission(name), Some(name));
        }
        assert_eq!(permission("compress"), Some("compression"));
        for name in [
            "used", "type", "mounted", "scrub", "unallow", "@set", "a:b", "",
        ] {
            assert_eq!(permission(name), None, "{name}");
        }
    }

    #[test]
    fn user_properties_have_one_permission_and_ours_none() {
        assert_eq!(permission_for("org:owner"), Some("userprop"));
        assert_eq!(permission_for("userquota@bob"), Some("userquota"));
        assert_eq!(permission_for("quota"), Some("quota"));
        assert_eq!(permission_for("cenote:nbd"), None);
        assert_eq!(permission_for("used"), None);
    }
}
