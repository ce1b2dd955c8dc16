//! `zpool export`.

use super::writes::all_pools;
use cenote_control::model::{ControlError, ExportHow, Part, Request, Response};

use cenote_words::context::{Context, Outcome, usage};
use cenote_words::program::CommandLine;
use cenote_words::progress::{Progress, Style};
use cenote_words::texts::{cannot_open, with_context};

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
    for pool in names {
        let request = Request::Export {
            pool: pool.clone(),
            how: ExportHow {
                force,
                keep_rest: parsed.has("n"),
                keep_cached: parsed.has("F"),
            },
        };
        let exported = match export(request, context) {
            Ok(Response::Failures { failures, .. }) => {
                for (place, error) in &failures {
                    context.complain(&format!("warning: {place}: {error}"));
                }
                code |= u8::from(!failures.is_empty());
                continue;
            }
            answer => answer,
        };
        if let Err(error) = exported {
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

/// Exports a pool, with a progress bar while its devices in stores are uploaded.
fn export(request: Request, context: &mut Context) -> Result<Response, ControlError> {
    let mut shown: Option<Progress> = None;
    let answer = context.ask_noted_in_parts(request, &mut |part| {
        if let Part::Progress(what, done, total) = part {
            let progress = shown.get_or_insert_with(|| Progress::new(Style::Auto, Some(total)));
            progress.set(done, Some(total), &what);
        }
    });
    if let Some(shown) = shown {
        shown.finish();
    }
    answer
}
