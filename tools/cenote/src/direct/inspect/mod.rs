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

use super::failure::{Exit, Failure};
use super::line::Command;
use super::options::PoolOptions;
use super::output::Output;
use super::session::Session;
use super::spec::Spec;
use crate::command::flags;
use cenote_dmu::ObjectSet;
use node::Node;
use std::ffi::OsString;
use std::sync::Arc;

/// The command.
pub const COMMAND: Command = Command {
    name: "inspect",
    summary: "Look at the structures of a pool",
    synopsis: "WHAT [OPTION]... ARGUMENT...",
    about: "\
Shows what is stored, for people who study or rescue pools.

Without opening a pool, also of damaged ones (or give a pool's name and -d):
  labels DEVICE...             the four labels: health, configuration
  uberblocks DEVICE...         all uberblocks, the best first, and where they stand

Of a pool:
  config POOL                  the uberblock in use and the pool's configuration
  mos POOL                     the object directory
  features POOL                enabled features and how many things use them
  history POOL                 the log of commands and internal events
  dedup POOL                   deduplication tables and cloned blocks
  spacemaps POOL               metaslabs and their space maps; -e: every entry
  read POOL VDEV:OFFSET:SIZE   bytes by address, in hex as block pointers show it; --raw
  datasets POOL[/DATASET]      datasets, snapshots and bookmarks with their numbers
  intent-log POOL[/DATASET]    records that were not replayed; -e: every record

Of a dataset; with --mos and a pool's name, of the pool's own objects. NUMBER may be left
out when a path is given, as in POOL/DATASET:/PATH:
  objects DATASET              all objects
  object DATASET NUMBER        one: dnode, attributes, contents as far as they are known
  zap DATASET NUMBER           all entries of a ZAP
  blocks DATASET NUMBER        the tree of block pointers
  bp DATASET NUMBER LEVEL BLOCK
                               one block pointer, and the health of each of its copies

Example:
  cenote inspect bp -d /mnt/images tank/home:/alice/photo.jpg 0 3",
    flags: flags! {
        'j' "json" _ "JSON: one value, or one a line where there may be many";
        'e' "entries" _ "every entry";
        _ "raw" _ "bytes instead of hex";
        _ "mos" _ "the pool's own objects, not a dataset's";
    },
    run,
};

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
        self.output.complain(message);
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
        command: COMMAND.name,
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

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, &words)?;
    let Some((name, operands)) = line.operands.split_first() else {
        return Err(line.wrong("say what to inspect: labels, uberblocks, config, objects, ..."));
    };
    let arguments = Arguments {
        pool,
        mos: line.has("mos"),
        entries: line.has("entries"),
        raw: line.has("raw"),
        operands: operands.to_vec(),
    };
    let name = name.to_string_lossy();
    let Some((_, subcommand)) = SUBCOMMANDS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
        return Err(line.wrong(format!("'{name}' is none of {}", known.join(", "))));
    };
    let mut printer = Printer {
        output: Output::new(),
        is_json: line.has("json"),
    };
    subcommand(&arguments, &mut printer)?;
    printer.output.finish()
}
