//! `cenote inspect`: shows stored structures, for studying and rescuing pools.
//!
//! `labels` and `uberblocks` read devices without opening a pool. The others open it as other
//! commands do, with `--txg` and the rest of the options. With `--json` a subcommand prints one
//! JSON value, or one per line if there may be many.

mod arguments;
mod devices;
mod log;
pub mod node;
mod objects;
mod pool;
mod printer;
mod space;

pub use objects::packed_list;

use crate::reading::failure::{Exit, Failure, ended};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use arguments::{Arguments, NAME};
use cenote_words::command::{Command, Run, flags};
use printer::Printer;
use std::ffi::OsString;

/// The command.
pub const COMMAND: Command = Command {
    name: NAME,
    summary: "Look at the structures of a pool",
    synopsis: "WHAT [OPTION]... ARGUMENT...",
    about: "\
Shows stored structures, for studying and rescuing pools.

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
    run: Run::Reading(|words| ended(run(words))),
};

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
        let question = cenote_words::texts::question(&name, known.iter().copied());
        let known = known.join(", ");
        return Err(line.wrong(format!("'{name}' is none of {known}{question}")));
    };
    let mut printer = Printer {
        output: Output::new(),
        is_json: line.has("json"),
    };
    subcommand(&arguments, &mut printer)?;
    printer.output.finish()
}
