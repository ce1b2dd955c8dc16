//! Uberblocks, and `zdb -u POOL`.

use crate::pointer;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_ondisk::Uberblock;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::uberblock::{MAGIC, MULTIHOST_MAGIC, Multihost, ReflowScratch};
use cenote_own_commands::reading::session::Session;

/// An uberblock's lines. `level` is how often `-u` was given.
pub fn text(uberblock: &Uberblock, level: usize, printer: &Printer) -> String {
    let root = pointer::full(&uberblock.root);
    let mut text = format!(
        "\tmagic = {MAGIC:016x}\n\tversion = {}\n\ttxg = {}\n\tguid_sum = {}\n\
         \ttimestamp = {} UTC = {}\n\tbp = {root}\n",
        uberblock.version,
        uberblock.txg,
        uberblock.guid_sum,
        uberblock.timestamp,
        printer.time(uberblock.timestamp),
    );
    text.push_str(&multihost(uberblock.multihost.as_ref()));
    if level >= 4 {
        text.push_str(&format!("\trootbp = {root}\n"));
    }
    text.push_str(&format!(
        "\tcheckpoint_txg = {}\n",
        uberblock.checkpoint_txg
    ));
    let (state, offset) = match uberblock.raidz_reflow() {
        None => (0, 0),
        Some(reflow) => {
            let state = match reflow.scratch {
                ReflowScratch::None => 0,
                ReflowScratch::Valid => 1,
                ReflowScratch::InvalidSynced => 2,
                ReflowScratch::InvalidSyncedOnImport => 3,
                ReflowScratch::InvalidSyncedReflow => 4,
                ReflowScratch::Unknown(state) => state,
            };
            (state, reflow.offset)
        }
    };
    text.push_str(&format!("\traidz_reflow state={state} off={offset}\n"));
    text
}

fn multihost(multihost: Option<&Multihost>) -> String {
    let Some(multihost) = multihost else {
        return format!("\tmmp_magic = {:016x}\n", 0);
    };
    let mut text = format!(
        "\tmmp_magic = {MULTIHOST_MAGIC:016x}\n\tmmp_delay = {}\n",
        multihost.delay_ns
    );
    let mut valid = 0;
    let fields = [
        ("mmp_write", multihost.interval_ms, 1),
        ("mmp_seq", multihost.sequence.map(u64::from), 2),
        ("mmp_fail", multihost.fail_intervals.map(u64::from), 4),
    ];
    for (name, value, bit) in fields {
        if let Some(value) = value {
            text.push_str(&format!("\t{name} = {value}\n"));
            valid |= bit;
        }
    }
    text.push_str(&format!("\tmmp_valid = {valid:x}\n"));
    text
}

/// The uberblock of the checkpoint, if there is one.
pub fn print_checkpoint(session: &Session, printer: &mut Printer) -> Result<(), Problem> {
    let directory = session.pool().dsl().object_directory();
    let what = "the checkpoint";
    let words = directory.words(keys::CHECKPOINT).map_err(failed(what))?;
    let Some(words) = words.and_then(|words| words.first_chunk().copied()) else {
        return Ok(());
    };
    let uberblock = Uberblock::from_words(&words).map_err(failed(what))?;
    let text = text(&uberblock, 0, printer);
    printer.text(&format!("\nCheckpointed uberblock found:\n{text}\n"))
}

/// The uberblock that the pool is open at.
pub fn print(session: &Session, level: usize, printer: &mut Printer) -> Result<(), Problem> {
    let text = text(session.pool().opened_uberblock(), level, printer);
    printer.text(&format!("\nUberblock:\n{text}\n"))
}
