//! `zpool split`.

use super::add::{naming, tree_of};
use super::create::full_name;
use super::layout;
use super::load_and_mount::load_and_mount;
use super::writes::require_pool;
use cenote_control::model::{
    AllocationClass, Change, ControlError, Pair, Request, Response, SplitPool, Vdev, VdevTree,
};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::with_context;
use cenote_zfs_commands::zfs;

/// `zpool split [-gLlnP] [-o OPTION|PROPERTY=VALUE]… [-R ROOT] POOL NEW [DEVICE…]`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, new, devices) = match parsed.operands.as_slice() {
        [] => return usage("Missing pool name"),
        [_] => return usage("Missing new pool name"),
        [pool, new, devices @ ..] => (pool.clone(), new.clone(), devices.to_vec()),
    };
    let altroot = parsed.last("R").map(str::to_owned);
    let (loads, naming) = (parsed.has("l"), naming(&parsed));
    if loads && altroot.is_none() {
        return usage("-l is only valid when also importing (-R)");
    }
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return Err(Stop::Code(1));
    }
    let (properties, mount_options) = options(&parsed, altroot.is_some())?;
    let split = SplitPool {
        pool: pool.clone(),
        new: new.clone(),
        devices,
        properties,
        altroot,
        no_mount: loads,
        mount_options,
        dry_run: parsed.has("n"),
    };
    let dry_run = split.dry_run;
    let tree = match dry_run {
        true => Some(tree_of(&pool, context)?),
        false => None,
    };
    let change = Change::SplitPool(Box::new(split));
    let command = context.command.clone();
    let (sides, failures) = match context.ask(Request::Change { change, command }) {
        Ok(Response::Split { sides, failures }) => (sides, failures),
        Ok(_) => return failed(mismatch().to_string()),
        Err(ControlError::NoSuchDevice { device, .. }) => {
            return failed(format!(
                "cannot resolve path '{device}'\n\
                 Unable to build a pool from the specified devices"
            ));
        }
        Err(error) => return failed(with_context(&format!("Unable to split {pool}"), &error)),
    };
    if let Some(tree) = tree {
        context.line(&format!(
            "would create '{new}' with the following layout:\n"
        ));
        let tree = only(tree, &sides);
        for line in layout::lines(&new, Some(&tree), &[], naming) {
            context.line(&line);
        }
        return Ok(0);
    }
    if loads {
        return Ok(load_and_mount(&new, context));
    }
    for (dataset, error) in &failures {
        context.complain(&with_context(&format!("cannot mount '{dataset}'"), error));
    }
    Ok(u8::from(!failures.is_empty()))
}

/// The values of `-o`: properties, and mount options, which need an import.
fn options(parsed: &Parsed, imports: bool) -> Result<(Vec<Pair>, Vec<String>), Stop> {
    let (mut properties, mut mount_options) = (Vec::new(), Vec::new());
    for word in parsed.all("o") {
        match word.split_once('=') {
            Some((name, value)) => properties.push((full_name(name), value.to_owned())),
            None if !imports => {
                return usage("setting mntopts is only valid when importing the pool");
            }
            None => mount_options.extend(word.split(',').map(str::to_owned)),
        }
    }
    match zfs::named_twice(properties.iter().map(|(name, _)| name)) {
        Some(problem) => usage(problem),
        None => Ok((properties, mount_options)),
    }
}

/// The tree with each mirror replaced by its chosen side, without devices that stay in the old
/// pool.
fn only(mut tree: VdevTree, sides: &[u64]) -> VdevTree {
    let side = |top: &Vdev| {
        let mut below = top.children.iter();
        let side = below.find(|side| sides.contains(&side.guid));
        side.map(|side| Vdev {
            class: top.class,
            ..side.clone()
        })
    };
    for top in &mut tree.root.children {
        if let Some(side) = side(top) {
            *top = side;
        }
    }
    let tops = &mut tree.root.children;
    tops.retain(|top| top.class != AllocationClass::Log);
    tree.spares.clear();
    tree.cache.clear();
    tree
}
