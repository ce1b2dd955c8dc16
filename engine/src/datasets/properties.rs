//! Properties of datasets as clients see them: what is stored, and what only a running system
//! knows (mounts, temporary options, the alternative root, accounts).

use crate::errors::of_dsl;
use cenote_control::model::properties::ACCOUNTING;
use cenote_control::model::{ControlError, Property, PropertySelection, Source, Value};
use cenote_dsl::{Bookmark, Dataset, DatasetName, PropertyReport, PropertySource, PropertyValue};
use cenote_ondisk::bookmark_phys::FLAG_HAS_FREED_BEFORE_NEXT;
use cenote_posix::{AccountKind, FileSystem};

use super::accounts::{Accounts, owner_id};
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;

fn value_of(value: PropertyValue) -> Value {
    match value {
        PropertyValue::None => Value::None,
        PropertyValue::Number(number) => Value::Number(number),
        PropertyValue::Text(text) => Value::Text(text),
    }
}

fn source_of(source: PropertySource) -> Source {
    match source {
        PropertySource::None => Source::None,
        PropertySource::Default => Source::Default,
        PropertySource::Local => Source::Local,
        PropertySource::Temporary => Source::Temporary,
        PropertySource::Inherited(from) => Source::Inherited(from.as_str().to_owned()),
        PropertySource::Received => Source::Received,
    }
}

fn property_of(report: PropertyReport) -> Property {
    Property {
        name: report.name,
        value: value_of(report.value),
        source: source_of(report.source),
        received: report.received.map(value_of),
    }
}

/// The wanted properties of a head or snapshot.
pub(crate) fn dataset_properties(
    mounts: &Mounts,
    imported: &Imported,
    dataset: &Dataset,
    selection: &PropertySelection,
) -> Result<Vec<Property>, ControlError> {
    let mut properties = Vec::new();
    match selection {
        PropertySelection::All => {
            properties.extend(
                dataset
                    .all_properties()
                    .map_err(of_dsl)?
                    .into_iter()
                    .map(property_of),
            );
            properties.extend(mounted(mounts, dataset)?);
        }
        PropertySelection::Named(names) => {
            let mut accounts = Accounts::default();
            for name in names {
                properties.extend(named(mounts, imported, dataset, name, &mut accounts)?);
            }
        }
    }
    for property in &mut properties {
        adjust(mounts, imported, dataset, property);
    }
    Ok(properties)
}

fn mounted(mounts: &Mounts, dataset: &Dataset) -> Result<Option<Property>, ControlError> {
    let applies = dataset
        .property(cenote_dsl::Property::Mounted)
        .map_err(of_dsl)?
        .is_some();
    let place = mounts.place_of(dataset.name().as_str());
    let word = if place.is_some() { "yes" } else { "no" };
    Ok(applies.then(|| Property::read_only("mounted", word)))
}

fn named(
    mounts: &Mounts,
    imported: &Imported,
    dataset: &Dataset,
    name: &str,
    accounts: &mut Accounts,
) -> Result<Option<Property>, ControlError> {
    if name == "mounted" {
        return mounted(mounts, dataset);
    }
    if let Some(property) = cenote_dsl::Property::by_name(name) {
        return Ok(dataset.property(property).map_err(of_dsl)?.map(property_of));
    }
    if let Some(snapshot) = name.strip_prefix("written@") {
        return written_since(dataset, name, '@', snapshot);
    }
    if let Some(bookmark) = name.strip_prefix("written#") {
        return written_since(dataset, name, '#', bookmark);
    }
    if ACCOUNTING.iter().any(|prefix| name.starts_with(prefix)) {
        return account(imported, dataset, name, accounts);
    }
    if name.contains(':') {
        return Ok(dataset
            .user_property(name)
            .map_err(of_dsl)?
            .map(property_of));
    }
    Ok(None)
}

/// `written@SNAP` and `written#BOOK`; a snapshot may also be named in full.
fn written_since(
    dataset: &Dataset,
    name: &str,
    delimiter: char,
    since: &str,
) -> Result<Option<Property>, ControlError> {
    let full = match since.contains(['@', '#']) {
        true => since.to_owned(),
        false => format!("{}{delimiter}{since}", dataset.name().dataset_text()),
    };
    let Ok(full) = DatasetName::parse(&full) else {
        return Ok(None);
    };
    let written = match delimiter {
        '@' => match dataset.dsl().dataset(&full) {
            Ok(snapshot) => dataset.written_since(&snapshot).map_err(of_dsl)?,
            Err(_) => None,
        },
        _ => match dataset.dsl().bookmark(&full) {
            Ok(bookmark) => dataset.written_since_bookmark(&bookmark).map_err(of_dsl)?,
            Err(_) => None,
        },
    };
    Ok(written.map(|written| Property::new(name, written, Source::Local)))
}

