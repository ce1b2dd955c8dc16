//! Properties that come with a stream, those given instead, and those left out (format/4 7.3, 7.5).
//!
//! What a stream says is judged as what a user would say: a value that nobody could set is not
//! stored, and told of.

use super::plan::{KEY_PROPERTIES, Plan};
use super::session::Session;
use crate::errors::of_dsl;
use crate::keys::new::{KEY_LOCATION, KeyGiven, check_location, new_encryption};
use crate::registry::approvals::said;
use crate::registry::imported::Imported;
use crate::values::{received_setting, setting};
use cenote_control::model::{ControlError, Pair, ReceiveNote};
use cenote_dsl::property::StoredProperties;
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::{Class, Format, Kinds, Property};
use cenote_dsl::property::words::word;
use cenote_dsl::write::{Encryption, SetProperties, SetReceived, Setting};
use cenote_dsl::{Dataset, DatasetName, Stored};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{NvList, NvValue};
use std::sync::Arc;

/// What only the contents or the keys of a dataset say, or what follows from them.
const NOT_STORED: [&str; 11] = [
    "version",
    "utf8only",
    "normalization",
    "casesensitivity",
    "volsize",
    "volblocksize",
    "encryption",
    "keyformat",
    "keylocation",
    "pbkdf2iters",
    "origin",
];
/// What would limit the contents that are still to come.
const REF_QUOTA: &str = "refquota";
/// Where it waits while a stream that was cut is resumed: the rest of a stream has no list of
/// properties. A user property, which other systems leave alone.
const WAITING_REF_QUOTA: &str = "com.cenote:waiting-refquota";
const KEY_FORMAT: &str = "keyformat";

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
            at_creation: true,
        };
        let given = &self.asked.properties;
        // A new key is stored with its location.
        let has_key = given.iter().any(|(name, _)| name == KEY_FORMAT);
        let is_stored = |(name, _): &&Pair| {
            !(KEY_PROPERTIES.contains(&name.as_str()) || has_key && name == KEY_LOCATION)
        };
        let given = given.iter().filter(is_stored);
        given.map(|pair| setting(pair, purpose)).collect()
    }

    /// Stores what came with the stream, and what was asked for beside it, before the contents
    /// come.
    pub fn set_properties(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
    ) -> Result<(), ControlError> {
        let target = plan.target()?;
        let own = own_properties(target.as_ref())?;
        if let Some(list) = plan.dataset.and_then(|dataset| dataset.properties.as_ref()) {
            let settings = self.received_but(plan, list, &own)?;
            let settings = before_contents(settings, &own, self.asked.resumable);
            self.store_received(imported, plan, plan.name.clone(), settings)?;
        }
        let has_local = |name: &str| self.asked.properties.iter().any(|pair| pair.0 == name);
        let mut settings = match plan.is_top {
            true => self.local(plan)?,
            false => Vec::new(),
        };
        settings.retain(|setting| setting.name != REF_QUOTA);
        for name in self.left_out(plan) {
            let is_known = name.contains(':') || Property::by_name(name).is_some();
            if !is_known {
                return Err(ControlError::NoSuchProperty {
                    property: name.clone(),
                });
            }
            // What is set locally is not the stream's, and keys are none of its properties.
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
        if let Some(target) = &target {
            check_location(target, &settings)?;
        }
        drop(target);
        self.set(imported, plan, settings)
    }

    /// Stores what would have limited the contents, when they are there.
    pub fn settle_properties(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
    ) -> Result<(), ControlError> {
        if !plan.is_last() {
            return Ok(());
        }
        let is_late = |setting: &Setting| setting.name == REF_QUOTA;
        if let Some(list) = plan.dataset.and_then(|dataset| dataset.properties.as_ref()) {
            let own = own_properties(plan.target()?.as_ref())?;
            let settings = self.received_but(plan, list, &own)?;
            if settings.iter().any(is_late) {
                self.store_received(imported, plan, plan.name.clone(), settings)?;
            }
        } else if plan.is_resuming() {
            let own = own_properties(plan.target()?.as_ref())?;
            if let Some(settings) = with_waiting(&own) {
                self.store_received(imported, plan, plan.name.clone(), settings)?;
            }
        }
        if !plan.is_top {
            return Ok(());
        }
        let mut settings = self.local(plan)?;
        settings.retain(is_late);
        self.set(imported, plan, settings)
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
        self.run(imported, plan, SetProperties { name, settings }, false)?;
        let approvals = &self.context.registry.approvals;
        approvals.said(imported, &plan.name, &said);
        Ok(())
    }

    /// Stores what came with a stream for a dataset or snapshot.
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
        for (property, error) in done.refused {
            self.refuse_property(&name, &property, &error.to_string());
        }
        Ok(())
    }

    fn refuse_property(&self, name: &DatasetName, property: &str, reason: &str) {
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

    /// The values of a stream's list that count. What nobody inherits, as a quota, stays what it
    /// was where it is left out.
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
            if NOT_STORED.contains(&name.as_str()) {
                continue;
            }
            match judged(&name, value, purpose) {
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

/// What is set before the contents come: of the limit on them only what makes room.
fn before_contents(
    settings: Vec<Setting>,
    own: &StoredProperties,
    is_resumable: bool,
) -> Vec<Setting> {
    let before = own.all_received().find(|(name, _)| *name == REF_QUOTA);
    let before = before.map(|(_, value)| value.clone());
    let rises = |value: &Stored| match (value, &before) {
        (Stored::Number(0), _) => true,
        (Stored::Number(now), Some(Stored::Number(then))) => *then != 0 && now >= then,
        _ => false,
    };
    let is_early =
        |setting: &Setting| setting.name != REF_QUOTA || setting.value.as_ref().is_some_and(rises);
    let (mut settings, late): (Vec<Setting>, Vec<Setting>) =
        settings.into_iter().partition(is_early);
    let Some(Stored::Number(limit)) = late.into_iter().find_map(|late| late.value) else {
        return settings;
    };
    settings.extend(before.map(|value| Setting {
        name: REF_QUOTA.to_owned(),
        value: Some(value),
    }));
    if is_resumable {
        settings.push(Setting {
            name: WAITING_REF_QUOTA.to_owned(),
            value: Some(Stored::Text(limit.to_string())),
        });
    }
    settings
}

/// What a stream brought, with the limit that has waited for the rest of it.
fn with_waiting(own: &StoredProperties) -> Option<Vec<Setting>> {
    let is_waiting = |(name, _): &(&str, &Stored)| *name == WAITING_REF_QUOTA;
    let (_, waiting) = own.all_received().find(is_waiting)?;
    let Stored::Text(text) = waiting else {
        return None;
    };
    let number = text.parse().ok()?;
    let others = own.all_received();
    let others = others.filter(|(name, _)| ![WAITING_REF_QUOTA, REF_QUOTA].contains(name));
    let limit = (REF_QUOTA, &Stored::Number(number));
    let settings = others.chain([limit]).map(|(name, value)| Setting {
        name: name.to_owned(),
        value: Some(value.clone()),
    });
    Some(settings.collect())
}

/// Whether nobody inherits a property.
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
    if info.is_some_and(|info| info.class == Class::ReadOnly) {
        return Err(format!("'{name}' is readonly"));
    }
    received_setting(&(name.to_owned(), text), purpose).map_err(|error| error.to_string())
}
