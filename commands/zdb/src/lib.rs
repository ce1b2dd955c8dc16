//! `zdb`: what is stored in a pool, in the format of OpenZFS's `zdb`.
//!
//! It opens pools read-only and without the daemon, as Cenote's own commands do
//! (`cenote_own_commands::reading`), and walks them with the walks of `dmu`. Only the words are
//! its own. What cannot be read is reported on standard error, and the rest is printed.
//!
//! Deliberately absent: everything that writes, and options about OpenZFS's own code.

#![forbid(unsafe_code)]

mod blocks;
mod config;
mod contents;
mod datasets;
mod described;
mod features;
mod files;
mod intent_log;
mod labels;
mod line;
mod list;
mod objects;
mod pointer;
mod print;
mod problem;
mod raw;
mod session;
mod tree;
mod uberblock;

pub use described::{NAME, OTHER};

use line::Asked;
use print::Printer;
use problem::{Problem, USAGE};
use session::Target;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Runs the command.
pub fn run(words: &[OsString]) -> ExitCode {
    let asks = |word: &OsString| word == "--help" || word == "-?";
    if words.iter().take_while(|word| *word != "--").any(asks) {
        print!("{}", described::synopsis());
        return ExitCode::SUCCESS;
    }
    let ended = Asked::parse(words).and_then(|asked| {
        let mut printer = Printer::new(asked.has("P"));
        let done = print(&asked, &mut printer);
        // What was printed before a failure comes before the message.
        let flushed = printer.flush();
        done.and(flushed).map(|()| printer.code)
    });
    ExitCode::from(match ended {
        Ok(code) => code,
        // A closed pipe (`| head`) is not an error.
        Err(Problem::Output(error)) if error.kind() == ErrorKind::BrokenPipe => 0,
        Err(Problem::Usage(message)) => {
            eprint!("zdb: {message}\n{}", described::synopsis());
            USAGE
        }
        Err(problem) => {
            let message = problem.to_string();
            eprintln!(
                "zdb: {}",
                cenote_words::format::harmless::harmless(&message)
            );
            problem::UNREADABLE
        }
    })
}

/// The options about how a pool is opened; they go with all that print something of it.
const OPENING: [&str; 8] = ["e", "F", "k", "p", "P", "t", "U", "X"];

fn allow(asked: &Asked, letters: &[&str]) -> Result<(), Problem> {
    asked.only(&[letters, &OPENING, &["v"]].concat())
}

fn print(asked: &Asked, printer: &mut Printer) -> Result<(), Problem> {
    if asked.has("l") {
        asked.only(&["l", "q", "u", "v"])?;
        return labels::print(asked, printer);
    }
    if asked.operands.is_empty() && asked.has("C") {
        asked.only(&["C", "U", "v"])?;
        return config::print_cache(asked, printer);
    }
    if asked.has("O") {
        allow(asked, &["O", "K"])?;
        return files::find(asked, printer);
    }
    if asked.has("r") {
        allow(asked, &["r", "K"])?;
        return files::copy(asked);
    }
    if asked.has("R") {
        allow(asked, &["R"])?;
        return raw::print(asked, printer);
    }
    let name = asked.operand(0, "a pool or dataset")?;
    match name.contains(['/', '@']) {
        true => allow(asked, &["b", "d", "i", "K"])?,
        false => allow(asked, &["b", "c", "C", "d", "i", "K", "L", "u"])?,
    }
    if asked.has("L") && !asked.has("b") && !asked.has("c") {
        return Err(Problem::Usage("-L goes with -b or -c".to_owned()));
    }
    let target = Target::open(asked, name)?;
    match name.contains(['/', '@']) {
        true => datasets::one(asked, &target, printer),
        false => pool(asked, &target, printer),
    }
}

/// Prints what is asked for of a pool.
fn pool(asked: &Asked, target: &Target, printer: &mut Printer) -> Result<(), Problem> {
    let session = &target.session;
    let with_objects = asked.operands.len() > 1;
    if with_objects {
        if !asked.has("d") {
            return Err(Problem::Usage("objects go with -d".to_owned()));
        }
        return datasets::mos_objects(asked, target, printer);
    }
    if asked.level("C") > 0 {
        let printed = config::print(session, printer);
        printer.survive(printed)?;
    }
    if asked.level("u") > 0 {
        uberblock::print(session, asked.level("u"), printer)?;
    }
    if asked.level("d") > 0 || asked.level("i") > 0 {
        datasets::all(asked, target, printer)?;
        features::print(session, printer)?;
    }
    if asked.level("b") > 0 || asked.level("c") > 0 {
        blocks::print(asked, session, printer)?;
    }
    uberblock::print_checkpoint(session, printer)
}
