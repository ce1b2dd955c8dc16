//! `zpool create` and `zpool destroy`.

use super::unused::note_new;
use super::{compatibility, layout, vdev_spec};
use cenote_control::model::properties::{
    ACCOUNTING, DATASET, POOL, find, is_user_property, pool_effect, vdev_effect,
};
use cenote_control::model::{
    Change, ControlError, NewPool, NewVdev, NewVdevRole, Request, Response, SetVdevProperty,
    VdevNaming,
};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::getopt::{OptionError, Parsed};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_new_pool_name, property_question, with_context};
use cenote_zfs_commands::zfs::{self, named_twice};

/// `EINVAL`: the exit code of `zpool set` for a missing pool or vdev.
const INVALID: u8 = 22;

/// Dataset properties that file systems do not have.
const VOLUMES_OWN: [&str; 2] = ["volsize", "volblocksize"];

/// `zpool create [-fnd] [-o P=V]… [-O P=V]… [-m MOUNTPOINT] [-R ROOT] [-t NAME] POOL VDEV…`
pub fn create(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (name, words) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing vdev specification"),
        [name, words @ ..] => (name.clone(), words),
    };
    let what = format!("cannot create '{name}'");
    let properties = properties(&parsed)?;
    let dataset_properties = dataset_properties(&parsed)?;
    if let Err(reason) = check_new_pool_name(&name) {
        return failed(format!("{what}: {reason}\npool name may have been omitted"));
    }
    let vdevs = vdevs(words, parsed.has("f"))?;
    for (property, value) in &properties {
        if property == "compatibility" {
            compatibility::check(value, None, context)?;
        }
    }
    let mut pool = NewPool {
        name: name.clone(),
        temporary_name: parsed.last("t").map(str::to_owned),
        vdevs,
        properties,
        dataset_properties,
        altroot: parsed.last("R").map(str::to_owned),
        force: parsed.has("f"),
        no_features: parsed.has("d"),
        dry_run: parsed.has("n"),
        key: None,
    };
    if !pool.dry_run && zfs::wants_key(&pool.dataset_properties) {
        if let Err(error) = try_out(&pool, context) {
            return failed(refusal(&what, &error));
        }
        pool.key = zfs::new_key(&name, &pool.dataset_properties, context)?;
    }
    let preview = pool
        .dry_run
        .then(|| layout::lines(&name, None, &pool.vdevs, VdevNaming::default()));
    let vdevs = pool.vdevs.clone();
    let (given, given_below) = (pool.properties.clone(), pool.dataset_properties.clone());
    let command = context.command.clone();
    let change = Change::CreatePool(Box::new(pool));
    match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => {
            note_new(&vdevs, context);
            for (target, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{target}'"), error));
            }
            Ok(u8::from(!failures.is_empty()))
        }
        Ok(_) => {
            note_new(&vdevs, context);
            for (name, value) in &given {
                tell_of_kept(name, value, context);
            }
            zfs::tell_of_kept(&given_below, context);
            if let Some(lines) = preview {
                let lead = format!("would create '{name}' with the following layout:\n");
                context.line(&lead);
                lines.iter().for_each(|line| context.line(line));
            }
            Ok(0)
        }
        Err(error) => failed(refusal(&what, &error)),
    }
}

/// Checks whether a pool can be created, so that the user need not type a passphrase twice for one
/// that cannot.
fn try_out(pool: &NewPool, context: &mut Context) -> Result<Response, ControlError> {
    let plan = NewPool {
        dry_run: true,
        ..pool.clone()
    };
    let change = Change::CreatePool(Box::new(plan));
    let command = String::new();
    context.ask(Request::Change { change, command })
}

/// The vdevs of a pool; at least one must be a normal one.
fn vdevs(words: &[String], is_forced: bool) -> Result<Vec<NewVdev>, Stop> {
    let vdevs = vdev_spec::parse(words).map_err(Stop::Failed)?;
    if !vdevs.iter().any(|vdev| vdev.role == NewVdevRole::Normal) {
        let text = "at least one general top-level vdev must be specified";
        return failed(invalid_vdevs(&[text.to_owned()], is_forced));
    }
    Ok(vdevs)
}

