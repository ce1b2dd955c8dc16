//! Reading a pool without a daemon: `cenote manifest -d DIRECTORY DATASET`.

use crate::golden::Golden;
use crate::manifest::{self, Dataset, Datasets, Key};
use crate::mounted;
use crate::program::{Cenote, Limits, Outcome, run};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// The options that the kind of pool needs: its keys, and the replay of its log.
pub fn options(cenote: &Cenote, golden: &Golden) -> Result<Vec<String>> {
    options_with(cenote, golden, |_| true)
}

/// The same with those keys only that `wanted` says: passphrases take a moment to be stretched.
pub fn options_with(
    cenote: &Cenote,
    golden: &Golden,
    wanted: impl Fn(&Key) -> bool,
) -> Result<Vec<String>> {
    let mut options = Vec::new();
    if golden.kind.starts_with("dirty-zil") {
        options.push("--replay".into());
    }
    for (index, (dataset, key)) in golden.manifest.keys.iter().enumerate() {
        if !wanted(key) {
            continue;
        }
        let path = cenote.directory().join(format!("key{index}"));
        let bytes = match key {
            Key::Passphrase(text) | Key::Hex(text) => text.clone().into_bytes(),
            Key::Raw(bytes) => bytes.clone(),
        };
        fs::write(&path, bytes)?;
        options.push("--key".into());
        options.push(format!("{dataset}=file://{}", path.display()));
    }
    Ok(options)
}

/// Everything that `wanted` names, read from the devices in `devices`.
pub fn read_all(
    cenote: &Cenote,
    golden: &Golden,
    devices: &Path,
    options: &[String],
    wanted: &Datasets,
) -> Result<Datasets> {
    let mut found = Datasets::new();
    for (name, want) in wanted {
        let outcome = match (&want.entries, &want.volume) {
            (Some(_), _) => read(cenote, devices, options, &["manifest", "--sha256"], &[name])?,
            (None, Some(_)) => read(cenote, devices, options, &["dump"], &[name, "-"])?,
            (None, None) => {
                found.insert(name.clone(), Dataset::default());
                continue;
            }
        };
        let outcome = outcome.success().with_context(|| golden.kind.clone())?;
        let dataset = match want.volume {
            Some(_) => Dataset {
                volume: Some((
                    outcome.stdout.len() as u64,
                    mounted::hex(&Sha256::digest(&outcome.stdout)),
                )),
                ..Dataset::default()
            },
            None => {
                let document = serde_json::from_slice(&outcome.stdout);
                let document = document.with_context(|| format!("{name}: not JSON"))?;
                manifest::parse_dataset(&document).with_context(|| name.clone())?
            }
        };
        found.insert(name.clone(), dataset);
    }
    Ok(found)
}

/// Runs `cenote COMMAND -d DEVICES OPTIONS OPERANDS`.
pub fn read(
    cenote: &Cenote,
    devices: &Path,
    options: &[String],
    command: &[&str],
    operands: &[&str],
) -> Result<Outcome> {
    let devices = devices.to_str().context("a path in UTF-8")?;
    let mut arguments: Vec<&str> = command.to_vec();
    arguments.extend(["-d", devices]);
    arguments.extend(options.iter().map(String::as_str));
    arguments.extend(operands);
    run(cenote.command("cenote", &arguments), b"", Limits::default())
}
