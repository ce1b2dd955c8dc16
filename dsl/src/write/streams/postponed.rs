//! Properties that take effect when a stream has ended (format/4 7.3).
//!
//! A failed stream must leave an existing dataset unchanged. So the properties in the stream and
//! those given to the receive (`-o`, `-x`) wait in the table of `%recv`. They are removed with it
//! when the receive is abandoned, for whatever reason, and are still there when it is resumed.
//! [`super::receive_end::EndReceive`] moves them to the dataset, in the group in which the contents
//! are exchanged.
//!
//! The entries have suffixes of our own, which other releases ignore (format/3a 11): `p$later` will
//! be received, `p$local` will be set, `p$unset` will be inherited. The entry `$later` says that
//! the list of received values is complete: earlier received values that are not in it are removed.
//!
//! Two kinds of properties matter to the contents while they come. How blocks are stored is set on
//! `%recv` itself, too. And a `quota` that rises lets `%recv` grow beyond the old one
//! ([`Dataset::raised_quota`]).

use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::DslError;
use crate::object_sets::is_of_caching;
use crate::property::stored::{Stored, StoredProperties, Waiting};
use crate::property::table::Property;
use crate::write::context::SyncContext;
use crate::write::properties::{RECEIVED, Setting, stored_value};
use cenote_base::ObjectId;

/// The hidden child that an existing dataset is received into.
pub const RECEIVE_CHILD: &str = "%recv";

const LATER: &str = "$later";
const LOCAL: &str = "$local";
const UNSET: &str = "$unset";
const QUOTA: &str = "quota";
const REF_QUOTA: &str = "refquota";
const KEY_LOCATION: &str = "keylocation";
/// It says that properties were received once.
const HAS_RECEIVED: &str = "$hasrecvd";

/// The properties that say how blocks are stored.
const OF_BLOCKS: [Property; 6] = [
    Property::Compression,
    Property::Checksum,
    Property::Copies,
    Property::Dedup,
    Property::RedundantMetadata,
    Property::SpecialSmallBlocks,
];

/// Properties left out, and why.
pub(crate) type Refused = Vec<(String, DslError)>;

/// Properties that a dataset gets with the contents of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Postponed {
    /// What the stream says.
    pub received: Vec<Setting>,
    /// Whether that is all: what was received before and is not in it goes.
    pub is_complete: bool,
    /// What is set and inherited, whatever the stream says.
    pub own: Vec<Setting>,
}

fn value_of<'a>(settings: &'a [Setting], name: &str) -> Option<&'a Option<Stored>> {
    let mut named = settings.iter().rev().filter(|setting| setting.name == name);
    named.next().map(|setting| &setting.value)
}

impl Postponed {
    /// What waits in the table of a directory.
    pub(crate) fn of(directory: &Directory) -> Result<Self, DslError> {
        let (mut postponed, stored) = (Self::default(), directory.properties()?);
        postponed.is_complete = stored.is_list_waiting();
        for (name, waiting) in stored.waiting() {
            let setting = |value: Option<&Stored>| Setting {
                name: name.to_owned(),
                value: value.cloned(),
            };
            match waiting {
                Waiting::Later(value) => postponed.received.push(setting(Some(value))),
                Waiting::Local(value) => postponed.own.push(setting(Some(value))),
                Waiting::Unset => postponed.own.push(setting(None)),
            }
        }
        Ok(postponed)
    }

    fn is_empty(&self) -> bool {
        self.received.is_empty() && self.own.is_empty() && !self.is_complete
    }

    /// What the dataset's own value of a property will be, if that changes: `None` for none.
    fn change_of(&self, own: &StoredProperties, name: &str) -> Option<Option<Stored>> {
        match value_of(&self.own, name) {
            Some(Some(value)) => return Some(Some(value.clone())),
            Some(None) => return Some(None),
            None if own.get(name).is_some() || own.ignores_received(name) => return None,
            None => {}
        }
        match value_of(&self.received, name) {
            Some(value) => Some(value.clone()),
            None if self.is_complete && own.received(name).is_some() => Some(None),
            None => None,
        }
    }

