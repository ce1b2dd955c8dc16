//! The subcommands that change datasets: `destroy`, `rename`, `set`, `inherit`, `change-key`.
//!
//! Names are checked and keys are read here; the daemon checks everything else.

use super::dependents::{clones_of, dependents, doomed};
use super::material;
use cenote_control::model::properties::{self, DATASET, dataset_effect};
use cenote_control::model::{Change, ControlError, DatasetKind, Request, Response, Secret};
use cenote_ondisk::properties::table::{Format, Property, Unset};
use cenote_ondisk::properties::words::word;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_name, property_question, with_context};
use std::collections::HashSet;

pub type Pairs = Vec<(String, String)>;

pub fn ask(
    change: Change,
    command: String,
    context: &mut Context,
) -> Result<Response, ControlError> {
    context.ask(Request::Change { change, command })
}

/// The pairs of `-o`, with full property names.
pub fn pairs(parsed: &Parsed) -> Result<Pairs, Stop> {
    let mut pairs: Pairs = Vec::new();
    for word in parsed.all("o") {
        let Some((name, value)) = word.split_once('=') else {
            return failed("missing '=' for property=value argument");
        };
        pairs.push((full_name(name), value.to_owned()));
    }
    match named_twice(pairs.iter().map(|(name, _)| name)) {
        Some(problem) => failed(problem),
        None => Ok(pairs),
    }
}

/// The error message if a property is given more than once, by any name.
pub fn named_twice<'n>(names: impl IntoIterator<Item = &'n String>) -> Option<String> {
    let mut seen = HashSet::new();
    let twice = names.into_iter().find(|name| !seen.insert(*name))?;
    Some(format!("property '{twice}' specified multiple times"))
}

/// The full name of a property, which may be given by its short name.
pub fn full_name(name: &str) -> String {
    let known = properties::find(DATASET, name);
    known.map_or(name, |info| info.name).to_owned()
}

/// Whether the properties of a new dataset require a key.
pub fn wants_key(properties: &[(String, String)]) -> bool {
    let speaks = |(name, value): &(String, String)| {
        matches!(name.as_str(), "encryption" | "keyformat") && value != "off" && value != "none"
    };
    properties.iter().any(speaks)
}

/// The key of a new encryption root, if the properties make the dataset one.
pub fn new_key(
    name: &str,
    properties: &[(String, String)],
    context: &mut Context,
) -> Result<Option<Secret>, Stop> {
    let value = |wanted: &str| {
        let mut pairs = properties.iter();
        pairs
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    let Some(format) = value("keyformat").filter(|format| *format != "none") else {
        return Ok(None);
    };
    let location = value("keylocation").unwrap_or("prompt");
    context.flush();
    match material::read_new(name, format, location) {
        Ok(key) => Ok(Some(key)),
        Err(reason) => failed(format!("cannot create '{name}': {reason}")),
    }
}

/// `zfs destroy [-fnpRrv] FILESYSTEM|VOLUME`
pub fn destroy(name: &str, parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let what = format!("cannot destroy '{name}'");
    let (dry_run, recursive) = (parsed.has("n"), parsed.has("r") || parsed.has("R"));
    if !name.contains('/') && !recursive {
        return failed(format!(
            "{what}: operation does not apply to pools\n\
             use 'zfs destroy -r {name}' to destroy all datasets in the pool\n\
             use 'zpool destroy {name}' to destroy the pool itself"
        ));
    }
    let doomed = doomed(name, context)?;
    let others = || doomed.iter().filter(|row| row.name != name);
    let word = match doomed.last() {
        Some(row) if row.kind == DatasetKind::Volume => "volume",
        _ => "filesystem",
    };
    if !recursive && doomed.len() > 1 {
        let mut lines =
            format!("{what}: {word} has children\nuse '-r' to destroy the following datasets:");
        for other in others() {
            lines.push('\n');
            lines.push_str(&other.name);
        }
        return failed(lines);
    }
    if !clones_of(&doomed).is_empty() && !parsed.has("R") {
        return failed(format!(
            "{what}: {word} has dependent clones\n\
             use '-R' to destroy the following datasets:\n{}",
            dependents(&doomed, context)?.join("\n")
        ));
    }
    if parsed.has("v") || parsed.has("p") {
        // The root dataset of a pool cannot be destroyed.
        for other in doomed.iter().filter(|row| row.name.contains(['/', '@'])) {
            let other = &other.name;
            let line = match (parsed.has("p"), dry_run) {
                (true, _) => format!("destroy\t{other}"),
                (false, true) => format!("would destroy {other}"),
                (false, false) => format!("will destroy {other}"),
            };
            context.line(&line);
        }
    }
    let change = Change::DestroyDataset {
        dataset: name.to_owned(),
        recursive,
        clones: parsed.has("R"),
        force: parsed.has("f"),
        dry_run,
    };
    match ask(change, command, context) {
        Ok(Response::Failures { failures, .. }) => {
            for (other, error) in &failures {
                context.complain(&with_context(&format!("cannot destroy '{other}'"), error));
            }
            Ok(u8::from(!failures.is_empty()))
        }
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(&what, &error)),
    }
}

