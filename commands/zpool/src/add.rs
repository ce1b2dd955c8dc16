//! `zpool add`.

use super::create::{properties, refusal};
use super::unused::note_new;
use super::{layout, vdev_spec};
use cenote_control::model::{
    AddedVdevs, AllowedVdevs, Change, ControlError, PropertySelection, Request, Response,
    VdevNaming, VdevTree,
};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_pool_name, with_context};

/// `zpool add [-fgLnP] [--allow-…]… [-o ashift=N] POOL VDEV…`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, words) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing vdev specification"),
        [pool, words @ ..] => (pool.clone(), words),
    };
    if let Err(reason) = check_pool_name(&pool) {
        return failed(format!("cannot open '{pool}': {reason}"));
    }
    let tree = tree_of(&pool, context)?;
    let vdevs = vdev_spec::parse(words).map_err(Stop::Failed)?;
    let (dry_run, naming) = (parsed.has("n"), naming(&parsed));
    let properties = properties(&parsed)?;
    let added = AddedVdevs {
        pool: pool.clone(),
        vdevs: vdevs.clone(),
        properties,
        allowed: allowed(&parsed),
        dry_run,
    };
    let command = context.command.clone();
    let change = Change::AddVdevs(Box::new(added));
    match context.ask(Request::Change { change, command }) {
        Ok(_) => {}
        Err(error @ ControlError::NoSuchPool { .. }) => return failed(cannot_open(&pool, &error)),
        Err(error) => return failed(refusal(&format!("cannot add to '{pool}'"), &error)),
    }
    note_new(&vdevs, context);
    if dry_run {
        let lead = format!("would update '{pool}' to the following configuration:\n");
        context.line(&lead);
        for line in layout::lines(&pool, Some(&tree), &vdevs, naming) {
            context.line(&line);
        }
    }
    Ok(0)
}

/// The checks that are left out.
fn allowed(parsed: &Parsed) -> AllowedVdevs {
    let all = AllowedVdevs::all(parsed.has("f"));
    AllowedVdevs {
        in_use: all.in_use | parsed.has("allow-in-use"),
        replication_mismatch: all.replication_mismatch | parsed.has("allow-replication-mismatch"),
        ashift_mismatch: all.ashift_mismatch | parsed.has("allow-ashift-mismatch"),
    }
}

/// How to name vdevs.
pub fn naming(parsed: &Parsed) -> VdevNaming {
    VdevNaming {
        guid: parsed.has("g"),
        full_path: parsed.has("P"),
        follow_links: parsed.has("L"),
    }
}

/// The vdevs of the pool.
pub fn tree_of(pool: &str, context: &mut Context) -> Result<VdevTree, Stop> {
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, failures }) => {
            let row = pools.into_iter().next();
            match (row.and_then(|row| row.vdevs), failures.first()) {
                (Some(tree), _) => Ok(tree),
                (None, Some((name, error))) => failed(cannot_open(name, error)),
                (None, None) => failed(with_context("cannot list pools", &mismatch())),
            }
        }
        Ok(_) => failed(with_context("cannot list pools", &mismatch())),
        Err(error) => failed(with_context("cannot list pools", &error)),
    }
}
