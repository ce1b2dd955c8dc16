//! Properties that come with a stream, those given instead, and those left out (format/4 7.3, 7.5).
//!
//! A stream's values are checked like those of a user: a value that could not be set is not stored,
//! and is reported.
//!
//! A dataset that is there gets them with the contents ([`Postponed`]), so that a stream which
//! fails changes nothing. A new one gets them before, but for limits on the contents.

use super::plan::{KEY_PROPERTIES, Plan};
use super::session::Session;
use crate::errors::of_dsl;
use crate::registry::approvals::said;
use crate::registry::imported::Imported;
use crate::registry::key_words::{
    KEY_LOCATION, KeyGiven, bad, check_location, is_place_of_key, new_encryption,
};
use crate::values::{received_setting, setting};
use cenote_control::model::{ControlError, Pair, ReceiveNote, permission_for};
use cenote_dsl::property::StoredProperties;
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::{Class, Format, Kinds, Property};
use cenote_dsl::property::words::word;
use cenote_dsl::write::{Encryption, Postponed, SetProperties, SetReceived, Setting};
use cenote_dsl::{Dataset, DatasetName, DslError, Stored};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{NvList, NvValue};
use std::sync::Arc;

/// What only the contents of a dataset say. It comes with the stream in any case.
const OF_CONTENTS: [&str; 6] = [
    VERSION,
    "utf8only",
    "normalization",
    "casesensitivity",
    "volsize",
    "volblocksize",
];
/// What only the keys of a dataset say, or what follows from the stream.
const NOT_STORED: [&str; 4] = ["encryption", "keyformat", "pbkdf2iters", "origin"];
/// What would limit the contents that are still to come.
const REF_QUOTA: &str = "refquota";
const KEY_FORMAT: &str = "keyformat";
const VERSION: &str = "version";