/// The properties of the root dataset, with full names.
fn dataset_properties(parsed: &Parsed) -> Result<Vec<(String, String)>, Stop> {
    let mut pairs = Vec::new();
    for word in parsed.all("O") {
        let Some((name, value)) = word.split_once('=') else {
            return failed("missing '=' for -O option");
        };
        pairs.push((zfs::full_name(name), value.to_owned()));
    }
    if let Some(path) = parsed.last("m") {
        pairs.push(("mountpoint".to_owned(), path.to_owned()));
    }
    if let Some(problem) = named_twice(pairs.iter().map(|(name, _)| name)) {
        return failed(problem);
    }
    for (name, value) in &pairs {
        let mut accounts = ACCOUNTING.iter();
        let is_quota = accounts.any(|known| known.contains("quota") && name.starts_with(known));
        let is_known = find(DATASET, name).is_some() || is_user_property(name) || is_quota;
        if !is_known || VOLUMES_OWN.contains(&name.as_str()) {
            let question = property_question(name, DATASET);
            return failed(format!(
                "property '{name}' is not a valid filesystem property{question}"
            ));
        }
        let is_place = value.starts_with('/') || ["none", "legacy"].contains(&value.as_str());
        if name == "mountpoint" && !is_place {
            return failed(format!(
                "invalid mountpoint '{value}': must be an absolute path, 'legacy', or 'none'"
            ));
        }
    }
    Ok(pairs)
}

/// The properties of the pool; OpenZFS checks some before anything else.
pub fn properties(parsed: &Parsed) -> Result<Vec<(String, String)>, Stop> {
    let pairs = pairs(parsed, "o")?;
    for (name, value) in &pairs {
        let is_feature = name.starts_with("feature@");
        if find(POOL, name).is_none() && !is_feature && !is_user_property(name) {
            return failed(not_a_property(name));
        }
        match (name.as_str(), value.parse::<u64>()) {
            ("ashift", Ok(shift)) if shift != 0 && !(9..=16).contains(&shift) => {
                return failed(format!(
                    "invalid '{name}={value}' property: only values between 9 and 16 are allowed."
                ));
            }
            ("ashift", Err(_)) => return failed("ashift must be a number."),
            _ => {}
        }
    }
    let has = |start: &str| pairs.iter().any(|(name, _)| name.starts_with(start));
    if has("feature@") && pairs.iter().any(|(name, _)| name == "version") {
        return failed("'feature@' and 'version' properties cannot be specified together");
    }
    let root = pairs.iter().find(|(name, _)| name == "altroot");
    if parsed.has("R") && root.is_some() {
        return failed("property 'altroot' specified multiple times");
    }
    let roots = parsed.last("R").into_iter();
    for root in roots.chain(root.map(|(_, root)| root.as_str())) {
        if !root.starts_with('/') {
            return failed(format!(
                "invalid alternate root '{root}': must be an absolute path"
            ));
        }
    }
    Ok(pairs)
}

/// The message for a name that is not a pool property.
pub fn not_a_property(name: &str) -> String {
    let question = property_question(name, POOL);
    format!("property '{name}' is not a valid pool or vdev property{question}")
}

/// Reports that a pool property was stored but has no effect here.
fn tell_of_kept(name: &str, value: &str, context: &mut Context) {
    let is_default = matches!((name, value), ("bootfs", "") | ("delegation", "on"));
    if !is_default {
        context.tell_of_effect(name, pool_effect(name));
    }
}

pub fn refusal(what: &str, error: &ControlError) -> String {
    match error {
        ControlError::DevicesRefused { devices, is_forced } => invalid_vdevs(devices, *is_forced),
        ControlError::NoSuchPath { .. } => error.to_string(),
        ControlError::MountpointInUse { .. } | ControlError::MountpointNotDirectory { .. } => {
            format!("{error}\nuse '-m' option to provide a different default")
        }
        // An invalid layout is reported without the property's name.
        ControlError::BadValue { name, reason } if name == "draid" => reason.clone(),
        error => with_context(what, error),
    }
}

/// The lines about vdevs that are invalid, or need `-f`.
fn invalid_vdevs(lines: &[String], is_forced: bool) -> String {
    let lead = match is_forced {
        true => "the following errors must be manually repaired:",
        false => "use '-f' to override the following errors:",
    };
    format!("invalid vdev specification\n{lead}\n{}", lines.join("\n"))
}

/// The pairs of an option that takes `property=value`, with full names of pool properties.
pub fn pairs(parsed: &Parsed, option: &str) -> Result<Vec<(String, String)>, Stop> {
    let mut pairs = Vec::new();
    for word in parsed.all(option) {
        let Some((name, value)) = word.split_once('=') else {
            return failed(format!("missing '=' for -{option} option"));
        };
        pairs.push((full_name(name), value.to_owned()));
    }
    match named_twice(pairs.iter().map(|(name, _)| name)) {
        Some(problem) => failed(problem),
        None => Ok(pairs),
    }
}

