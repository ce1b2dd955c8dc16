//! The label of a disk: which volume it is, in a text that outlives the daemon.
//!
//! `00c0ffee00c0ffee.54.0011223344556677.rw tank/vol`: the pool's guid, the dataset's object number
//! and guid, so that another dataset with the same name is not mistaken for it; the access mode
//! (`rw`, `ro`); and the name, for people.

use cenote_base::{Guid, ObjectId};
use cenote_dsl::Dataset;
use cenote_engine::Imported;
use std::fmt;

/// A volume or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub pool: Guid,
    pub object: ObjectId,
    pub guid: Guid,
    pub is_read_only: bool,
    /// The volume's name when the disk was made.
    pub name: String,
}

impl Label {
    pub fn of(imported: &Imported, dataset: &Dataset, is_read_only: bool) -> Self {
        Self {
            pool: imported.pool.guid(),
            object: dataset.id(),
            guid: dataset.phys().guid,
            is_read_only,
            name: dataset.name().to_string(),
        }
    }

    /// Parses the output of [`fmt::Display`]; `None` if it is the label of another program.
    pub fn parse(text: &str) -> Option<Self> {
        let (identity, name) = text.split_once(' ')?;
        let mut parts = identity.split('.');
        let pool = u64::from_str_radix(parts.next()?, 16).ok()?;
        let object = parts.next()?.parse().ok()?;
        let guid = u64::from_str_radix(parts.next()?, 16).ok()?;
        let is_read_only = match parts.next()? {
            "ro" => true,
            "rw" => false,
            _ => return None,
        };
        parts.next().is_none().then(|| Self {
            pool: Guid(pool),
            object: ObjectId(object),
            guid: Guid(guid),
            is_read_only,
            name: name.to_owned(),
        })
    }

    /// Whether it is the same volume, regardless of its name and access mode.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pool, self.object, self.guid) == (other.pool, other.object, other.guid)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool, object, guid, ..
        } = self;
        let (pool, object, guid) = (pool.0, object.0, guid.0);
        let access = if self.is_read_only { "ro" } else { "rw" };
        let name = &self.name;
        write!(
            formatter,
            "{pool:016x}.{object}.{guid:016x}.{access} {name}"
        )
    }
}

/// The name of the volume in a disk's label; `None` if it is the label of another program.
pub fn disk_label_name(label: &str) -> Option<String> {
    Label::parse(label).map(|label| label.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let label = Label {
            pool: Guid(0xff),
            object: ObjectId(54),
            guid: Guid(u64::MAX),
            is_read_only: true,
            name: "tank/a b@c".to_owned(),
        };
        let text = label.to_string();
        assert_eq!(text, "00000000000000ff.54.ffffffffffffffff.ro tank/a b@c");
        assert_eq!(Label::parse(&text), Some(label.clone()));
        let renamed = Label {
            name: "tank/new".to_owned(),
            ..label.clone()
        };
        assert!(label.is_same(&renamed));
        for foreign in [
            "",
            "tank/vol",
            "1.2.3.4 v",
            "x.2.3.rw v",
            "1.-2.3.rw v",
            "1.2.3.rw.5 v",
        ] {
            assert_eq!(Label::parse(foreign), None, "{foreign}");
        }
    }
}