/// `zfs rename [-f] [-p] [-u] A B`
pub fn rename(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [from, to] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    if parsed.has("r") {
        return usage("source dataset for recursive rename must be a snapshot");
    }
    if let Err(fault) = check_name(to, false, false) {
        return failed(format!("cannot rename to '{to}': {fault}"));
    }
    if to.contains('%') {
        return failed(format!(
            "cannot rename to '{to}': invalid character % in name"
        ));
    }
    if !to.contains('/') {
        return failed(format!("cannot create '{to}': missing dataset name"));
    }
    if from.split('/').next() != to.split('/').next() {
        return failed(format!(
            "cannot rename to '{to}': datasets must be within same pool"
        ));
    }
    let change = Change::RenameDataset {
        from: from.clone(),
        to: to.clone(),
        parents: parsed.has("p"),
        force: parsed.has("f"),
        unmounted: parsed.has("u"),
    };
    match ask(change, command, context) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{name}'"), error));
            }
            context.complain("filesystem successfully renamed, but not mounted");
            Ok(u8::from(!failures.is_empty()))
        }
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchDataset { .. }) => failed(cannot_open(from, &error)),
        Err(error @ (ControlError::NoParent { .. } | ControlError::ParentNotFilesystem { .. })) => {
            failed(with_context(&format!("cannot create '{to}'"), &error))
        }
        Err(error @ ControlError::IntoItself { .. }) => {
            failed(with_context(&format!("cannot rename to '{to}'"), &error))
        }
        Err(error) => failed(with_context(&format!("cannot rename '{from}'"), &error)),
    }
}

/// `zfs set [-u] P=V… DATASET…`
pub fn set(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.operands.is_empty() {
        return usage("missing arguments");
    }
    let is_pair = |word: &&String| word.contains('=');
    let count = parsed.operands.iter().take_while(is_pair).count();
    if count == 0 {
        return usage("missing property=value argument(s)");
    }
    let (words, datasets) = parsed.operands.split_at(count);
    if datasets.is_empty() {
        return usage("missing dataset name(s)");
    }
    let split = |word: &String| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (full_name(name), value.to_owned())
    };
    let properties: Pairs = words.iter().map(split).collect();
    if let Some(problem) = named_twice(properties.iter().map(|(name, _)| name)) {
        context.complain(&problem);
        return Err(Stop::Code(255));
    }
    let change = Change::SetProperties {
        datasets: datasets.to_vec(),
        properties: properties.clone(),
        unmounted: parsed.has("u"),
    };
    let command = context.command.clone();
    let what = |name: &str| format!("cannot set property for '{name}'");
    let ended = finish(ask(change, command, context), what, datasets, 255, context);
    if matches!(ended, Ok(0)) {
        tell_of_kept(&properties, context);
    }
    ended
}

/// Reports which properties of datasets were stored but have no effect here.
pub fn tell_of_kept(properties: &[(String, String)], context: &mut Context) {
    let changed = properties
        .iter()
        .filter(|(name, value)| !is_default(name, value));
    for (name, _) in changed {
        context.tell_of_effect(name, dataset_effect(name));
    }
}

/// Whether a property is set to its default: then no message about a missing effect is needed.
fn is_default(name: &str, value: &str) -> bool {
    let Some(info) = Property::by_name(name).map(Property::info) else {
        return false;
    };
    match (info.format, info.default) {
        (Format::Index(words), Unset::Number(number)) => word(words, number) == Some(value),
        (Format::Number, Unset::Number(number)) => value.parse() == Ok(number),
        (_, Unset::Text(text)) => text == value,
        _ => value == "none",
    }
}

