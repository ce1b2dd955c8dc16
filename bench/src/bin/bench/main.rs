//! `bench NAME [ARGUMENT...]`: what `cargo xtask bench NAME` runs.

#![forbid(unsafe_code)]

mod cloud;
mod codec;
mod http;
mod read;
mod scan;
mod send;
mod snapshots;
mod sync;
mod volume;
mod write;

use std::process::ExitCode;
use std::vec::IntoIter;

/// Runs a measurement with the words of its command line.
type Main = fn(IntoIter<String>) -> ExitCode;

/// The measurements, by what they are called on the command line.
const BENCHES: [(&str, Main); 10] = [
    ("cloud", cloud::main),
    ("codec", codec::main),
    ("http", http::main),
    ("read", read::main),
    ("scan", scan::main),
    ("send", send::main),
    ("snapshots", snapshots::main),
    ("sync", sync::main),
    ("volume", volume::main),
    ("write", write::main),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default();
    match BENCHES.iter().find(|(known, _)| *known == name) {
        Some((_, main)) => main(words),
        None => {
            let names = BENCHES.map(|(name, _)| name).join(", ");
            eprintln!("usage: bench NAME [ARGUMENT...]; there are: {names}");
            ExitCode::from(2)
        }
    }
}