impl Session<'_> {
    /// Whether a new dataset is encrypted, and by whose key.
    pub fn encryption(
        &self,
        imported: &Imported,
        plan: &Plan<'_>,
    ) -> Result<Encryption, ControlError> {
        let of_key =
            |(name, _): &&Pair| name == KEY_LOCATION || KEY_PROPERTIES.contains(&name.as_str());
        let given = self.asked.properties.iter().filter(of_key);
        let given: Vec<&Pair> = given.filter(|_| plan.is_top).collect();
        if given.is_empty() || plan.keys()?.is_some() {
            return Ok(plan.encryption());
        }
        let purpose = Purpose {
            kinds: kinds(plan)?,
            at_creation: true,
        };
        let settings = given.into_iter().map(|pair| setting(pair, purpose));
        let mut settings = settings.collect::<Result<Vec<_>, _>>()?;
        let parent = match plan.name.parent() {
            Some(parent) => imported.dsl().directory(&parent).map_err(of_dsl)?,
            None => None,
        };
        let key = KeyGiven::Now(self.asked.key.as_ref());
        let env = self.context.env.as_ref();
        new_encryption(&plan.name, parent.as_deref(), &mut settings, key, env)
    }

    /// What is set locally on the topmost dataset, for `-o`.
    fn local(&self, plan: &Plan<'_>) -> Result<Vec<Setting>, ControlError> {
        let purpose = Purpose {
            kinds: kinds(plan)?,
            // What a dataset is made with comes with the stream.
            at_creation: false,
        };
        let given = &self.asked.properties;
        let mut names = given.iter().map(|(name, _)| name);
        let mut excluded = self.asked.excluded.iter();
        let of_contents = excluded.find(|name| OF_CONTENTS.contains(&name.as_str()));
        if let Some(name) = names.find(|name| *name == VERSION).or(of_contents) {
            return Err(bad(name, "it comes with the stream"));
        }
        // A new key is stored with its location.
        let has_key = given.iter().any(|(name, _)| name == KEY_FORMAT);
        let is_stored = |(name, _): &&Pair| {
            !(KEY_PROPERTIES.contains(&name.as_str()) || has_key && name == KEY_LOCATION)
        };
        let given = given.iter().filter(is_stored);
        let mut allowed = given
            .clone()
            .map(|(name, _)| self.may_set(&plan.name, name));
        allowed.try_for_each(|allowed| allowed)?;
        given.map(|pair| setting(pair, purpose)).collect()
    }

    /// Refuses a property that the user may not set, by the command or by the stream.
    pub(super) fn may_set(
        &self,
        dataset: &DatasetName,
        property: &str,
    ) -> Result<(), ControlError> {
        if self.by.rights.is_none() {
            return Ok(());
        }
        let permission = permission_for(property).ok_or(ControlError::PermissionDenied)?;
        let imported = self.context.registry.pool(dataset.pool())?;
        // Where it would be mounted is the administrator's to say.
        match permission {
            "mountpoint" => Err(ControlError::PermissionDenied),
            _ => self.by.check(&imported, dataset, &[permission]),
        }
    }

    /// The properties of the stream and of the command, for the dataset that it is received into.
    /// Quotas are left out while more streams of the dataset follow.
    pub fn wanted(&self, plan: &Plan<'_>) -> Result<Postponed, ControlError> {
        let target = plan.target()?;
        let own = own_properties(target.as_ref())?;
        let list = plan.dataset.and_then(|dataset| dataset.properties.as_ref());
        let mut wanted = Postponed {
            received: match list {
                Some(list) => self.received_but(plan, list, &own)?,
                None => Vec::new(),
            },
            is_complete: list.is_some(),
            own: self.own_wanted(plan, &own)?,
        };
        if let Some(target) = &target {
            check_location(target, &wanted.own)?;
        }
        if !plan.is_last() {
            wanted.received = with_rising_limit(wanted.received, &own);
            wanted.own.retain(|setting| setting.name != REF_QUOTA);
        }
        Ok(wanted)
    }

    /// What the command sets and inherits, regardless of the stream.
    fn own_wanted(
        &self,
        plan: &Plan<'_>,
        own: &StoredProperties,
    ) -> Result<Vec<Setting>, ControlError> {
        let has_local = |name: &str| self.asked.properties.iter().any(|pair| pair.0 == name);
        let mut settings = match plan.is_top {
            true => self.local(plan)?,
            false => Vec::new(),
        };
        for name in self.left_out(plan) {
            let is_known = name.contains(':') || Property::by_name(name).is_some();
            if !is_known {
                return Err(ControlError::NoSuchProperty {
                    property: name.clone(),
                });
            }
            // The stream does not replace local values, and its properties exclude keys.
            let is_of_key = name == KEY_LOCATION || KEY_PROPERTIES.contains(&name.as_str());
            let is_kept = is_per_dataset(name) || own.get(name).is_some();
            if is_of_key || plan.is_top && has_local(name) || is_kept {
                continue;
            }
            settings.push(Setting {
                name: name.clone(),
                value: None,
            });
        }
        Ok(settings)
    }

    /// Gives a new dataset, before its contents come, what was wanted for it and need not wait.
    pub fn set_properties(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        early: Postponed,
    ) -> Result<(), ControlError> {
        if early.is_complete {
            self.store_received(imported, plan, plan.name.clone(), early.received)?;
        }
        if let Some(target) = plan.target()? {
            check_location(&target, &early.own)?;
        }
        self.set(imported, plan, early.own)
    }

    fn set(
        &self,
        imported: &Imported,
        plan: &Plan<'_>,
        settings: Vec<Setting>,
    ) -> Result<(), ControlError> {
        if settings.is_empty() {
            return Ok(());
        }
        let (name, said) = (plan.name.clone(), said(&settings));
        let approvals = &self.context.registry.approvals;
        let task = SetProperties { name, settings };
        approvals.saying((imported, &plan.name), &said, || {
            self.run(imported, plan, task, false).map(drop)
        })
    }

    /// Stores the properties of a stream for a dataset or snapshot.
    pub fn store_received(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        name: DatasetName,
        settings: Vec<Setting>,
    ) -> Result<(), ControlError> {
        let task = SetReceived {
            name: name.clone(),
            settings,
            refused: Vec::new(),
        };
        let done = self.run(imported, plan, task, false)?;
        self.refuse_properties(&name, done.refused);
        Ok(())
    }

    /// Reports invalid properties of a stream.
    pub fn refuse_properties(&self, name: &DatasetName, refused: Vec<(String, DslError)>) {
        for (property, error) in refused {
            self.refuse_property(name, &property, &error.to_string());
        }
    }

    pub(super) fn refuse_property(&self, name: &DatasetName, property: &str, reason: &str) {
        let text = format!("cannot receive {property} property on {name}: {reason}");
        self.link.tell(ReceiveNote::Complaint(text));
    }

    /// The properties whose values in the stream do not count: below the topmost dataset, those
    /// that are given, too.
    fn left_out<'s>(&'s self, plan: &Plan<'_>) -> impl Iterator<Item = &'s String> {
        let is_top = plan.is_top;
        let below = self.asked.properties.iter().map(|pair| &pair.0);
        self.asked
            .excluded
            .iter()
            .chain(below.filter(move |_| !is_top))
    }

    /// The values of a stream's list that take effect. If the stream lacks a property that is not
    /// inherited, such as a quota, it keeps its value.
    fn received_but(
        &self,
        plan: &Plan<'_>,
        list: &NvList,
        own: &StoredProperties,
    ) -> Result<Vec<Setting>, ControlError> {
        let mut settings = self.received(plan, list)?;
        for name in self.left_out(plan).filter(|name| is_per_dataset(name)) {
            settings.retain(|setting| setting.name != *name);
            let before = own.all_received().find(|(known, _)| known == name);
            settings.extend(before.map(|(_, value)| Setting {
                name: name.clone(),
                value: Some(value.clone()),
            }));
        }
        Ok(settings)
    }

    /// The values of a stream's list that can be stored.
    fn received(&self, plan: &Plan<'_>, list: &NvList) -> Result<Vec<Setting>, ControlError> {
        let purpose = Purpose {
            kinds: kinds(plan)?,
            at_creation: true,
        };
        let mut settings = Vec::new();
        for (name, value) in list.iter() {
            let name = String::from_utf8_lossy(name).into_owned();
            let is_of_key = name == KEY_LOCATION;
            if OF_CONTENTS.contains(&name.as_str())
                || NOT_STORED.contains(&name.as_str())
                || is_of_key && !has_own_key(plan)?
            {
                continue;
            }
            let is_prompt = is_of_key && *value == NvValue::String(b"prompt".to_vec());
            let allowed = match is_prompt {
                true => Ok(()),
                false => self.may_set(&plan.name, &name),
            };
            let allowed = allowed.map_err(|error| error.to_string());
            match allowed.and_then(|()| judged(&name, value, purpose)) {
                Ok(setting) => settings.push(setting),
                Err(reason) => self.refuse_property(&plan.name, &name, &reason),
            }
        }
        Ok(settings)
    }
}

