//! `trial NAME [ARGUMENT...]`: what `cargo xtask NAME` runs.
//!
//! The trials are one program: each of them would link the whole of the library again.

#![forbid(unsafe_code)]

mod boot;
mod chaos;
mod clients;
mod cloud;
mod dashboard;
mod fstests;
mod golden;
mod guest_ublk;
mod guest_volume;
mod handbook;
mod history;
mod model;
mod network;
mod pingpong;
mod pjdfstest;
mod recorder;
mod repair;
mod replicate;
mod seeds;
mod torture;
mod zoo;

use cenote_tests::words::Words;
use std::process::ExitCode;

/// Runs a trial with the words of its command line.
type Main = fn(Words) -> ExitCode;

/// The trials, by what they are called on the command line.
const TRIALS: [(&str, Main); 21] = [
    ("boot", boot::main),
    ("chaos", chaos::main),
    ("clients", clients::main),
    ("cloud", cloud::main),
    ("dashboard", dashboard::main),
    ("fstests", fstests::main),
    ("golden", golden::main),
    ("guest-ublk", guest_ublk::main),
    ("guest-volume", guest_volume::main),
    ("handbook", handbook::main),
    ("history", history::main),
    ("model", model::main),
    ("network", network::main),
    ("pingpong", pingpong::main),
    ("pjdfstest", pjdfstest::main),
    ("recorder", recorder::main),
    ("repair", repair::main),
    ("replicate", replicate::main),
    ("seeds", seeds::main),
    ("torture", torture::main),
    ("zoo", zoo::main),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    match TRIALS.iter().find(|(known, _)| *known == name) {
        Some((_, main)) => main(Words::new(arguments)),
        None => {
            let names = TRIALS.map(|(name, _)| name).join(", ");
            eprintln!("usage: trial NAME [ARGUMENT...]; there are: {names}");
            ExitCode::from(2)
        }
    }
}
