//! Lists of dataset properties on the command line.

use cenote_control::model::properties::{self, DATASET, parametric_unit};
use cenote_control::model::{Dataset, DatasetKind, Property, Source, Value};

use cenote_words::context::{Stop, usage};
use cenote_words::format::property::Wanted;
use cenote_words::texts::property_question;

/// Parses a property's name or alias.
pub fn property(name: &str) -> Option<Wanted> {
    if let Some(info) = properties::find(DATASET, name) {
        return Some(Wanted::of(info));
    }
    let known = properties::is_user_property(name) || parametric_unit(name).is_some();
    known.then(|| Wanted::named(name))
}

/// Parses a list of properties.
pub fn properties(list: &str) -> Result<Vec<Wanted>, Stop> {
    if list.is_empty() {
        return usage("bad property list: no properties specified");
    }
    let mut wanted = Vec::new();
    for name in list.split(',') {
        match property(name) {
            Some(property) => wanted.push(property),
            None => {
                let question = property_question(name, DATASET);
                return usage(format!(
                    "bad property list: invalid property '{name}'{question}"
                ));
            }
        }
    }
    Ok(wanted)
}

/// A dataset's property; name, type and createtxg come from the dataset itself.
pub fn value_of(dataset: &Dataset, wanted: &Wanted) -> Option<Property> {
    let own = |value: Value| Some(Property::new(&wanted.name, value, Source::None));
    match wanted.name.as_str() {
        "name" => own(Value::Text(dataset.name.clone())),
        "type" => own(Value::from(dataset.kind.word())),
        "createtxg" => own(Value::Number(dataset.create_txg)),
        name => dataset.property(name).cloned(),
    }
}

/// The word for a kind in JSON.
pub fn json_kind(kind: DatasetKind) -> &'static str {
    match kind {
        DatasetKind::Filesystem => "FILESYSTEM",
        DatasetKind::Volume => "VOLUME",
        DatasetKind::Snapshot => "SNAPSHOT",
        DatasetKind::Bookmark => "BOOKMARK",
    }
}

/// What a dataset's JSON object begins with.
pub fn json_header(dataset: &Dataset, bare: bool) -> cenote_words::format::json::Object {
    let mut object = cenote_words::format::json::Object::new();
    object.put("name", dataset.name.as_str());
    object.put("type", json_kind(dataset.kind));
    object.put("pool", dataset.pool());
    let txg = cenote_words::format::json::number(dataset.create_txg, bare);
    object.put("createtxg", txg);
    if dataset.kind == DatasetKind::Snapshot
        && let Some((parent, name)) = dataset.name.split_once('@')
    {
        object.put("dataset", parent);
        object.put("snapshot_name", name);
    }
    object
}