fn own_properties(dataset: Option<&Dataset>) -> Result<StoredProperties, ControlError> {
    Ok(match dataset {
        Some(dataset) => dataset.directory().properties().map_err(of_dsl)?.clone(),
        None => StoredProperties::default(),
    })
}

/// Whether a raw stream is of a dataset that has a key of its own, there and here.
fn has_own_key(plan: &Plan<'_>) -> Result<bool, ControlError> {
    let is_root = plan.dataset.is_some_and(|told| told.is_encryption_root);
    if !is_root || plan.keys()?.is_none() {
        return Ok(false);
    }
    let Some(target) = plan.target()? else {
        return Ok(true);
    };
    let key = target.directory().crypto_key().map_err(of_dsl)?;
    Ok(key.is_some_and(|key| key.root() == target.directory().id()))
}

/// Of what is wanted for a new dataset, what it gets before the contents come, and what with them:
/// what would limit them, and where the key of a raw stream is, which stands in for another place.
pub(super) fn early_and_late(wanted: Postponed) -> (Postponed, Postponed) {
    let is_limit = |setting: &Setting| setting.name == REF_QUOTA;
    let is_key = |setting: &Setting| setting.name == KEY_LOCATION;
    let (late_own, early_own): (Vec<Setting>, _) = wanted.own.into_iter().partition(is_limit);
    let has_own_place = early_own.iter().any(is_key);
    let is_late = |setting: &Setting| is_limit(setting) || is_key(setting) && !has_own_place;
    let (late, early) = wanted.received.into_iter().partition(is_late);
    let early = Postponed {
        received: early,
        is_complete: wanted.is_complete,
        own: early_own,
    };
    let late = Postponed {
        received: late,
        is_complete: false,
        own: late_own,
    };
    (early, late)
}

