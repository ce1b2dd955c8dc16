//! Properties that come with a stream, those given instead, and those left out (format/4 7.3, 7.5).
//!
//! What a stream says is judged as what a user would say: a value that nobody could set is not
//! stored, and told of.

use super::plan::Plan;
use super::session::Session;
use crate::errors::of_dsl;
use crate::registry::imported::Imported;
use crate::values::setting;
use cenote_control::model::{ControlError, ReceiveNote};
use cenote_dsl::property::StoredProperties;
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::{Class, Format, Kinds, Property};
use cenote_dsl::property::words::word;
use cenote_dsl::write::{SetProperties, SetReceived, Setting};
use cenote_dsl::{DatasetName, Stored};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::{NvList, NvValue};
use std::sync::Arc;

/// What only the contents or the keys of a dataset say, or what follows from them.
const NOT_STORED: [&str; 12] = [
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
    "refquota",
];

impl Session<'_> {
    /// What is set locally on a new dataset, for `-o`.
    pub fn local(&self, plan: &Plan<'_>) -> Result<Vec<Setting>, ControlError> {
        let purpose = Purpose {
            kinds: kinds(plan)?,
            at_creation: true,
        };
        let given = self.asked.properties.iter();
        given.map(|pair| setting(pair, purpose)).collect()
    }

    /// Stores what came with the stream, and what was asked for beside it.
    pub fn set_properties(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        list: Option<&NvList>,
    ) -> Result<(), ControlError> {
        let is_top = plan.is_top;
        if let Some(list) = list {
            let settings = self.received(plan, list)?;
            self.store_received(imported, plan, plan.name.clone(), settings)?;
        }
        let has_local = |name: &str| self.asked.properties.iter().any(|pair| pair.0 == name);
        let target = plan.target()?;
        let own = match &target {
            Some(target) => target.directory().properties().map_err(of_dsl)?.clone(),
            None => StoredProperties::default(),
        };
        let mut settings = match is_top {
            true => self.local(plan)?,
            false => Vec::new(),
        };
        let below = self.asked.properties.iter().map(|pair| &pair.0);
        let below = below.filter(|_| !is_top);
        for name in self.asked.excluded.iter().chain(below) {
            let is_known = name.contains(':') || Property::by_name(name).is_some();
            if !is_known {
                return Err(ControlError::NoSuchProperty {
                    property: name.clone(),
                });
            }
            // What is set locally is not the stream's.
            if is_top && has_local(name) || own.get(name).is_some() {
                continue;
            }
            settings.push(Setting {
                name: name.clone(),
                value: None,
            });
        }
        if settings.is_empty() {
            return Ok(());
        }
        let name = plan.name.clone();
        self.run(imported, plan, SetProperties { name, settings }, false)?;
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
        setting(&(name, text), purpose).ok()
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
    setting(&(name.to_owned(), text), purpose).map_err(|error| error.to_string())
}