/// `userused@USER` and similar properties. OpenZFS shows the source `local` for all properties with
/// an argument in their name, even for quotas that are not set.
fn account(
    imported: &Imported,
    dataset: &Dataset,
    name: &str,
    accounts: &mut Accounts,
) -> Result<Option<Property>, ControlError> {
    let Some((what, who)) = name.split_once('@') else {
        return Ok(None);
    };
    let kind = match what {
        what if what.starts_with("user") => AccountKind::User,
        what if what.starts_with("group") => AccountKind::Group,
        _ => AccountKind::Project,
    };
    let Some(id) = owner_id(kind, who) else {
        return Ok(None);
    };
    let open = || -> Option<std::sync::Arc<FileSystem>> { imported.files(dataset).ok() };
    let found = accounts.find(kind, id, open);
    let figure = found.map_or(0, |found| {
        match (what.contains("obj"), what.ends_with("quota")) {
            (false, false) => found.used,
            (false, true) => found.quota,
            (true, false) => found.objects_used,
            (true, true) => found.objects_quota,
        }
    });
    Ok(Some(Property::new(name, figure, Source::Local)))
}

/// What the running system changes: the alternative root, and what options of mounts overrule.
fn adjust(mounts: &Mounts, imported: &Imported, dataset: &Dataset, property: &mut Property) {
    match property.name.as_str() {
        "mountpoint" => {
            if let Some(place) = property.value.text().filter(|text| text.starts_with('/')) {
                let place = imported.place(place);
                property.value = Value::Text(place.to_string_lossy().into_owned());
            }
        }
        "readonly" => {
            let is_on = property.value.text() != Some("off");
            let name = dataset.name().as_str();
            overrule(property, is_on, mounts.is_read_only(name));
        }
        "atime" | "exec" | "setuid" | "devices" | "xattr" => {
            let is_on = property.value.text() != Some("off");
            let name = dataset.name().as_str();
            let given = mounts.temporary(name, &property.name);
            overrule(property, is_on, given);
        }
        _ => {}
    }
}

/// Shows what a mount makes of a property, where that is something else.
fn overrule(property: &mut Property, is_on: bool, given: Option<bool>) {
    if let Some(given) = given.filter(|given| *given != is_on) {
        property.value = Value::from(if given { "on" } else { "off" });
        property.source = Source::Temporary;
    }
}

/// The wanted properties of a bookmark.
pub(crate) fn bookmark_properties(
    imported: &Imported,
    bookmark: &Bookmark,
    selection: &PropertySelection,
) -> Result<Vec<Property>, ControlError> {
    let phys = &bookmark.phys;
    let redaction = imported
        .dsl()
        .redaction_snapshots(bookmark)
        .map_err(of_dsl)?;
    let redaction = redaction.map(|guids| {
        let texts: Vec<_> = guids.iter().map(ToString::to_string).collect();
        texts.join(",")
    });
    let sized = phys.flags & FLAG_HAS_FREED_BEFORE_NEXT != 0;
    let all = [
        ("name", Value::from(bookmark.name.as_str())),
        ("type", Value::from("bookmark")),
        ("creation", Value::from(phys.creation_time)),
        ("referenced", sized.then_some(phys.space.referenced).into()),
        ("createtxg", Value::from(phys.creation_txg.0)),
        ("guid", Value::from(phys.guid.0)),
        (
            "logicalreferenced",
            sized.then_some(phys.space.uncompressed).into(),
        ),
        ("redact_snaps", redaction.into()),
        ("ivsetguid", phys.ivset_guid.map(|guid| guid.0).into()),
    ];
    let wanted = |name: &str| match selection {
        PropertySelection::All => !matches!(name, "name" | "ivsetguid"),
        PropertySelection::Named(names) => names.iter().any(|wanted| wanted == name),
    };
    let found = all
        .into_iter()
        .filter(|(name, value)| wanted(name) && !value.is_none());
    Ok(found
        .map(|(name, value)| Property::read_only(name, value))
        .collect())
}