    /// Drops the received settings that fail a check.
    ///
    /// # Errors
    /// If a setting that was given to the receive fails it.
    fn leave_out(
        &mut self,
        check: impl Fn(&Setting) -> Result<(), DslError>,
    ) -> Result<Refused, DslError> {
        let mut refused = Vec::new();
        for setting in std::mem::take(&mut self.received) {
            match check(&setting) {
                Ok(()) => self.received.push(setting),
                Err(error) => refused.push((setting.name, error)),
            }
        }
        self.own.iter().try_for_each(check)?;
        Ok(refused)
    }

    /// Checks the settings before the contents come. Their size is still unknown, so `refquota` is
    /// checked at the end.
    ///
    /// # Errors
    /// A property that the receiver asked for cannot be set.
    pub(crate) fn check_before(
        &mut self,
        context: &SyncContext<'_>,
        target: &Dataset,
    ) -> Result<Refused, DslError> {
        self.leave_out(|setting| match setting.name == REF_QUOTA {
            true => Ok(()),
            false => context.check_setting(target, setting),
        })
    }

    /// Drops the received settings that the dataset, which then refers to `referenced` bytes,
    /// cannot have.
    ///
    /// # Errors
    /// If a setting that was given to the receive is impossible, or the contents exceed the
    /// remaining
    /// `refquota`.
    pub(crate) fn check(
        &mut self,
        context: &SyncContext<'_>,
        target: &Dataset,
        referenced: u64,
    ) -> Result<Refused, DslError> {
        let refused = self.leave_out(|setting| match (setting.name.as_str(), &setting.value) {
            (REF_QUOTA, Some(Stored::Number(limit))) => {
                target.check_new_refquota(*limit, referenced)
            }
            _ => context.check_setting(target, setting),
        })?;
        let own = target.directory().properties()?;
        match self.change_of(own, REF_QUOTA) {
            Some(_) => Ok(refused),
            None => target.check_refquota(referenced).map(|()| refused),
        }
    }

    /// Stores them with `received`, the head that a stream for `target` goes into.
    pub(crate) fn store(
        &self,
        context: &SyncContext<'_>,
        target: &Dataset,
        received: &Dataset,
    ) -> Result<(), DslError> {
        if self.is_empty() {
            return Ok(());
        }
        let directory = received.directory().id();
        let table = context.directory(directory)?.properties;
        if self.is_complete {
            context.set_number(table, LATER.as_bytes(), 0)?;
        }
        let zap = context.mos().zap(table)?;
        let put = |name: &str, suffix: &str, value: &Stored| {
            let key = format!("{name}{suffix}");
            zap.update(context.tx, key.as_bytes(), &stored_value(value))
        };
        for Setting { name, value } in &self.received {
            if let Some(value) = value {
                put(name, LATER, value)?;
            }
        }
        for Setting { name, value } in &self.own {
            match value {
                Some(value) => put(name, LOCAL, value)?,
                None => put(name, UNSET, &Stored::Number(0))?,
            }
        }
        if target.id() == received.id() {
            return Ok(());
        }
        context.apply_settings(directory, &self.of_blocks(target)?)
    }

    /// How blocks of the dataset will be stored, as far as that changes.
    fn of_blocks(&self, target: &Dataset) -> Result<Vec<Setting>, DslError> {
        let own = target.directory().properties()?;
        let above = match target.directory().parent() {
            Some(parent) => parent.head()?,
            None => None,
        };
        let mut settings = Vec::new();
        for property in OF_BLOCKS {
            let name = property.info().name;
            let value = match (self.change_of(own, name), &above) {
                (None, _) | (Some(None), None) => continue,
                (Some(Some(value)), _) => value,
                (Some(None), Some(above)) => Stored::Number(above.stored_number(property)?),
            };
            settings.push(Setting {
                name: name.to_owned(),
                value: Some(value),
            });
        }
        Ok(settings)
    }

