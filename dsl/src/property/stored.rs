//! The properties set on one dataset, as its ZAP holds them (format/3a 11).
//!
//! `p` is the local value. Suffixes say more about it: `p$recvd` came with a stream, `p$inherit`
//! says that `p$recvd` is not in effect, `p$iuv` is an index too new for old releases, which read
//! a harmless number in `p`. `p$later`, `p$local` and `p$unset` are ours: they wait for the end of
//! a stream ([`crate::write::Postponed`]). Entries with other suffixes are for releases to come and
//! ignored, as others ignore ours.

use super::table::{Format, Property};
use super::words;
use crate::error::DslError;
use cenote_dmu::Zap;
use std::collections::BTreeMap;

/// How many entries of one ZAP are read. OpenZFS has no limit; a hundred thousand user properties
/// on one dataset are damage or malice.
const ENTRIES_MAX: usize = 100_000;

/// Bytes of a value: OpenZFS allows 8191 and a NUL.
const TEXT_LENGTH_MAX: usize = 8192;

/// A value as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A number or index.
    Number(u64),
    /// Words.
    Text(String),
}

/// Which of a dataset's own values is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Local,
    Received,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    local: Option<Stored>,
    received: Option<Stored>,
    newer_index: Option<Stored>,
    received_is_ignored: bool,
    later: Option<Stored>,
    later_local: Option<Stored>,
    is_unset_later: bool,
}

impl Entry {
    /// The value in effect.
    fn effective(&self) -> Option<(&Stored, Setting)> {
        let local = self.newer_index.as_ref().or(self.local.as_ref());
        let received = self.received.as_ref();
        let received = received.filter(|_| !self.received_is_ignored);
        let local = local.map(|value| (value, Setting::Local));
        local.or(received.map(|value| (value, Setting::Received)))
    }
}

/// Whether an index is one that we have a word for.
fn has_word(name: &str, index: u64) -> bool {
    match Property::by_name(name).map(|property| property.info().format) {
        Some(Format::Index(table)) => words::word(table, index).is_some(),
        _ => false,
    }
}

