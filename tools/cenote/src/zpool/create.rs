//! `zpool create` and `zpool destroy`.

use super::{compatibility, layout, vdev_spec};
use crate::context::{Context, Outcome, Stop, failed, usage};
use crate::getopt::{Grammar, OptionError, Parsed};
use crate::texts::{cannot_open, check_new_pool_name, with_context};
use cenote_control::model::{
    Change, ControlError, NewPool, NewVdevRole, Request, Response, SetVdevProperty, VdevNaming,
};

/// `zpool create [-fnd] [-o P=V]… [-O P=V]… [-m MOUNTPOINT] [-R ROOT] [-t NAME] POOL VDEV…`
pub fn create(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("fndo:O:m:R:t:").parse(arguments)?;
    let (name, words) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing vdev specification"),
        [name, words @ ..] => (name.clone(), words),
    };
    let what = format!("cannot create '{name}'");
    if let Err(reason) = check_new_pool_name(&name) {
        return failed(format!("{what}: {reason}\npool name may have been omitted"));
    }
    let vdevs = vdev_spec::parse(words).map_err(Stop::Failed)?;
    if !vdevs.iter().any(|vdev| vdev.role == NewVdevRole::Normal) {
        let text = "invalid vdev specification: at least one toplevel vdev must be specified";
        return failed(text);
    }
    for (property, value) in pairs(&parsed, "o")? {
        if property == "compatibility" {
            compatibility::check(&value, None, context)?;
        }
    }
    let mut pool = NewPool {
        name: name.clone(),
        temporary_name: parsed.last("t").map(str::to_owned),
        vdevs,
        properties: pairs(&parsed, "o")?,
        dataset_properties: dataset_properties(&parsed)?,
        altroot: parsed.last("R").map(str::to_owned),
        force: parsed.has("f"),
        no_features: parsed.has("d"),
        dry_run: parsed.has("n"),
        key: None,
    };
    if !pool.dry_run && crate::zfs::wants_key(&pool.dataset_properties) {
        // Nobody is to type a passphrase twice for what cannot be made.
        let plan = NewPool {
            dry_run: true,
            ..pool.clone()
        };
        let change = Change::CreatePool(Box::new(plan));
        let command = String::new();
        if let Err(error) = context.ask(Request::Change { change, command }) {
            return failed(refusal(&what, &error));
        }
        pool.key = crate::zfs::new_key(&name, &pool.dataset_properties, context)?;
    }
    let preview = pool
        .dry_run
        .then(|| layout::lines(&name, None, &pool.vdevs, VdevNaming::default()));
    let command = command_line("zpool create", arguments);
    let change = Change::CreatePool(Box::new(pool));
    match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => {
            for (target, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{target}'"), error));
            }
            Ok(u8::from(!failures.is_empty()))
        }
        Ok(_) => {
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

/// The properties of the root dataset, by their full names.
fn dataset_properties(parsed: &Parsed) -> Result<Vec<(String, String)>, Stop> {
    let mut pairs = pairs(parsed, "O")?;
    for (name, _) in &mut pairs {
        *name = crate::zfs::full_name(name);
    }
    if let Some(path) = parsed.last("m") {
        pairs.push(("mountpoint".to_owned(), path.to_owned()));
    }
    Ok(pairs)
}

pub fn refusal(what: &str, error: &ControlError) -> String {
    match error {
        ControlError::DevicesRefused { devices, by_force } => {
            let lead = match by_force {
                true => "use '-f' to override the following errors:",
                false => "the following errors must be manually repaired:",
            };
            let lines = devices.join("\n");
            format!("invalid vdev specification\n{lead}\n{lines}")
        }
        error => with_context(what, error),
    }
}

/// The pairs of an option that takes `property=value`.
pub fn pairs(parsed: &Parsed, option: &str) -> Result<Vec<(String, String)>, Stop> {
    let mut pairs = Vec::new();
    for word in parsed.all(option) {
        let Some((name, value)) = word.split_once('=') else {
            return usage(format!("missing '=' for property=value argument '{word}'"));
        };
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// The words of a command as the pool's history keeps them.
pub fn command_line(command: &str, arguments: &[String]) -> String {
    let mut line = command.to_owned();
    for word in arguments {
        line.push(' ');
        line.push_str(word);
    }
    line
}

/// `zpool destroy [-f] POOL`
pub fn destroy(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("f").parse(arguments)?;
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
    let command = command_line("zpool destroy", arguments);
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error) => failed(with_context(&format!("cannot destroy '{pool}'"), &error)),
    }
}

/// `zpool set P=V POOL [VDEV]`
pub fn set(arguments: &[String], context: &mut Context) -> Outcome {
    // Like the reference, no option at all is known.
    let Ok(parsed) = Grammar::letters("").parse(arguments) else {
        let word = arguments.iter().find(|word| word.starts_with('-'));
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
    if property == "compatibility" {
        compatibility::check(value, Some(&pool), context)?;
    }
    let change = Change::SetPoolProperty {
        pool: pool.clone(),
        property: property.to_owned(),
        value: value.to_owned(),
    };
    let command = command_line("zpool set", arguments);
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error) => failed(with_context(
            &format!("cannot set property for '{pool}'"),
            &error,
        )),
    }
}

/// The pool's history tells of these as of the system's own doings, and not by their command.
fn set_of_vdev(
    (property, value): (&str, &str),
    pool: &str,
    vdev: &str,
    context: &mut Context,
) -> Outcome {
    /// `EINVAL`, as the reference leaves.
    const INVALID: u8 = 22;
    let change = Change::SetVdevProperty(SetVdevProperty {
        pool: pool.to_owned(),
        vdev: vdev.to_owned(),
        property: property.to_owned(),
        value: value.to_owned(),
    });
    let command = String::new();
    let refused = match context.ask(Request::Change { change, command }) {
        Ok(_) => return Ok(0),
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

/// `zpool sync [POOL…]`
pub fn sync(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("").parse(arguments)?;
    let change = Change::SyncPools {
        pools: parsed.operands.clone(),
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
