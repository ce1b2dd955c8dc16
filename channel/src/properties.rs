//! Properties as programs get them: words, or numbers as they are stored, and the name of the
//! dataset that a value comes from.

use cenote_control::model::properties::ACCOUNTING;
use cenote_dsl::property::table::{Class, Property, TABLE, UNLIMITED};
use cenote_dsl::{
    Dataset, DatasetName, DatasetType, DslError, PropertyReport, PropertySource, PropertyValue,
};
use cenote_posix::{AccountKind, FileSystem};
use cenote_program::{Datum, Refused};
use cenote_registry::imported::Imported;
use cenote_registry::mounts::table::Mounts;

/// A value and the dataset that it comes from.
type Found = (Datum, Option<String>);

const NOTHING: Found = (Datum::Nil, None);

/// The source of values that were never set.
const DEFAULT: &str = "default";
/// The source of what an option of a mount overrules.
const TEMPORARY: &str = "temporary";

fn source_of(dataset: &Dataset, source: PropertySource) -> Option<String> {
    match source {
        PropertySource::None => None,
        PropertySource::Default => Some(DEFAULT.to_owned()),
        PropertySource::Temporary => Some(TEMPORARY.to_owned()),
        PropertySource::Inherited(from) => Some(from.as_str().to_owned()),
        PropertySource::Local | PropertySource::Received => {
            Some(dataset.name().as_str().to_owned())
        }
    }
}

fn datum_of(value: &PropertyValue) -> Datum {
    match value {
        PropertyValue::None => Datum::Nil,
        // Numbers of programs are signed.
        PropertyValue::Number(number) => Datum::Number(number.cast_signed()),
        PropertyValue::Text(text) => Datum::from(text.as_str()),
    }
}

/// One property.
pub(super) fn property(
    imported: &Imported,
    mounts: Option<&Mounts>,
    dataset: &Dataset,
    name: &str,
) -> Result<Found, Refused> {
    let read = |error: DslError| Refused::Error(error.to_string());
    if let Some(property) = Property::by_name(name) {
        return stored(imported, mounts, dataset, property).map_err(read);
    }
    if let Some(since) = name.strip_prefix("written@") {
        return written(dataset, ('@', since));
    }
    if let Some(since) = name.strip_prefix("written#") {
        return written(dataset, ('#', since));
    }
    if ACCOUNTING.iter().any(|prefix| name.starts_with(prefix)) {
        return account(dataset, name);
    }
    if name.contains(':') {
        let found = dataset.user_property(name).map_err(read)?;
        return Ok(found.map_or(NOTHING, |report| {
            (datum_of(&report.value), source_of(dataset, report.source))
        }));
    }
    Err(Refused::Error(format!("property '{name}' does not exist")))
}

/// A property of the table.
fn stored(
    imported: &Imported,
    mounts: Option<&Mounts>,
    dataset: &Dataset,
    property: Property,
) -> Result<Found, DslError> {
    let Some(report) = dataset.property(property)? else {
        return Ok(NOTHING);
    };
    let source = source_of(dataset, report.source.clone());
    let is_read_only = property.info().class == Class::ReadOnly;
    Ok(match property {
        // What programs cannot know, as in OpenZFS.
        Property::Mounted | Property::IscsiOptions => NOTHING,
        Property::Clones => {
            let names = clones(dataset)?;
            let names = names.iter().map(|name| Datum::from(name.as_str()));
            (Datum::list(names), None)
        }
        Property::RedactSnaps => match dataset.redaction_snapshots()? {
            None => NOTHING,
            Some(guids) => {
                let guids = guids
                    .into_iter()
                    .map(|guid| Datum::Number(guid.cast_signed()));
                (Datum::list(guids), None)
            }
        },
        // Numbers that have words in OpenZFS: their digits.
        Property::Copies | Property::Version => (worded(&report), source),
        Property::FilesystemCount | Property::SnapshotCount => match report.value {
            PropertyValue::Number(UNLIMITED) | PropertyValue::None => NOTHING,
            value => (datum_of(&value), None),
        },
        Property::MountPoint => (mount_point(imported, &report), source),
        _ if is_read_only => (datum_of(&report.value), None),
        _ => temporary(mounts, dataset, property).unwrap_or((datum_of(&report.value), source)),
    })
}

fn worded(report: &PropertyReport) -> Datum {
    match &report.value {
        PropertyValue::Number(number) => Datum::from(number.to_string().as_str()),
        value => datum_of(value),
    }
}

fn mount_point(imported: &Imported, report: &PropertyReport) -> Datum {
    match &report.value {
        PropertyValue::Text(text) if text.starts_with('/') => {
            let place = imported.place(text);
            Datum::from(place.to_string_lossy().as_ref())
        }
        value => datum_of(value),
    }
}

