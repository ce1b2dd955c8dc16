//! `cenote inspect`: what is stored, for people who study or rescue pools.
//!
//! `labels` and `uberblocks` look at devices without opening a pool; all others open it as the
//! other commands do, with `--txg` and the rest of the options. With `--json` a subcommand prints
//! one JSON value, or one a line where there may be many.

mod devices;
mod log;
pub(super) mod node;
mod objects;
mod pool;
mod space;

use super::failure::{Exit, Failure, complain};
use super::line::{CommandLine, Word};
use super::options::PoolOptions;
use super::output::Output;
use super::session::Session;
use super::spec::Spec;
use cenote_dmu::ObjectSet;
use node::Node;
use std::ffi::OsString;
use std::sync::Arc;

/// What a subcommand was told.
#[derive(Debug, Default)]
pub struct Arguments {
    pool: PoolOptions,
    /// The pool's own objects instead of a dataset's.
    mos: bool,
    /// Print every entry, not only sums.
    entries: bool,
    /// Raw bytes.
    raw: bool,
    operands: Vec<OsString>,
}

/// Where a subcommand prints.
pub struct Printer {
    output: Output,
    is_json: bool,
    exit: Exit,
}

/// A subcommand: its name and what it does.
type Subcommand = (
    &'static str,
    fn(&Arguments, &mut Printer) -> Result<(), Failure>,
);

const SUBCOMMANDS: &[Subcommand] = &[
    ("labels", devices::labels),
    ("uberblocks", devices::uberblocks),
    ("config", pool::config),
    ("mos", pool::object_directory),
    ("features", pool::features),
    ("history", pool::history),
    ("dedup", pool::dedup),
    ("datasets", pool::datasets),
    ("objects", objects::objects),
    ("object", objects::object),
    ("zap", objects::zap),
    ("blocks", objects::blocks),
    ("bp", objects::block_pointer),
    ("read", space::read),
    ("spacemaps", space::space_maps),
    ("intent-log", log::intent_log),
];

impl Printer {
    /// Prints a value.
    pub fn node(&mut self, node: impl Into<Node>) -> Result<(), Failure> {
        let node = node.into();
        match self.is_json {
            true => self.output.json_pretty(&node.json()),
            false => self.output.text(&node.text()),
        }
    }

    /// Prints one of many: a line of JSON, or a line of text.
    pub fn row(&mut self, node: impl Into<Node>, text: &str) -> Result<(), Failure> {
        match self.is_json {
            true => self.output.json(&node.into().json()),
            false => self.output.line(text),
        }
    }

    /// Prints a line for people only.
    pub fn title(&mut self, text: &str) -> Result<(), Failure> {
        match self.is_json {
            true => Ok(()),
            false => self.output.line(text),
        }
    }

    /// Says what is wrong, and goes on.
    pub fn complain(&mut self, message: &str) {
        // What was printed before comes first; if it cannot be written, the end will say so.
        let _ = self.output.flush();
        complain(message);
        self.exit = Exit::Problems;
    }
}

impl Arguments {
    /// The first operand: a dataset, or a file in one.
    fn spec(&self) -> Result<Spec, Failure> {
        match self.operands.first() {
            Some(text) => Spec::parse(text),
            None => Err(wrong("give a pool or dataset")),
        }
    }

    /// Operand `index` as a number.
    fn number(&self, index: usize, what: &str) -> Result<u64, Failure> {
        let text = self.operands.get(index).and_then(|text| text.to_str());
        let text = text.ok_or_else(|| wrong(format!("give {what}")))?;
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| wrong(format!("'{text}' is not {what}")))
    }

    fn open(&self, spec: &Spec) -> Result<Session, Failure> {
        Session::open(&self.pool, spec.pool())
    }

    /// The objects of the dataset in `spec`, or the pool's own.
    fn object_set(&self, session: &Session, spec: &Spec) -> Result<Arc<ObjectSet>, Failure> {
        match self.mos {
            true => Ok(Arc::clone(session.pool().mos())),
            false => session.object_set(&session.dataset(&spec.dataset)?),
        }
    }
}

fn wrong(problem: impl Into<String>) -> Failure {
    Failure::Usage {
        command: "inspect",
        problem: problem.into(),
    }
}

/// An error of the layers below about `what`.
fn failed<E: Into<cenote_dsl::DslError>>(what: impl Into<String>) -> impl FnOnce(E) -> Failure {
    let what = what.into();
    move |source| Failure::Metadata {
        what,
        source: Box::new(source.into()),
    }
}

/// Runs the command.
pub fn run(line: &mut CommandLine) -> Result<Exit, Failure> {
    let mut arguments = Arguments::default();
    let mut is_json = false;
    while let Some(word) = line.next()? {
        match word {
            Word::Operand(text) => arguments.operands.push(text),
            Word::Option(option) => match option.as_str() {
                "-j" | "--json" => is_json = true,
                "--mos" => arguments.mos = true,
                "-e" | "--entries" => arguments.entries = true,
                "--raw" => arguments.raw = true,
                _ => arguments.pool.take(&option, line)?,
            },
        }
    }
    if arguments.operands.is_empty() {
        return Err(line.wrong("say what to inspect: labels, uberblocks, config, objects, ..."));
    }
    let name = arguments.operands.remove(0).to_string_lossy().into_owned();
    let Some((_, subcommand)) = SUBCOMMANDS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
        return Err(line.wrong(format!("'{name}' is none of {}", known.join(", "))));
    };
    let mut printer = Printer {
        output: Output::new(),
        is_json,
        exit: Exit::Good,
    };
    subcommand(&arguments, &mut printer)?;
    printer.output.flush()?;
    Ok(printer.exit)
}
