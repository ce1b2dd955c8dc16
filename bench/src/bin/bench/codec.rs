//! `cargo xtask bench codec [checksums|parity|ciphers|all|NAME] [seconds]`: the speeds of `codec`,
//! where `NAME` is the beginning of a checksum's name.

use cenote_bench::codec::{self, Rate};
use std::process::ExitCode;
use std::vec::IntoIter;

fn print(rates: &[Rate]) {
    for rate in rates {
        let disk = if rate.data_columns > 0 {
            format!(", disk_bw {:10.1} MiB/s", rate.disk_bandwidth())
        } else {
            String::new()
        };
        println!(
            "{:>10} {:>9} {:8.3} GB/s{disk}",
            rate.name, rate.block_bytes, rate.gb_per_second
        );
    }
}

/// Measures what the words of the command line say.
pub fn main(mut arguments: IntoIter<String>) -> ExitCode {
    let what = arguments.next().unwrap_or_default();
    let seconds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(4.0);
    match what.as_str() {
        "checksums" => print(&codec::checksums(seconds)),
        "parity" => print(&codec::parity(seconds)),
        "ciphers" => print(&codec::ciphers(seconds)),
        name if !name.is_empty() && name != "all" => print(&codec::checksums_named(name, seconds)),
        _ => {
            print(&codec::checksums(seconds));
            print(&codec::ciphers(seconds));
            print(&codec::parity(seconds));
        }
    }
    ExitCode::SUCCESS
}
