//! `zpool export`.

use cenote_control::model::{ControlError, PropertySelection, Request, Response};

use crate::context::{Context, Outcome, failed, mismatch, usage};
use crate::getopt::Grammar;
use crate::texts::{cannot_open, with_context};

/// `zpool export [-af] POOL...`
pub fn run(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("afF").parse(arguments)?;
    let force = parsed.has("f") || parsed.has("F");
    let (names, mut code) = if parsed.has("a") {
        if !parsed.operands.is_empty() {
            return usage("too many arguments");
        }
        (all_pools(context)?, 0)
    } else {
        if parsed.operands.is_empty() {
            return usage("missing pool argument");
        }
        let (names, bad) = super::list::names_to_ask(&parsed.operands, context);
        (names, u8::from(bad))
    };
    for pool in names {
        let request = Request::Export {
            pool: pool.clone(),
            force,
        };
        if let Err(error) = context.ask_noted(request) {
            let text = match error {
                ControlError::NoSuchPool { .. } => cannot_open(&pool, &error),
                error => with_context(&format!("cannot export '{pool}'"), &error),
            };
            context.complain(&text);
            code = 1;
        }
    }
    Ok(code)
}

fn all_pools(context: &mut Context) -> Result<Vec<String>, crate::context::Stop> {
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => Ok(pools.into_iter().map(|p| p.name).collect()),
        Ok(_) => failed(with_context("cannot list pools", &mismatch())),
        Err(error) => failed(with_context("cannot list pools", &error)),
    }
}
