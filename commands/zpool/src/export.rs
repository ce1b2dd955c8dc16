//! `zpool export`.

use super::writes::all_pools;
use cenote_control::model::{ControlError, ExportHow, Part, Request, Response};

use cenote_words::context::{Context, Outcome, usage};
use cenote_words::program::CommandLine;
use cenote_words::progress::{Progress, Style};
use cenote_words::texts::{cannot_open, with_context};

/// Pools that `-a` exports at once.
const EXPORTS_AT_ONCE: usize = 16;

/// `zpool export [-afn] POOL...`. With `-n`, data not yet in its object stores stays in the local
/// logs, and is uploaded after the next import.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
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
        let (names, bad) = super::names::names_to_ask(&parsed.operands, context);
        (names, u8::from(bad))
    };
    let how = ExportHow {
        force,
        keep_rest: parsed.has("n"),
        keep_cached: parsed.has("F"),
    };
    // All pools leave side by side; those that are named, in their order.
    let at_once = if parsed.has("a") { EXPORTS_AT_ONCE } else { 1 };
    for pools in names.chunks(at_once) {
        let answers = export(pools, how, context);
        for (pool, mut answer) in pools.iter().zip(answers) {
            let busy = matches!(answer, Err(ControlError::MountBusy { .. }));
            if busy && pools.len() > 1 {
                // A file system of another pool may have been mounted in one of this pool.
                let alone = export(std::slice::from_ref(pool), how, context);
                answer = alone.into_iter().next().unwrap_or(answer);
            }
            code |= u8::from(!is_exported(pool, answer, context));
        }
    }
    Ok(code)
}

/// Reports what could not be done for a pool; whether all was.
fn is_exported(pool: &str, answer: Result<Response, ControlError>, context: &mut Context) -> bool {
    match answer {
        Ok(Response::Failures { failures, .. }) => {
            for (place, error) in &failures {
                context.complain(&format!("warning: {place}: {error}"));
            }
            failures.is_empty()
        }
        Ok(_) => true,
        Err(error) => {
            context.complain(&match error {
                ControlError::NoSuchPool { .. } => cannot_open(pool, &error),
                error => with_context(&format!("cannot export '{pool}'"), &error),
            });
            false
        }
    }
}

/// Exports pools at once, with a progress bar while devices of the first one are uploaded.
fn export(
    pools: &[String],
    how: ExportHow,
    context: &mut Context,
) -> Vec<Result<Response, ControlError>> {
    let request = |pool: &String| Request::Export {
        pool: pool.clone(),
        how,
    };
    let mut shown: Option<Progress> = None;
    let requests = pools.iter().map(request).collect();
    let answers = context.ask_all_noted(requests, &mut |part| {
        if let Part::Progress(what, done, total) = part {
            let progress = shown.get_or_insert_with(|| Progress::new(Style::Auto, Some(total)));
            progress.set(done, Some(total), &what);
        }
    });
    if let Some(shown) = shown {
        shown.finish();
    }
    answers
}
