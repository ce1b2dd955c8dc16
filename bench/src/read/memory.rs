//! Peak memory of importing a golden pool and copying all of it out.
//!
//! Each file system of each pool is copied by a process of its own, with default settings and with
//! a limit set. The kernel keeps the high water mark of a process's resident memory, program text
//! and thread stacks included, so that nothing that was held for a moment only is missed.

use super::{Comparison, Options, product};
use anyhow::{Result, ensure};
use cenote_tests::golden::{self, Golden};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a copy may take at most with default settings.
const DEFAULT_MIB: f64 = 256.0;
/// A limit that is set, and must be obeyed.
const LIMIT: &str = "64M";
const LIMIT_MIB: f64 = 64.0;
/// What the target's file system cannot take is no failure of the copy.
const NO_ROOM: &str = "the target's file system has no room for so large an attribute";

/// One file system to copy.
struct Source {
    devices: PathBuf,
    name: String,
}

/// All file systems of all golden pools that can be read without a key.
fn sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for kind in golden::kinds() {
        let Some(pool) = Golden::find(&kind)? else {
            continue;
        };
        let devices = pool.devices()?;
        for (name, dataset) in &pool.manifest.datasets {
            let mut roots = pool.manifest.keys.keys();
            let is_locked = roots.any(|root| name.starts_with(root.as_str()));
            if dataset.entries.is_some() && !dataset.is_skipped && !is_locked {
                let (devices, name) = (devices.clone(), name.clone());
                sources.push(Source { devices, name });
            }
        }
    }
    ensure!(!sources.is_empty(), "there are no golden pools here");
    Ok(sources)
}

/// MiB at the peak of `cenote cp -a` of everything in a file system.
fn copy_peak(cenote: &Path, source: &Source, memory: Option<&str>) -> Result<f64> {
    let target = tempfile::tempdir()?;
    let messages = target.path().join("messages");
    let mut command = Command::new(cenote);
    command.args(["cp", "-a", "--quiet", "-d"]);
    command.arg(&source.devices);
    if let Some(memory) = memory {
        command.args(["--memory", memory]);
    }
    let mut child = command
        .arg(format!("{}:/", source.name))
        .arg(target.path().join("copy"))
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&messages)?)
        .spawn()?;
    let mut peak = 0;
    // The high water mark only grows; the last look before the end is the peak, but for what
    // the last 2 ms added.
    let status = loop {
        peak = peak.max(product::peak_of(child.id()).unwrap_or(0));
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let messages = std::fs::read_to_string(messages)?;
    // The line with their number comes last.
    let mut problems = messages.lines().filter(|line| !line.ends_with("in all"));
    let copied = status.success() || problems.all(|line| line.ends_with(NO_ROOM));
    ensure!(copied, "cp of {} failed: {messages}", source.name);
    Ok(peak as f64 / f64::from(1 << 20))
}

/// The worst of all copies with one setting.
fn worst(
    cenote: &Path,
    sources: &[Source],
    memory: Option<&str>,
    limit: f64,
) -> Result<Comparison> {
    let (mut peak, mut name) = (0_f64, "");
    for source in sources {
        let found = copy_peak(cenote, source, memory)?;
        if found > peak {
            (peak, name) = (found, &source.name);
        }
    }
    let setting = memory.map_or_else(
        || "default".to_owned(),
        |memory| format!("--memory {memory}"),
    );
    Ok(Comparison {
        name: format!("{setting}, worst of {}: {name}", sources.len()),
        ours: format!("{peak:.0} MiB"),
        theirs: format!("{limit:.0} MiB"),
        ratio: limit / peak,
        wanted: 1.0,
    })
}

/// Copies with default settings and with a limit.
pub fn run(_: &Options) -> Result<Vec<Comparison>> {
    let cenote = product::program("cenote", "cenote")?;
    let sources = sources()?;
    Ok(vec![
        worst(&cenote, &sources, None, DEFAULT_MIB)?,
        worst(&cenote, &sources, Some(LIMIT), LIMIT_MIB)?,
    ])
}
