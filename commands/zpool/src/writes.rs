//! The subcommands that change pools: parses them, checks names, and refuses some.

use cenote_control::model::{PropertySelection, Request, Response};

use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_pool_name, unavailable, with_context};

/// Whether OpenZFS has a subcommand that is refused here.
pub fn is_missing(command: &str) -> bool {
    ["prefetch", "ddtprune"].contains(&command)
}

/// Refuses one of these: the options, the operands and the pool are checked first.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let (missing, what) = match line.name() {
        "prefetch" => ("missing pool name argument", "cannot prefetch for"),
        "ddtprune" => ("missing pool argument", "cannot prune dedup table on"),
        other => return failed(format!("zpool {other} is not available in this version")),
    };
    let parsed = line.parse()?;
    let Some(pool) = parsed.operands.first() else {
        return usage(missing);
    };
    require_pool(pool, context).map_err(Stop::Failed)?;
    let reason = unavailable(pool, context);
    failed(format!("{what} '{pool}': {reason}"))
}

/// Checks that the pool is imported; otherwise returns the error message.
pub fn require_pool(pool: &str, context: &mut Context) -> Result<(), String> {
    if let Err(reason) = check_pool_name(pool) {
        return Err(format!("cannot open '{pool}': {reason}"));
    }
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { failures, .. }) => match failures.first() {
            Some((name, error)) => Err(cannot_open(name, error)),
            None => Ok(()),
        },
        Ok(_) => Err(with_context("cannot list pools", &mismatch())),
        Err(error) => Err(with_context("cannot list pools", &error)),
    }
}

/// The names of all imported pools.
pub fn all_pools(context: &mut Context) -> Result<Vec<String>, Stop> {
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => Ok(pools.into_iter().map(|pool| pool.name).collect()),
        Ok(_) => failed(with_context("cannot list pools", &mismatch())),
        Err(error) => failed(with_context("cannot list pools", &error)),
    }
}
