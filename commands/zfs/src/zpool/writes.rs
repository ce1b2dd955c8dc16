//! The subcommands that change pools: parses them, checks names, and refuses some.

use cenote_control::model::{PropertySelection, Request, Response};

use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Grammar;
use cenote_words::texts::{cannot_open, check_pool_name, unavailable, with_context};

/// One subcommand: its options, its required operands, and the start of its error message.
struct Write {
    name: &'static str,
    letters: &'static str,
    /// The messages for missing operands, one for each required operand.
    missing: &'static [&'static str],
    /// With `POOL` in it.
    context: &'static str,
    /// The exit code of a refusal.
    code: u8,
}

const fn write(
    name: &'static str,
    letters: &'static str,
    missing: &'static [&'static str],
    context: &'static str,
    code: u8,
) -> Write {
    Write {
        name,
        letters,
        missing,
        context,
        code,
    }
}

const POOL: &[&str] = &["missing pool name argument"];

const WRITES: &[Write] = &[
    write("prefetch", "t:", POOL, "cannot prefetch for 'POOL'", 1),
    write(
        "ddtprune",
        "d:p:",
        &["missing pool argument"],
        "cannot prune dedup table on 'POOL'",
        1,
    ),
];

const LONG: &[(&str, &str, bool)] = &[("power", "power", false)];

/// Whether a subcommand is one of these.
pub fn is_missing(command: &str) -> bool {
    WRITES.iter().any(|write| write.name == command)
}

/// Runs one of them.
pub fn run(command: &str, arguments: &[String], context: &mut Context) -> Outcome {
    let Some(write) = WRITES.iter().find(|write| write.name == command) else {
        return failed(format!("zpool {command} is not available in this version"));
    };
    let grammar = Grammar {
        letters: write.letters,
        long: LONG,
    };
    let parsed = grammar.parse(arguments)?;
    if let Some(message) = write.missing.get(parsed.operands.len()) {
        return usage(*message);
    }
    let pool = parsed.operands.first().cloned().unwrap_or_default();
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return Err(Stop::Code(write.code));
    }
    let what = write.context.replace("POOL", &pool);
    let reason = unavailable(&pool, context);
    context.complain(&format!("{what}: {reason}"));
    Err(Stop::Code(write.code))
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
