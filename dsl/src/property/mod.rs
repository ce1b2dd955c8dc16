//! Properties of datasets: the table, what is stored, what is inherited, what is computed.
//!
//! A property is looked up on a snapshot itself, then from its directory upwards (format/3a 11);
//! a property that is not inheritable only on the dataset that it belongs to. Read-only
//! properties are computed from the stored structures at each request. Properties of the file
//! system as such (version, case sensitivity) are read from its object set, also without its
//! key: they are authenticated and not encrypted.

mod computed;
pub mod parse;
pub mod stored;
mod value;

pub use cenote_ondisk::properties::{table, words};
pub use stored::{Stored, StoredProperties};
pub use table::{Class, Format, Kinds, Property, PropertyInfo, TABLE, UNLIMITED};
pub use value::{PropertyReport, PropertySource, PropertyValue};

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use std::collections::BTreeSet;
use stored::Setting;

/// A stored value that is in effect, and where it was found.
pub(crate) struct Found {
    pub value: Stored,
    pub source: PropertySource,
    /// The directory that it comes from, or `None` for a snapshot's own.
    pub place: Option<DatasetName>,
}

impl Dataset {
    /// The stored value in effect for a property or user property.
    pub(crate) fn find_stored(
        &self,
        name: &str,
        inheritable: bool,
    ) -> Result<Option<Found>, DslError> {
        let own_source = |setting| match setting {
            Setting::Local => PropertySource::Local,
            Setting::Received => PropertySource::Received,
        };
        if self.is_snapshot() {
            if let Some((value, setting)) = self.own_properties()?.effective(name) {
                let (source, place) = (own_source(setting), None);
                return Ok(Some(Found {
                    value,
                    source,
                    place,
                }));
            }
            if !inheritable {
                return Ok(None);
            }
        }
        for (above, directory) in self.directory().ancestry().enumerate() {
            if above > 0 && !inheritable {
                break;
            }
            if let Some((value, setting)) = directory.properties()?.effective(name) {
                let place = directory.name().clone();
                let source = match above == 0 && !self.is_snapshot() {
                    true => own_source(setting),
                    false => PropertySource::Inherited(place.clone()),
                };
                let place = Some(place);
                return Ok(Some(Found {
                    value,
                    source,
                    place,
                }));
            }
        }
        Ok(None)
    }

    fn find(&self, property: Property) -> Result<Option<Found>, DslError> {
        let info = property.info();
        self.find_stored(info.name, info.class == Class::Inheritable)
    }

    /// The number or index in effect for a stored property; its default if it is not set.
    pub fn stored_number(&self, property: Property) -> Result<u64, DslError> {
        let default = match property.info().default {
            table::Unset::Number(number) => number,
            _ => 0,
        };
        Ok(match self.find(property)? {
            Some(Found {
                value: Stored::Number(number),
                ..
            }) => number,
            _ => default,
        })
    }

    /// The value that a stream brought for a property of this dataset, in effect or not.
    fn received(&self, name: &str) -> Result<Option<&Stored>, DslError> {
        Ok(match self.is_snapshot() {
            true => self.own_properties()?.received(name),
            false => self.directory().properties()?.received(name),
        })
    }

    /// One property; `None` if it does not apply to this kind of dataset.
    pub fn property(&self, property: Property) -> Result<Option<PropertyReport>, DslError> {
        let info = property.info();
        let head = self.dataset_type()?.kinds();
        if !info.kinds.applies(head, self.is_snapshot()) {
            return Ok(None);
        }
        let name = info.name.to_owned();
        if let Some((value, source)) = computed::compute(self, property)? {
            let received = None;
            return Ok(Some(PropertyReport {
                name,
                value,
                source,
                received,
            }));
        }
        let received = self.received(info.name)?;
        let received = received.map(|stored| PropertyValue::of_stored(property, stored));
        let (value, source) = match self.find(property)? {
            Some(found) if property == Property::MountPoint => {
                let Found {
                    value,
                    source,
                    place,
                } = found;
                (self.mount_point(&value, place.as_ref()), source)
            }
            Some(found) => (
                PropertyValue::of_stored(property, &found.value),
                found.source,
            ),
            None => self.unset(property),
        };
        Ok(Some(PropertyReport {
            name,
            value,
            source,
            received,
        }))
    }