    /// Takes out of a table what waited there.
    fn forget(&self, context: &SyncContext<'_>, table: ObjectId) -> Result<(), DslError> {
        context.remove_entry(table, LATER.as_bytes())?;
        for setting in &self.received {
            context.remove_entry(table, format!("{}{LATER}", setting.name).as_bytes())?;
        }
        for setting in &self.own {
            for suffix in [LOCAL, UNSET] {
                context.remove_entry(table, format!("{}{suffix}", setting.name).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Gives them to the dataset. What waits in its own table goes.
    pub(crate) fn apply(
        &self,
        context: &SyncContext<'_>,
        target: &Dataset,
    ) -> Result<(), DslError> {
        let id = target.directory().id();
        let table = context.directory(id)?.properties;
        let of_new = Self::of(target.directory())?;
        of_new.forget(context, table)?;
        if value_of(&of_new.received, KEY_LOCATION).is_some() {
            // The sender's place of the key is in effect, and not the one that stood for it.
            context.remove_entry(table, KEY_LOCATION.as_bytes())?;
        }
        if self.is_empty() {
            return Ok(());
        }
        // What is accounted goes from the value before to the one that will be in effect.
        for setting in &self.own {
            context.account_setting(target, setting)?;
        }
        if self.is_complete || !self.received.is_empty() {
            context.apply_received(target, self)?;
        }
        context.apply_settings(id, &self.own)?;
        let mut names = self.own.iter().chain(&self.received);
        if names.any(|setting| is_of_caching(&setting.name)) {
            context.dsl.refresh_caching();
        }
        context.dsl.refresh_policies()
    }
}

impl SyncContext<'_> {
    /// Stores what came with a stream for a dataset.
    pub(crate) fn apply_received(
        &self,
        dataset: &Dataset,
        postponed: &Postponed,
    ) -> Result<(), DslError> {
        let own = dataset.directory().properties()?;
        let settings = &postponed.received;
        let is_in_effect = |name: &str| {
            let is_open = own.get(name).is_none() && !own.ignores_received(name);
            is_open && value_of(&postponed.own, name).is_none()
        };
        let mut gone = Vec::new();
        for (name, _) in own.all_received().filter(|_| postponed.is_complete) {
            // An encryption root keeps the place of its key.
            if value_of(settings, name).is_none() && name != KEY_LOCATION {
                gone.push(Setting {
                    name: name.to_owned(),
                    value: None,
                });
            }
        }
        for setting in settings.iter().chain(&gone) {
            if is_in_effect(&setting.name) {
                self.account_setting(dataset, setting)?;
            }
        }
        let table = self.directory(dataset.directory().id())?.properties;
        self.set_number(table, HAS_RECEIVED.as_bytes(), 0)?;
        for setting in &gone {
            self.remove_entry(table, format!("{}{RECEIVED}", setting.name).as_bytes())?;
        }
        self.put_received(table, settings)
    }

    /// Puts received values into a table of properties.
    pub(crate) fn put_received(
        &self,
        table: ObjectId,
        settings: &[Setting],
    ) -> Result<(), DslError> {
        let zap = self.mos().zap(table)?;
        for setting in settings {
            if let Some(value) = &setting.value {
                let key = format!("{}{RECEIVED}", setting.name);
                zap.update(self.tx, key.as_bytes(), &stored_value(value))?;
            }
        }
        Ok(())
    }
}

impl Dataset {
    /// The `quota` of the dataset that a head is received for, if the stream raises it; 0 for none.
    ///
    /// # Errors
    /// If properties cannot be read.
    pub(crate) fn raised_quota(&self) -> Result<Option<u64>, DslError> {
        let directory = self.directory();
        let target = directory
            .parent()
            .filter(|_| directory.name().last_component() == RECEIVE_CHILD);
        let Some(target) = target else {
            return Ok(None);
        };
        let now = target.phys().quota;
        let later = Postponed::of(directory)?.change_of(target.properties()?, QUOTA);
        let later = match later {
            Some(Some(Stored::Number(number))) => number,
            Some(None) => 0,
            _ => return Ok(None),
        };
        Ok((now != 0 && (later == 0 || later > now)).then_some(later))
    }
}