/// The value that an option of a mount overrules, if it is another one.
fn temporary(mounts: Option<&Mounts>, dataset: &Dataset, property: Property) -> Option<Found> {
    let (mounts, name) = (mounts?, dataset.name().as_str());
    let given = match property {
        Property::ReadOnly => mounts.is_read_only(name),
        Property::Atime
        | Property::Exec
        | Property::Setuid
        | Property::Devices
        | Property::Xattr => mounts.temporary(name, property.info().name),
        _ => None,
    }?;
    let is_on = dataset.stored_number(property).ok()? != 0;
    let word = if given { "on" } else { "off" };
    (given != is_on).then(|| (Datum::from(word), Some(TEMPORARY.to_owned())))
}

/// `written@SNAP` and `written#BOOK`.
fn written(dataset: &Dataset, (delimiter, since): (char, &str)) -> Result<Found, Refused> {
    let full = match since.contains(['@', '#']) {
        true => since.to_owned(),
        false => format!("{}{delimiter}{since}", dataset.name().dataset_text()),
    };
    let missing = || Refused::Error(format!("'{full}' does not exist"));
    let name = DatasetName::parse(&full).map_err(|_| missing())?;
    let written = match delimiter {
        '@' => {
            let snapshot = dataset.dsl().dataset(&name).map_err(|_| missing())?;
            dataset.written_since(&snapshot)
        }
        _ => {
            let bookmark = dataset.dsl().bookmark(&name).map_err(|_| missing())?;
            dataset.written_since_bookmark(&bookmark)
        }
    };
    let written = written.map_err(|error| Refused::Error(error.to_string()))?;
    let source = Some(dataset.name().as_str().to_owned());
    Ok(written.map_or(NOTHING, |written| {
        (Datum::Number(written.cast_signed()), source)
    }))
}

/// `userused@ID` and similar properties, of the last transaction group.
fn account(dataset: &Dataset, name: &str) -> Result<Found, Refused> {
    let bad = || Refused::Error(format!("property '{name}' does not exist"));
    let (what, id) = name.split_once('@').ok_or_else(bad)?;
    // Programs do not know the names of this machine.
    let id: u64 = id.parse().map_err(|_| bad())?;
    let kind = match what {
        what if what.starts_with("user") => AccountKind::User,
        what if what.starts_with("group") => AccountKind::Group,
        _ => AccountKind::Project,
    };
    let read = |error: DslError| Refused::Error(error.to_string());
    if dataset.dataset_type().map_err(read)? != DatasetType::Filesystem {
        return Ok(NOTHING);
    }
    let files = FileSystem::open(dataset.object_set().map_err(read)?);
    let accounts = files.and_then(|files| files.accounts(kind));
    let accounts = accounts.map_err(|error| Refused::Error(error.to_string()))?;
    let account = accounts.iter().find(|account| account.fuid.0 == id);
    let is_quota = what.ends_with("quota");
    let figure = account.map_or(0, |account| match (what.contains("obj"), is_quota) {
        (false, false) => account.used,
        (false, true) => account.quota,
        (true, false) => account.objects_used,
        (true, true) => account.objects_quota,
    });
    if is_quota && figure == 0 {
        return Ok(NOTHING);
    }
    let source = dataset.name().as_str().to_owned();
    Ok((Datum::Number(figure.cast_signed()), Some(source)))
}

/// Names, values and sources of user properties.
pub(super) fn user_properties(dataset: &Dataset) -> Result<Vec<Vec<Datum>>, DslError> {
    let mut rows = Vec::new();
    for name in dataset.user_property_names()? {
        let Some(report) = dataset.user_property(&name)? else {
            continue;
        };
        if report.value.is_none() {
            continue;
        }
        let source = source_of(dataset, report.source).unwrap_or_default();
        rows.push(vec![
            Datum::from(name.as_str()),
            datum_of(&report.value),
            Datum::from(source.as_str()),
        ]);
    }
    Ok(rows)
}

/// The names of properties that a dataset has.
pub(super) fn system_properties(dataset: &Dataset) -> Result<Vec<&'static str>, DslError> {
    let mut names = Vec::new();
    for info in TABLE {
        if dataset.property(info.property)?.is_some() {
            names.push(info.name);
        }
    }
    Ok(names)
}

/// The names of the clones of a snapshot.
pub(super) fn clones(snapshot: &Dataset) -> Result<Vec<DatasetName>, DslError> {
    let mut names = Vec::new();
    for clone in snapshot.next_clones()? {
        // This is the clone's oldest snapshot, or the clone itself.
        let clone = snapshot.dsl().dataset_of(clone)?;
        let name = clone.directory().name();
        if !name.is_hidden() {
            names.push(name.clone());
        }
    }
    names.sort();
    Ok(names)
}
