//! Where ordinary users may have file systems mounted: in directories of their own.

use super::{DENIED, Judge};
use crate::errors::parse_name;
use crate::imported::Imported;
use crate::mounts::make::mounts_by_itself;
use crate::mounts::options::text_of;
use crate::mounts::places::{is_place_of, own_mount_point};
use cenote_control::model::ControlError;
use cenote_dsl::{Dataset, DatasetName, Property, PropertySource};
use std::path::Path;

impl Judge<'_> {
    /// Refuses to mount a file system at its own place if the user may not.
    pub(super) fn mount(&self, name: &DatasetName) -> Result<(), ControlError> {
        self.needs(name.as_str(), &["mount"])?;
        let (imported, dataset) = self.registry.dataset(name)?;
        self.place(&imported, &dataset)
    }

    /// The same of one among many, of which some are not to be mounted.
    pub(super) fn mount_of_many(&self, name: &DatasetName) -> Result<(), ControlError> {
        let (_, dataset) = self.registry.dataset(name)?;
        match mounts_by_itself(self.mounts, &dataset) {
            true => self.mount(name),
            false => Ok(()),
        }
    }

    fn place(&self, imported: &Imported, dataset: &Dataset) -> Result<(), ControlError> {
        match self.mounts.is_at_own_place(dataset.name().as_str()) {
            // The mount itself says what is wrong.
            true => Ok(()),
            false => self.own_directory(&own_mount_point(imported, dataset)?),
        }
    }

    fn own_directory(&self, place: &Path) -> Result<(), ControlError> {
        match is_place_of(place, self.rights.user.id) {
            true => Ok(()),
            false => DENIED,
        }
    }

    /// Refuses a mount point that the user may not have.
    pub(super) fn mount_point(&self, dataset: &str, value: &str) -> Result<(), ControlError> {
        let name = parse_name(dataset)?;
        let imported = self.registry.pool(name.pool())?;
        match value.starts_with('/') {
            true => self.own_directory(&imported.place(value)),
            // Other values name no directory, or are no values.
            false => Ok(()),
        }
    }

    /// Refuses to give a dataset the place that follows from a name, if the user may not have it.
    pub(super) fn derived_place(&self, name: &DatasetName) -> Result<(), ControlError> {
        let imported = self.registry.pool(name.pool())?;
        let above = std::iter::successors(name.parent(), DatasetName::parent);
        for parent in above {
            let Ok(dataset) = imported.dsl().dataset(&parent) else {
                continue;
            };
            let rest = name.as_str().strip_prefix(parent.as_str());
            return match text_of(&dataset, Property::MountPoint) {
                Some(place) if place.starts_with('/') => {
                    let place = format!("{}{}", place.trim_end_matches('/'), rest.unwrap_or(""));
                    self.own_directory(&imported.place(&place))
                }
                _ => Ok(()),
            };
        }
        // The root of a pool has its place from the pool's name.
        DENIED
    }

    /// Refuses to move the mounts of a dataset to where another name leads.
    pub(super) fn renamed_place(
        &self,
        from: &DatasetName,
        to: &DatasetName,
    ) -> Result<(), ControlError> {
        let (_, dataset) = self.registry.dataset(from)?;
        let report = dataset.property(Property::MountPoint);
        let source = report.ok().flatten().map(|report| report.source);
        match source {
            Some(PropertySource::Default | PropertySource::Inherited(_)) => self.derived_place(to),
            _ => Ok(()),
        }
    }
}
