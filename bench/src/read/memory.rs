//! Peak memory of importing a golden pool and copying all of it out.

use super::{Comparison, Options, product};
use anyhow::{Result, ensure};
use cenote_tests::golden::{self, Golden};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a copy may take at most.
const LIMIT_MIB: f64 = 256.0;

/// MiB at the peak of `cenote cp -a` of everything in a file system.
fn copy_peak(cenote: &Path, devices: &Path, file_system: &str) -> Result<f64> {
    let target = tempfile::tempdir()?;
    let mut child = Command::new(cenote)
        .args(["cp", "-a", "--quiet", "-d"])
        .arg(devices)
        .arg(format!("{file_system}:/"))
        .arg(target.path().join("copy"))
        .stdin(Stdio::null())
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
    ensure!(status.success(), "cp of {file_system} failed");
    Ok(peak as f64 / f64::from(1 << 20))
}

pub fn run(_: &Options) -> Result<Vec<Comparison>> {
    let cenote = product::program("cenote", "cenote")?;
    let mut worst = (0_f64, String::new());
    for kind in golden::kinds() {
        let Some(pool) = Golden::find(&kind)? else {
            continue;
        };
        let devices = pool.devices()?;
        for (name, dataset) in &pool.manifest.datasets {
            let is_locked = pool
                .manifest
                .keys
                .keys()
                .any(|root| name.starts_with(root.as_str()));
            if dataset.entries.is_none() || dataset.is_skipped || is_locked {
                continue;
            }
            let peak = copy_peak(&cenote, &devices, name)?;
            if peak > worst.0 {
                worst = (peak, name.clone());
            }
        }
    }
    Ok(vec![Comparison {
        name: format!("worst: {}", worst.1),
        ours: format!("{:.0} MiB", worst.0),
        theirs: format!("{LIMIT_MIB:.0} MiB"),
        ratio: LIMIT_MIB / worst.0,
        wanted: 1.0,
    }])
}
