//! `zdb -i`: intent logs: their headers, and with `-ii` their records.

use crate::pointer;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_base::Txg;
use cenote_dmu::ObjectSet;
use cenote_dsl::Dataset;
use cenote_intent_log::{ChainBlock, IntentLog};
use cenote_ondisk::intent_log::record::TYPE_CASE_INSENSITIVE;
use std::sync::Arc;

/// The types of records by number.
const NAMES: [&str; 25] = [
    "Total",
    "TX_CREATE",
    "TX_MKDIR",
    "TX_MKXATTR",
    "TX_SYMLINK",
    "TX_REMOVE",
    "TX_RMDIR",
    "TX_LINK",
    "TX_RENAME",
    "TX_WRITE",
    "TX_TRUNCATE",
    "TX_SETATTR",
    "TX_ACL_V0",
    "TX_ACL_ACL",
    "TX_CREATE_ACL",
    "TX_CREATE_ATTR",
    "TX_CREATE_ACL_ATTR",
    "TX_MKDIR_ACL",
    "TX_MKDIR_ATTR",
    "TX_MKDIR_ACL_ATTR",
    "TX_WRITE2",
    "TX_SETSAXATTR",
    "TX_RENAME_EXCHANGE",
    "TX_RENAME_WHITEOUT",
    "TX_CLONE_RANGE",
];

/// What would become of the log if the pool was imported now.
struct Claim {
    is_claimed: bool,
    /// The pool's txg: blocks born later are not in its space maps.
    txg: Txg,
}

impl Claim {
    fn words(&self, block: &ChainBlock) -> &'static str {
        match (self.is_claimed, block.pointer.logical_birth() > self.txg) {
            (true, _) => "already claimed",
            (false, true) => "will claim",
            (false, false) => "won't claim",
        }
    }
}

/// Prints a dataset's log, if it has one.
pub fn print(
    dataset: &Dataset,
    set: &Arc<ObjectSet>,
    txg: Txg,
    level: usize,
    printer: &mut Printer,
) -> Result<(), Problem> {
    let name = dataset.name().as_str();
    let what = || format!("{name}: intent log");
    let Some(log) = IntentLog::open(set).map_err(failed(what()))? else {
        return Ok(());
    };
    let header = log.header();
    printer.text(&format!(
        "\n    ZIL header: claim_txg {}, claim_blk_seq {}, claim_lr_seq {} replay_seq {}, \
         flags {:#x}\n",
        header.claim_txg,
        header.claim_block_sequence,
        header.claim_record_sequence,
        header.replay_sequence,
        header.flags
    ))?;
    let claim = Claim {
        is_claimed: log.is_claimed(),
        txg,
    };
    let mut counts = [0_u64; NAMES.len()];
    let mut has_begun = false;
    for block in log.chain() {
        let block = match block {
            Ok(block) => block,
            Err(error) => {
                printer.complain(&format!("{}: {error}", what()))?;
                break;
            }
        };
        if level >= 2 && !has_begun {
            printer.line("")?;
            has_begun = true;
        }
        print_block(&block, &claim, level, &mut counts, printer)?;
    }
    if has_begun {
        totals(&counts, level, printer)?;
    }
    match level {
        0 | 1 => Ok(()),
        _ => printer.line(""),
    }
}

fn print_block(
    block: &ChainBlock,
    claim: &Claim,
    level: usize,
    counts: &mut [u64; NAMES.len()],
    printer: &mut Printer,
) -> Result<(), Problem> {
    if level >= 3 {
        let mut text = format!("\tBlock seqno {}, {}", block.sequence(), claim.words(block));
        if level >= 5 {
            text.push_str(&format!(", {}", pointer::full(&block.pointer)));
        }
        printer.line(&text)?;
    }
    for record in block.headers() {
        let number = record.record_type & !TYPE_CASE_INSENSITIVE;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let name = NAMES.get(index).filter(|_| index > 0);
        counts[0] += 1;
        match name {
            Some(_) => counts[index] += 1,
            None => printer.complain(&format!("a log record has unknown type {number}"))?,
        }
        if level >= 2 {
            let case = match record.record_type & TYPE_CASE_INSENSITIVE {
                0 => "   ",
                _ => "-CI",
            };
            let name = name.unwrap_or(&"unknown");
            printer.line(&format!(
                "\t\t{name:<16}{case} len {:6}, txg {}, seq {}",
                record.length, record.txg, record.sequence
            ))?;
        }
    }
    Ok(())
}

/// How many records there are of each type that there is; with `-iii` of all types.
fn totals(counts: &[u64; NAMES.len()], level: usize, printer: &mut Printer) -> Result<(), Problem> {
    for (name, count) in NAMES.iter().zip(counts) {
        if *count > 0 || level >= 3 {
            printer.line(&format!("\t\t{name:<19} {count:2}"))?;
        }
    }
    Ok(())
}
