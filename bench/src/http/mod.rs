//! Sites served by the daemon beside nginx on other file systems, on files of one disk, in one
//! run: small files that are in memory, large ones that are not, connections that wait, and both
//! loads at once.

mod load;
mod options;
mod servers;

pub use options::Options;

use anyhow::{Result, ensure};
use load::{idle_memory, large_rate, mixed_rate, small_rate};
use options::LARGE_FILES;
use servers::Served;
use std::fs;
use std::path::Path;

/// Bytes of a small file.
const SMALL: usize = 4096;

/// Bytes that do not compress.
fn noise(state: &mut u64, buffer: &mut [u8]) {
    for bytes in buffer.chunks_mut(8) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        bytes.copy_from_slice(&state.to_le_bytes()[..bytes.len()]);
    }
}

/// The same files for everybody.
fn fill(root: &Path, options: &Options) -> Result<()> {
    use std::io::Write;
    let mut state = 0x9e37_79b9_7f4a_7c15;
    fs::create_dir(root.join("small"))?;
    let mut small = vec![0; SMALL];
    for number in 0..options.files {
        noise(&mut state, &mut small);
        fs::write(root.join(format!("small/{number}")), &small)?;
    }
    let mut piece = vec![0; 1 << 20];
    for number in 0..LARGE_FILES {
        let mut file = fs::File::create(root.join(format!("large{number}")))?;
        for _ in 0..options.mebibytes {
            noise(&mut state, &mut piece);
            file.write_all(&piece)?;
        }
        file.sync_all()?;
    }
    Ok(())
}

/// Prints a line: the figures, and ours by each of the others.
fn line(name: &str, figures: &[f64]) {
    let texts: Vec<String> = figures.iter().map(|one| format!("{one:>14.0}")).collect();
    let ratios = figures.iter().skip(1).map(|other| match figures.first() {
        Some(own) if *other > 0.0 => format!("{:>8.2}", own / other),
        _ => format!("{:>8}", "-"),
    });
    println!(
        "{name:<44}{}  {}",
        texts.join(""),
        ratios.collect::<String>()
    );
}

fn measured(servers: &[Served], measure: impl Fn(&Served) -> Result<f64>) -> Result<Vec<f64>> {
    servers.iter().map(measure).collect()
}

/// Runs the bench.
///
/// # Errors
/// A server or the load fails.
pub fn run(options: &Options) -> Result<bool> {
    fs::create_dir_all(&options.directory)?;
    let directory = tempfile::tempdir_in(&options.directory)?;
    let servers = Served::all(directory.path(), options)?;
    ensure!(!servers.is_empty(), "nothing serves");
    for server in &servers {
        fill(&server.root, options)?;
        server.begin()?;
    }
    let names: Vec<String> = servers
        .iter()
        .map(|one| format!("{:>14}", one.name))
        .collect();
    println!("{:<44}{}  ours by each", "", names.join(""));
    let wants = |name: &str| name.contains(&options.only);
    for connections in [1, 16, 64, 256] {
        let name = format!("small files, {connections} connections, requests/s");
        if wants(&name) {
            // Once to have it in memory.
            measured(&servers, |one| {
                small_rate(one, connections.max(16), options)
            })?;
            line(
                &name,
                &measured(&servers, |one| small_rate(one, connections, options))?,
            );
        }
    }
    if wants("large files") {
        line(
            "large files, cold, 4 connections, MB/s",
            &measured(&servers, |one| large_rate(one, options))?,
        );
    }
    if wants("mixed") {
        let pairs: Vec<(f64, f64)> = (servers.iter())
            .map(|one| mixed_rate(one, options))
            .collect::<Result<_>>()?;
        let alone: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let beside: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        line("mixed: hot files alone, requests/s", &alone);
        line("mixed: beside a scan of cold ones", &beside);
        let shares = pairs.iter().map(|(alone, beside)| 100.0 * beside / alone);
        line("mixed: percent that is left", &shares.collect::<Vec<f64>>());
    }
    if wants("idle") {
        let name = format!("{} idle connections, KiB of memory", options.idle);
        match measured(&servers, |one| idle_memory(one, options)) {
            Ok(figures) => line(&name, &figures),
            // Often a limit of open files that may not be raised.
            Err(error) => println!("{name}: not measured: {error:#}"),
        }
    }
    Ok(true)
}