/// The values of a stream if more streams of the dataset follow: `refquota` may only rise.
fn with_rising_limit(mut settings: Vec<Setting>, own: &StoredProperties) -> Vec<Setting> {
    let before = own.all_received().find(|(name, _)| *name == REF_QUOTA);
    let before = before.map(|(_, value)| value.clone());
    let rises = |value: &Stored| match (value, &before) {
        (Stored::Number(0), _) => true,
        (Stored::Number(now), Some(Stored::Number(then))) => *then != 0 && now >= then,
        _ => false,
    };
    let is_limit = |setting: &Setting| setting.name == REF_QUOTA;
    let stays = |setting: &Setting| !is_limit(setting) || setting.value.as_ref().is_some_and(rises);
    settings.retain(stays);
    if !settings.iter().any(is_limit) {
        settings.extend(before.clone().map(|value| Setting {
            name: REF_QUOTA.to_owned(),
            value: Some(value),
        }));
    }
    settings
}

/// Whether a property is not inherited.
fn is_per_dataset(name: &str) -> bool {
    Property::by_name(name).is_some_and(|property| property.info().class == Class::PerDataset)
}

/// User properties of a snapshot, as a stream's list has them.
pub(super) fn of_snapshot(list: &NvList) -> Vec<Setting> {
    let text = |(name, value): (&[u8], &NvValue)| {
        let name = String::from_utf8(name.to_vec()).ok()?;
        let NvValue::String(text) = value else {
            return None;
        };
        let text = String::from_utf8(text.clone()).ok()?;
        let purpose = Purpose {
            kinds: Kinds::SNAPSHOT,
            at_creation: true,
        };
        received_setting(&(name, text), purpose).ok()
    };
    list.iter().filter_map(text).collect()
}

fn kinds(plan: &Plan<'_>) -> Result<Kinds, ControlError> {
    Ok(match plan.kind()? {
        ObjsetKind::Volume => Kinds::VOLUME,
        _ => Kinds::FILESYSTEM,
    })
}

/// A value of a stream, if a user could set it.
fn judged(name: &str, value: &NvValue, purpose: Purpose) -> Result<Setting, String> {
    const MALFORMED: &str = "invalid property value";
    let info = Property::by_name(name).map(|property| property.info());
    let text = match (value, info) {
        (NvValue::String(text), _) => String::from_utf8_lossy(text).into_owned(),
        // Numbers that stand for nothing that a user could write.
        (NvValue::Uint64(0 | u64::MAX), Some(info)) if info.format == Format::Number => {
            let Some(NvValue::Uint64(number)) = Some(value) else {
                return Err(MALFORMED.to_owned());
            };
            return Ok(Setting {
                name: name.to_owned(),
                value: Some(Stored::Number(*number)),
            });
        }
        (NvValue::Uint64(number), Some(info)) => match info.format {
            Format::Index(table) => word(table, *number).ok_or(MALFORMED)?.to_owned(),
            _ => number.to_string(),
        },
        _ => return Err(MALFORMED.to_owned()),
    };
    if name == KEY_LOCATION && !is_place_of_key(&text) {
        return Err(format!("invalid {KEY_LOCATION}"));
    }
    if info.is_some_and(|info| info.class == Class::ReadOnly) {
        return Err(format!("'{name}' is readonly"));
    }
    received_setting(&(name.to_owned(), text), purpose).map_err(|error| error.to_string())
}