/// What becomes of a property when a stream has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting<'a> {
    /// This is received.
    Later(&'a Stored),
    /// This is set.
    Local(&'a Stored),
    /// The dataset's own value is taken away.
    Unset,
}

/// What is set on one dataset or snapshot.
#[derive(Clone, Debug, Default)]
pub struct StoredProperties {
    entries: BTreeMap<String, Entry>,
    is_list_waiting: bool,
}

impl StoredProperties {
    /// Reads the ZAP of a dataset's properties.
    pub(crate) fn load(zap: &Zap) -> Result<Self, DslError> {
        let mut properties = Self::default();
        for entry in zap.entries().take(ENTRIES_MAX) {
            let entry = entry?;
            let Some(name) = entry.key.as_str() else {
                continue;
            };
            let stored = match entry.value.as_u64() {
                Some(number) => Stored::Number(number),
                None => match entry.value.as_str() {
                    Some(text) if text.len() <= TEXT_LENGTH_MAX => Stored::Text(text.to_owned()),
                    _ => continue,
                },
            };
            properties.add(name, stored);
        }
        Ok(properties)
    }

    fn add(&mut self, key: &str, stored: Stored) {
        let (name, suffix) = match key.split_once('$') {
            Some((name, suffix)) => (name, Some(suffix)),
            None => (key, None),
        };
        if name.is_empty() {
            self.is_list_waiting |= suffix == Some("later");
            return;
        }
        let entry = self.entries.entry(name.to_owned()).or_default();
        match (suffix, stored) {
            (None, stored) => entry.local = Some(stored),
            (Some("recvd"), stored) => entry.received = Some(stored),
            (Some("inherit"), _) => entry.received_is_ignored = true,
            (Some("iuv"), Stored::Number(index)) if has_word(name, index) => {
                entry.newer_index = Some(Stored::Number(index));
            }
            (Some("later"), stored) => entry.later = Some(stored),
            (Some("local"), stored) => entry.later_local = Some(stored),
            (Some("unset"), _) => entry.is_unset_later = true,
            (Some(_), _) => {}
        }
    }

    /// The value in effect among those of this dataset.
    pub(crate) fn effective(&self, name: &str) -> Option<(Stored, Setting)> {
        let (value, setting) = self.entries.get(name)?.effective()?;
        Some((value.clone(), setting))
    }

    /// The value that a stream brought, in effect or not.
    pub(crate) fn received(&self, name: &str) -> Option<&Stored> {
        self.entries.get(name)?.received.as_ref()
    }

    /// Whether a received value is ignored because the property was set to inherit.
    pub(crate) fn ignores_received(&self, name: &str) -> bool {
        let entry = self.entries.get(name);
        entry.is_some_and(|entry| entry.received_is_ignored)
    }

    /// What waits for the end of a stream, by name.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&str, Waiting<'_>)> {
        self.entries.iter().flat_map(|(name, entry)| {
            let later = entry.later.as_ref().map(Waiting::Later);
            let local = entry.later_local.as_ref().map(Waiting::Local);
            let unset = entry.is_unset_later.then_some(Waiting::Unset);
            let all = [later, local, unset].into_iter().flatten();
            all.map(move |waiting| (name.as_str(), waiting))
        })
    }

    /// Whether what waits to be received is all that will be.
    pub(crate) fn is_list_waiting(&self) -> bool {
        self.is_list_waiting
    }

    /// The values in effect among those of this dataset, by name: what was set, else what a stream
    /// brought.
    pub fn in_effect(&self) -> impl Iterator<Item = (&str, &Stored)> {
        let entries = self.entries.iter();
        entries.filter_map(|(name, entry)| Some((name.as_str(), entry.effective()?.0)))
    }

    /// The values that streams brought, in effect or not, by name.
    pub fn all_received(&self) -> impl Iterator<Item = (&str, &Stored)> {
        let entries = self.entries.iter();
        entries.filter_map(|(name, entry)| Some((name.as_str(), entry.received.as_ref()?)))
    }

    /// The value set for a name, regardless of what streams brought.
    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.entries.get(name)?.local.as_ref()
    }

    /// The names of user properties: those with a colon.
    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        let is_here = |entry: &Entry| entry.local.is_some() || entry.received.is_some();
        let here = self.entries.iter().filter(move |(_, entry)| is_here(entry));
        let names = here.map(|(name, _)| name.as_str());
        names.filter(|name| name.contains(':'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(entries: &[(&str, Stored)]) -> StoredProperties {
        let mut properties = StoredProperties::default();
        for (key, stored) in entries {
            properties.add(key, stored.clone());
        }
        properties
    }

    fn effective(properties: &StoredProperties, name: &str) -> Option<(Stored, Setting)> {
        properties.effective(name)
    }

    #[test]
    fn local_wins_over_received_and_inherit_hides_it() {
        let set = properties(&[
            ("atime", Stored::Number(0)),
            ("atime$recvd", Stored::Number(1)),
            ("exec$recvd", Stored::Number(0)),
            ("sync$recvd", Stored::Number(2)),
            ("sync$inherit", Stored::Number(0)),
            ("$hasrecvd", Stored::Number(0)),
            ("copies$future", Stored::Number(9)),
        ]);
        assert_eq!(
            effective(&set, "atime"),
            Some((Stored::Number(0), Setting::Local))
        );
        assert_eq!(
            effective(&set, "exec"),
            Some((Stored::Number(0), Setting::Received))
        );
        assert_eq!(effective(&set, "sync"), None);
        assert_eq!(set.received("sync"), Some(&Stored::Number(2)));
        let names = |values: Vec<(&str, &Stored)>| {
            values
                .iter()
                .map(|(name, _)| name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(set.in_effect().collect()), ["atime", "exec"]);
        assert_eq!(
            names(set.all_received().collect()),
            ["atime", "exec", "sync"]
        );
        assert_eq!(effective(&set, "copies"), None);
    }

    /// What waits for the end of a stream is neither in effect nor received yet.
    #[test]
    fn what_waits_does_not_count() {
        let set = properties(&[
            ("atime$later", Stored::Number(1)),
            ("exec$local", Stored::Number(0)),
            ("sync$unset", Stored::Number(0)),
        ]);
        assert!(!set.is_list_waiting());
        for name in ["atime", "exec", "sync"] {
            assert_eq!(effective(&set, name), None);
        }
        assert_eq!(
            (set.all_received().count(), set.in_effect().count()),
            (0, 0)
        );
        let (one, zero) = (Stored::Number(1), Stored::Number(0));
        let waiting = [
            ("atime", Waiting::Later(&one)),
            ("exec", Waiting::Local(&zero)),
            ("sync", Waiting::Unset),
        ];
        assert_eq!(set.waiting().collect::<Vec<_>>(), waiting);
        assert!(properties(&[("$later", Stored::Number(0))]).is_list_waiting());
    }

    #[test]
    fn a_newer_index_counts_where_it_is_known() {
        let set = properties(&[
            ("redundant_metadata", Stored::Number(0)),
            ("redundant_metadata$iuv", Stored::Number(3)),
            ("snapdir", Stored::Number(0)),
            ("snapdir$iuv", Stored::Number(77)),
            ("sync", Stored::Number(1)),
        ]);
        let expected = Some((Stored::Number(3), Setting::Local));
        assert_eq!(effective(&set, "redundant_metadata"), expected);
        assert_eq!(
            effective(&set, "snapdir"),
            Some((Stored::Number(0), Setting::Local))
        );
        // `zfs send -p` took what old releases read: `snapdir=disabled` arrived as `hidden`.
        let numbers = set.in_effect().map(|(name, value)| (name, value.clone()));
        let expected = [("redundant_metadata", 3), ("snapdir", 0), ("sync", 1)];
        let expected = expected.map(|(name, number)| (name, Stored::Number(number)));
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn user_properties_have_a_colon() {
        let set = properties(&[
            ("com.sun:auto", Stored::Text("on".into())),
            ("atime", Stored::Number(1)),
        ]);
        assert_eq!(set.user_names().collect::<Vec<_>>(), ["com.sun:auto"]);
    }
}
