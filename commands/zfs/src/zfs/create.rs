//! `zfs create`.

use super::change::{Pairs, ask, full_name, named_twice, new_key, pairs, tell_of_kept, wants_key};
use cenote_control::model::{Change, ControlError, NewDataset, NewVolume, Response};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{check_name, with_context};

/// Volume blocks smaller than this cause a warning, because they waste space.
const VOLUME_BLOCK_SIZE: u64 = 16 << 10;

/// `zfs create [-Pnpuv] [-o P=V]… FILESYSTEM` and
/// `zfs create [-Pnpsv] [-b SIZE] [-o P=V]… -V SIZE VOLUME`
pub fn create(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let name = match parsed.operands.as_slice() {
        [] if parsed.has("V") => return usage("missing volume argument"),
        [] => return usage("missing filesystem argument"),
        [name] => name.clone(),
        _ => return usage("too many arguments"),
    };
    let what = format!("cannot create '{name}'");
    if let Err(fault) = check_name(&name, false, false) {
        return failed(format!("{what}: {fault}"));
    }
    // With `-p` a pool's root dataset counts as one that exists already.
    if !name.contains('/') && (!parsed.has("p") || parsed.has("V")) {
        return failed(format!("{what}: missing dataset name"));
    }
    let (properties, volume) = given(&parsed)?;
    if volume.is_none() && (parsed.has("s") || parsed.has("b")) {
        return usage("'-s' and '-b' can only be used when creating a volume");
    }
    if volume.is_some() && parsed.given("u") {
        return usage("'-u' can only be used when creating a file system");
    }
    let dry_run = parsed.has("n");
    let mut new = NewDataset {
        name: name.clone(),
        volume,
        properties,
        parents: parsed.has("p"),
        unmounted: parsed.has("u"),
        dry_run,
        key: None,
    };
    warn_of_blocks(&new, context);
    let command = context.command.clone();
    let is_told = parsed.has("v") || parsed.has("P");
    // Check first, so that the user need not type a passphrase twice for a dataset that cannot be
    // created.
    if is_told || dry_run || wants_key(&new.properties) {
        let plan = NewDataset {
            dry_run: true,
            ..new.clone()
        };
        let change = Change::CreateDataset(Box::new(plan));
        match ask(change, String::new(), context) {
            Ok(plan) if is_told => say(&name, &parsed, &plan, context),
            Ok(_) => {}
            Err(error) => return refused(&what, &error),
        }
    }
    if dry_run {
        return Ok(0);
    }
    new.key = new_key(&name, &new.properties, context)?;
    let properties = new.properties.clone();
    match ask(Change::CreateDataset(Box::new(new)), command, context) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{name}'"), error));
            }
            context.complain("filesystem successfully created, but not mounted");
            Ok(1)
        }
        Ok(_) => {
            tell_of_kept(&properties, context);
            Ok(0)
        }
        Err(error) => refused(&what, &error),
    }
}

/// The properties, and with `-V` the volume, whose sizes are also properties.
fn given(parsed: &Parsed) -> Result<(Pairs, Option<NewVolume>), Stop> {
    let properties = pairs(parsed)?;
    let volume = volume(parsed)?;
    let sizes = [("V", "volsize"), ("b", "volblocksize")];
    let sizes = sizes.into_iter().filter(|(letter, _)| parsed.has(letter));
    let sizes: Vec<String> = sizes.map(|(_, name)| name.to_owned()).collect();
    let given = properties.iter().map(|(name, _)| name);
    match named_twice(given.chain(&sizes)) {
        Some(problem) => failed(problem),
        None => Ok((properties, volume)),
    }
}

fn refused(what: &str, error: &ControlError) -> Outcome {
    match error {
        ControlError::NoSuchPool { pool } => failed(format!("{what}: no such pool '{pool}'")),
        error => failed(with_context(what, error)),
    }
}

fn volume(parsed: &Parsed) -> Result<Option<NewVolume>, Stop> {
    let Some(text) = parsed.last("V") else {
        return Ok(None);
    };
    let size = match cenote_base::parse_size(text) {
        Ok(size) => size,
        Err(reason) => return usage(format!("bad volume size '{text}': {reason}")),
    };
    let block_size = match parsed.last("b").map(cenote_base::parse_size) {
        None => None,
        Some(Ok(size)) => Some(size),
        Some(Err(reason)) => {
            let text = parsed.last("b").unwrap_or_default();
            return usage(format!("bad volume block size '{text}': {reason}"));
        }
    };
    let sparse = parsed.has("s");
    Ok(Some(NewVolume {
        size,
        block_size,
        sparse,
    }))
}

fn warn_of_blocks(new: &NewDataset, context: &mut Context) {
    let Some(volume) = new.volume else { return };
    let is_named = |pair: &&(String, String)| pair.0 == "volblocksize";
    let named = new.properties.iter().find(is_named);
    let named = named.and_then(|(_, text)| cenote_base::parse_size(text).ok());
    let small = volume.block_size.or(named);
    if let Some(size) = small.filter(|size| *size < VOLUME_BLOCK_SIZE) {
        context.complain(&format!(
            "Warning: volblocksize ({size}) is less than the default minimum block size \
             ({VOLUME_BLOCK_SIZE}).\nTo reduce wasted space a volblocksize of \
             {VOLUME_BLOCK_SIZE} is recommended."
        ));
    }
}

/// Prints what is created, or would be, with the properties in the given order.
fn say(name: &str, parsed: &Parsed, plan: &Response, context: &mut Context) {
    let (volume_size, reserved) = match plan {
        Response::Planned {
            volume_size,
            reserved,
        } => (*volume_size, *reserved),
        _ => (None, None),
    };
    let parsable = parsed.has("P");
    let verb = if parsed.has("n") {
        "would create"
    } else {
        "create"
    };
    let (ancestors, itself) = match parsable {
        true => (
            format!("create_ancestors\t{name}"),
            format!("create\t{name}"),
        ),
        false => (
            format!("{verb} ancestors of {name}"),
            format!("{verb} {name}"),
        ),
    };
    if parsed.has("p") {
        context.line(&ancestors);
    }
    context.line(&itself);
    let mut pairs: Pairs = Vec::new();
    for (option, argument) in parsed.in_order(&["V", "b", "o"]) {
        let size = || cenote_base::parse_size(argument).unwrap_or(0).to_string();
        pairs.extend(match (option, argument.split_once('=')) {
            ("V", _) => volume_size.map(|size| ("volsize".to_owned(), size.to_string())),
            ("b", _) => Some(("volblocksize".to_owned(), size())),
            ("o", Some((name, value))) => Some((full_name(name), value.to_owned())),
            _ => None,
        });
    }
    pairs.extend(reserved.map(|bytes| ("refreservation".to_owned(), bytes.to_string())));
    for (property, value) in pairs {
        context.line(&match parsable {
            true => format!("property\t{property}\t{value}"),
            false => format!("\t{property}={value}"),
        });
    }
}