    /// The value of a property that is not set anywhere.
    fn unset(&self, property: Property) -> (PropertyValue, PropertySource) {
        // Before version 22 limits are in the directory only.
        let phys = self.directory().phys();
        let limit = match property {
            Property::Quota => phys.quota,
            Property::Reservation => phys.reservation,
            _ => 0,
        };
        if limit != 0 {
            return (PropertyValue::Number(limit), PropertySource::Local);
        }
        let default = match property {
            Property::MountPoint => PropertyValue::Text(format!("/{}", self.name())),
            _ => PropertyValue::default_of(property),
        };
        let source = match default {
            PropertyValue::None => PropertySource::None,
            _ => PropertySource::Default,
        };
        (default, source)
    }

    /// The mount point that follows from a value set on `place`: the path below it is appended.
    fn mount_point(&self, value: &Stored, place: Option<&DatasetName>) -> PropertyValue {
        let Stored::Text(text) = value else {
            return PropertyValue::None;
        };
        let name = self.name().dataset_text();
        let below = place.and_then(|place| name.strip_prefix(place.as_str()));
        match below {
            Some(below) if text.starts_with('/') => {
                let below = below.trim_start_matches('/');
                let stem = text.trim_end_matches('/');
                match below.is_empty() {
                    true => PropertyValue::Text(text.clone()),
                    false => PropertyValue::Text(format!("{stem}/{below}")),
                }
            }
            _ => PropertyValue::Text(text.clone()),
        }
    }

    /// A user property (its name has a colon); `None` if it is not set anywhere.
    pub fn user_property(&self, name: &str) -> Result<Option<PropertyReport>, DslError> {
        let found = self.find_stored(name, true)?;
        let received = self.received(name)?.map(plain);
        let (value, source) = match (found, &received) {
            (Some(found), _) => (plain(&found.value), found.source),
            (None, Some(_)) => (PropertyValue::None, PropertySource::None),
            (None, None) => return Ok(None),
        };
        let name = name.to_owned();
        Ok(Some(PropertyReport {
            name,
            value,
            source,
            received,
        }))
    }

    /// The names of all user properties in effect, in order.
    pub fn user_property_names(&self) -> Result<BTreeSet<String>, DslError> {
        let mut names = BTreeSet::new();
        if self.is_snapshot() {
            names.extend(self.own_properties()?.user_names().map(str::to_owned));
        }
        for directory in self.directory().ancestry() {
            names.extend(directory.properties()?.user_names().map(str::to_owned));
        }
        Ok(names)
    }

    /// Everything that `zfs get all` shows: what applies and has a value, then user properties.
    ///
    /// Whether it is mounted only the caller knows, and so it is left out.
    pub fn all_properties(&self) -> Result<Vec<PropertyReport>, DslError> {
        let mut reports = Vec::new();
        for info in TABLE.iter().filter(|info| info.property.is_listed()) {
            if let Some(report) = self.property(info.property)?
                && !self.is_left_out(&report)
            {
                reports.push(report);
            }
        }
        for name in self.user_property_names()? {
            if let Some(report) = self.user_property(&name)?
                && !report.value.is_none()
            {
                reports.push(report);
            }
        }
        Ok(reports)
    }

    fn is_left_out(&self, report: &PropertyReport) -> bool {
        match &report.value {
            PropertyValue::None => true,
            PropertyValue::Text(text) => text.is_empty(),
            PropertyValue::Number(_) => false,
        }
    }
}

fn plain(stored: &Stored) -> PropertyValue {
    match stored {
        Stored::Number(number) => PropertyValue::Number(*number),
        Stored::Text(text) => PropertyValue::Text(text.clone()),
    }
}
