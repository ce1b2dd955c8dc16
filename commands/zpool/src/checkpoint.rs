//! `zpool checkpoint`.

use super::activity::wait_for;
use super::writes::require_pool;
use cenote_control::model::{Change, Request, Response};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::program::CommandLine;
use cenote_words::texts::with_context;

/// `zpool checkpoint [-d [-w]] POOL`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let discard = parsed.has("d");
    if parsed.has("w") && !discard {
        return usage("--wait only valid when --discard also specified");
    }
    let pool = match parsed.operands.as_slice() {
        [] => return usage("missing pool argument"),
        [pool] => pool.clone(),
        _ => return usage("too many arguments"),
    };
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return Err(Stop::Code(1));
    }
    let what = match discard {
        true => format!("cannot discard checkpoint in '{pool}'"),
        false => format!("cannot checkpoint '{pool}'"),
    };
    let change = Change::Checkpoint {
        pool: pool.clone(),
        discard,
    };
    let command = context.command.clone();
    match context.ask(Request::Change { change, command }) {
        Ok(Response::Done) => {}
        Ok(_) => return failed(with_context(&what, &mismatch())),
        Err(error) => return failed(with_context(&what, &error)),
    }
    if parsed.has("w") {
        wait_for(&pool, &["discard"], context)?;
    }
    Ok(0)
}
