//! `cenote cloud`: devices in object stores, named directly or by their pool.
//!
//! The daemon answers for devices of imported pools. Others, and those only read, are opened here
//! at their newest commit, which does not disturb a writer.

mod copy;
mod price;
mod report;
mod target;
mod verify;

use cenote_control::model::StoreAct;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, usage};
use target::{ask, style};

/// The command.
pub const COMMAND: Command = Command {
    name: "cloud",
    summary: "Look after pools in object stores",
    synopsis: "status | sync | verify | compact | price POOL|URL\n       cenote cloud copy FROM TO",
    about: "A device in an object store is named by a URL: s3://BUCKET/PREFIX or\n\
            file:///DIRECTORY.\n\
            'status' shows its state and the requests since it was opened;\n\
            'sync' uploads all changes and waits until they are in the store;\n\
            'verify' downloads everything that is needed and compares it with its checksums; of a\n\
            pool that is imported, it uploads again what the store has lost and this machine has;\n\
            'compact' rewrites objects of which only a small part is needed;\n\
            'price' estimates the cost of a month;\n\
            'copy' copies between devices and images: FROM and TO are URLs, files or block\n\
            devices. If TO is a URL without size=, the new device is as large as FROM.",
    flags: flags! {
        'j' "json" _ "print JSON";
        'q' "quiet" _ "no progress";
        _ "storage" "PRICE" "price: of a GB for a month; 0.023 unless said";
        _ "put" "PRICE" "price: of 1000 puts or lists; 0.005 unless said";
        _ "get" "PRICE" "price: of 1000 gets; 0.0004 unless said";
        _ "egress" "PRICE" "price: of a GB that is fetched; 0.09 unless said";
    },
    run: Run::Asking(run),
};

/// The options of long-running subcommands.
const PROGRESS: &[&str] = &["quiet", "json"];

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // Operands that are not UTF-8 name neither a pool nor a store.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["status", target] => {
            arguments.only(&["json"])?;
            report::run(target, arguments, context)
        }
        ["sync", pool] => act(pool, StoreAct::Sync, arguments, context),
        ["compact", pool] => act(pool, StoreAct::Compact, arguments, context),
        ["verify", target] => {
            arguments.only(PROGRESS)?;
            verify::run(target, arguments, context)
        }
        ["price", target] => {
            arguments.only(&["json", "storage", "put", "get", "egress"])?;
            price::run(target, arguments, context)
        }
        ["copy", from, to] => {
            arguments.only(PROGRESS)?;
            copy::run(from, to, arguments, context)
        }
        _ => usage(""),
    }
}

/// Lets the daemon perform an action on a pool's devices, and prints their state afterwards.
fn act(pool: &str, act: StoreAct, arguments: &Arguments, context: &mut Context) -> Outcome {
    arguments.only(PROGRESS)?;
    let stores = ask(pool, act, style(arguments), context)?;
    if arguments.has("json") {
        report::print_json(&stores, context);
    }
    Ok(0)
}
