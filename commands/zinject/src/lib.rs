//! `zinject`: faults injected on purpose, for drills.
//!
//! Its command line, tables and exit codes are OpenZFS's. What to inject is understood here
//! (`parse`), and resolved and done by the daemon. Options for what a process without a kernel
//! module cannot or must not do are refused in words.

#![forbid(unsafe_code)]

mod described;
mod file;
mod parse;
mod show;

pub use described::{NAME, OTHER};

use cenote_control::model::{InjectAct, Request, Response};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::getopt::{OptionError, Parsed, parse};
use described::{FLAGS, refused_option, synopsis};

/// The exit code of a wrong command line.
const USAGE: u8 = 2;

/// Runs the command.
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    if words.any(|word| matches!(word.as_str(), "--help" | "-h" | "-?")) {
        context.print(&synopsis());
        return 0;
    }
    let ended = inject(arguments, context);
    context.tell_of_unread(&ended);
    match ended {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Failed(message)) => {
            context.complain(&format!("{NAME}: {message}"));
            1
        }
        Err(Stop::Usage(message)) => {
            context.complain(&format!("{NAME}: {message}\n{}", synopsis().trim_end()));
            USAGE
        }
    }
}

fn inject(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = match parse(FLAGS, arguments) {
        Ok(parsed) => parsed,
        Err(OptionError::Invalid(letter)) => {
            return match refused_option(&letter) {
                Some(reason) => failed(reason),
                None => Err(OptionError::Invalid(letter).into()),
            };
        }
        Err(error) => return Err(error.into()),
    };
    if parsed.given("c") {
        return cancel(&parsed, context);
    }
    let kinds = ["A", "b", "d", "i", "P", "t"];
    if kinds.iter().any(|kind| parsed.given(kind)) {
        return add(&parsed, context);
    }
    if !parsed.operands.is_empty() {
        return usage("the kind of fault is missing: -b, -d, -P or -t");
    }
    parsed.only(&["a"])?;
    match parsed.has("a") {
        true => flush(context),
        false => list(context),
    }
}

/// Asks for something whose answer is a list of faults.
fn ask(
    act: InjectAct,
    context: &mut Context,
) -> Result<Vec<cenote_control::model::InjectionRow>, Stop> {
    match context.ask(Request::Inject { act }) {
        Ok(Response::Injections { rows }) => Ok(rows),
        Ok(_) => Ok(Vec::new()),
        Err(error) => failed(error.to_string()),
    }
}

fn list(context: &mut Context) -> Outcome {
    let rows = ask(InjectAct::List, context)?;
    context.print(&show::table(&rows));
    Ok(0)
}

fn flush(context: &mut Context) -> Outcome {
    ask(InjectAct::Flush, context)?;
    Ok(0)
}

fn cancel(parsed: &Parsed, context: &mut Context) -> Outcome {
    parsed.only(&["c"])?;
    let word = parsed.last("c").unwrap_or_default();
    if !parsed.operands.is_empty() {
        return usage(format!("'-c {word}' takes no operands"));
    }
    let id = match word {
        "all" => None,
        number => match number.parse() {
            Ok(id) => Some(id),
            Err(_) => return usage(format!("'{number}' is no number of a fault, and not 'all'")),
        },
    };
    ask(InjectAct::Cancel { id }, context)?;
    context.line(&match id {
        None => "removed all registered handlers".to_owned(),
        Some(id) => format!("removed handler {id}"),
    });
    Ok(0)
}

fn add(parsed: &Parsed, context: &mut Context) -> Outcome {
    let wanted = parse::wanted(parsed)?;
    let act = match wanted {
        parse::Wanted::Act(act) => act,
        parse::Wanted::OfFile(of_file) => {
            let found = file::find(&of_file.path, context)?;
            let act = of_file.act(&found);
            if of_file.remounts {
                return file::remounted(&found, context, |context| tell(act, parsed, context));
            }
            act
        }
    };
    tell(act, parsed, context)
}

/// Injects a fault and says so.
fn tell(act: InjectAct, parsed: &Parsed, context: &mut Context) -> Outcome {
    let is_quiet = parsed.has("q");
    for row in ask(act, context)? {
        context.print(&match is_quiet {
            true => format!("{}\n", row.id),
            false => show::added(&row),
        });
    }
    Ok(0)
}

#[cfg(test)]
mod tests;