/// The full name of a pool property, which may be given by its short name.
pub fn full_name(name: &str) -> String {
    find(POOL, name).map_or(name, |info| info.name).to_owned()
}

/// `zpool destroy [-f] POOL`
pub fn destroy(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let pool = match parsed.operands.as_slice() {
        [] => return usage("missing pool argument"),
        [pool] => pool.clone(),
        _ => return usage("too many arguments"),
    };
    if pool.contains('/') {
        return failed(format!(
            "cannot open '{pool}': invalid character '/' in pool name\n\
             use 'zfs destroy' to destroy a dataset"
        ));
    }
    let change = Change::DestroyPool {
        pool: pool.clone(),
        force: parsed.has("f"),
    };
    let command = context.command.clone();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error @ ControlError::MountBusy { .. }) => failed(format!(
            "{}\ncould not destroy '{pool}': could not unmount datasets",
            with_context("", &error)
        )),
        Err(error) => failed(with_context(&format!("cannot destroy '{pool}'"), &error)),
    }
}

/// `zpool set P=V POOL [VDEV]`
pub fn set(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    // OpenZFS does not use getopt here: it prints whatever follows the first dash.
    let Ok(parsed) = line.parse() else {
        let word = line.words.iter().find(|word| word.starts_with('-'));
        let letter = word.and_then(|word| word.chars().nth(1)).unwrap_or('-');
        return Err(OptionError::Invalid(letter.to_string()).into());
    };
    let (pair, pool, vdev) = match parsed.operands.as_slice() {
        [] => return usage("missing property=value argument"),
        [_] => return usage("missing pool name"),
        [pair, pool] => (pair, pool.clone(), None),
        [pair, pool, vdev] => (pair, pool.clone(), Some(vdev)),
        _ => return usage("too many pool names"),
    };
    let Some((property, value)) = pair.split_once('=') else {
        return usage("missing value in property=value argument");
    };
    if let Some(vdev) = vdev {
        return set_of_vdev((property, value), &pool, vdev, context);
    }
    let property = full_name(property);
    if property == "compatibility" {
        compatibility::check(value, Some(&pool), context)?;
    }
    let change = Change::SetPoolProperty {
        pool: pool.clone(),
        property: property.clone(),
        value: value.to_owned(),
    };
    let command = context.command.clone();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => {
            tell_of_kept(&property, value, context);
            Ok(0)
        }
        Err(ControlError::NoSuchPool { .. }) => {
            context.complain(&format!("cannot open '{pool}': is not a pool"));
            Err(Stop::Code(INVALID))
        }
        Err(error) => failed(with_context(
            &format!("cannot set property for '{pool}'"),
            &error,
        )),
    }
}

/// The pool's history records these as internal events, not by their command.
fn set_of_vdev(
    (property, value): (&str, &str),
    pool: &str,
    vdev: &str,
    context: &mut Context,
) -> Outcome {
    let change = Change::SetVdevProperty(SetVdevProperty {
        pool: pool.to_owned(),
        vdev: vdev.to_owned(),
        property: property.to_owned(),
        value: value.to_owned(),
    });
    let command = String::new();
    let refused = match context.ask(Request::Change { change, command }) {
        Ok(_) => {
            if value != "on" {
                context.tell_of_effect(property, vdev_effect(property));
            }
            return Ok(0);
        }
        Err(refused) => refused,
    };
    match refused {
        ControlError::NoSuchPool { .. } => {
            context.complain(&format!("cannot open '{pool}': is not a pool"));
            Err(Stop::Code(INVALID))
        }
        ControlError::NoSuchDevice { .. } => {
            context.complain(&format!(
                "cannot find '{vdev}' in '{pool}': device not in pool"
            ));
            Err(Stop::Code(INVALID))
        }
        error => {
            let vdev = if vdev == "root" { "root-0" } else { vdev };
            let what = format!("cannot set property {property} for {vdev} on {pool}");
            failed(with_context(&what, &error))
        }
    }
}

/// `zpool sync [-f] [POOL…]`
pub fn sync(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let change = Change::SyncPools {
        pools: parsed.operands.clone(),
        force: parsed.has("f"),
    };
    let command = String::new();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => {
            let pool = match &error {
                ControlError::NoSuchPool { pool } => pool.clone(),
                _ => String::new(),
            };
            failed(cannot_open(&pool, &error))
        }
        Err(error) => failed(with_context("cannot sync", &error)),
    }
}