/// `zfs inherit [-rS] P DATASET…`
pub fn inherit(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let Some((property, datasets)) = parsed.operands.split_first() else {
        return usage("missing property argument");
    };
    if datasets.is_empty() {
        return usage("missing dataset argument");
    }
    check_inheritance(property, parsed.has("S"))?;
    let change = Change::InheritProperty {
        datasets: datasets.to_vec(),
        property: full_name(property),
        recursive: parsed.has("r"),
        received: parsed.has("S"),
    };
    let what = |name: &str| format!("cannot inherit {property} for '{name}'");
    finish(ask(change, command, context), what, datasets, 1, context)
}

/// Refuses properties that cannot be inherited, and says what to do instead.
fn check_inheritance(property: &str, received: bool) -> Result<(), Stop> {
    let Some(info) = properties::find(DATASET, property) else {
        return match properties::is_user_property(property) {
            true => Ok(()),
            false => {
                let question = property_question(property, DATASET);
                usage(format!("invalid property '{property}'{question}"))
            }
        };
    };
    let name = info.name;
    if !info.editable {
        return failed(format!("{name} property is read-only"));
    }
    if info.inherits || received {
        return Ok(());
    }
    let mut text = format!("'{name}' property cannot be inherited");
    if ["quota", "reservation", "refquota", "refreservation"].contains(&name) {
        text.push_str(&format!(
            "\nuse 'zfs set {name}=none' to clear\n\
             use 'zfs inherit -S {name}' to revert to received value"
        ));
    }
    failed(text)
}

/// Reports each failure; for missing datasets in the words of `cannot open`.
fn finish(
    answer: Result<Response, ControlError>,
    what: impl Fn(&str) -> String,
    datasets: &[String],
    code: u8,
    context: &mut Context,
) -> Outcome {
    let failures = match answer {
        Ok(Response::Failures { failures, .. }) => failures,
        Ok(Response::Done) => return Ok(0),
        Ok(_) => return failed(with_context("cannot change datasets", &mismatch())),
        Err(error) => {
            let name = datasets.first().cloned().unwrap_or_default();
            vec![(name, error)]
        }
    };
    for (name, error) in &failures {
        let line = match error {
            ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. } => {
                cannot_open(name, error)
            }
            error => with_context(&what(name), error),
        };
        context.complain(&line);
    }
    let is_missing = |(_, error): &(String, ControlError)| {
        matches!(
            error,
            ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. }
        )
    };
    match failures.last() {
        None => Ok(0),
        // With any command, a missing dataset exits with 1.
        Some(last) if is_missing(last) => Err(Stop::Code(1)),
        Some(_) => Err(Stop::Code(code)),
    }
}

/// `zfs change-key [-l] [-o P=V]… DATASET`, `zfs change-key -i [-l] DATASET`
pub fn change_key(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let dataset = match parsed.operands.as_slice() {
        [dataset] => dataset.clone(),
        [] => return usage("Missing dataset argument"),
        _ => return usage("Too many arguments"),
    };
    let properties = pairs(parsed)?;
    let inherit = parsed.has("i");
    if inherit && !properties.is_empty() {
        return usage("Properties not allowed for inheriting");
    }
    if parsed.has("l") && super::keys::load_for(&dataset, context) != 0 {
        return Err(Stop::Code(255));
    }
    let key = match inherit {
        true => None,
        false => {
            let facts = super::keys::facts(&dataset, context)?;
            if !facts.is_encrypted {
                return key_error("Dataset not encrypted.", context);
            }
            let given = |wanted: &str| {
                let mut pairs = properties.iter();
                pairs
                    .find(|(name, _)| name == wanted)
                    .map(|(_, value)| value.clone())
            };
            let (format, location) = facts.key.unzip();
            let Some(format) = given("keyformat").or(format) else {
                return key_error("Keyformat required for new encryption root.", context);
            };
            let location = given("keylocation").or(location);
            let location = location.unwrap_or_else(|| "prompt".to_owned());
            match material::read_new(&dataset, &format, &location) {
                Ok(key) => Some(key),
                Err(reason) => return key_error(&reason, context),
            }
        }
    };
    let change = Change::ChangeKey {
        dataset,
        properties,
        key,
    };
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error) => key_error(&error.to_string(), context),
    }
}

fn key_error(reason: &str, context: &mut Context) -> Outcome {
    context.complain(&format!("Key change error: {reason}"));
    Err(Stop::Code(255))
}
