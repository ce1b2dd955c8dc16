//! OpenZFS as sender and receiver, on a pool of its own.

use super::link::Facts;
use crate::manifest;
use crate::offline;
use crate::program::Cenote;
use crate::referee;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// The pool.
pub const POOL: &str = "rival";

/// OpenZFS's pool.
pub struct Rival {
    directory: PathBuf,
}

fn ask(arguments: &[&str]) -> Result<String> {
    referee::run(arguments)?.context("the referee was there")?
}

impl Rival {
    /// A new pool in `directory`; `None` where OpenZFS is missing.
    pub fn new(directory: PathBuf) -> Result<Option<Self>> {
        if referee::required().is_none() {
            return Ok(None);
        }
        fs::create_dir_all(&directory)?;
        let place = directory.display().to_string();
        ask(&["create", &place, POOL, "--size", "3G"])?;
        Ok(Some(Self { directory }))
    }

    fn place(&self) -> String {
        self.directory.display().to_string()
    }

    /// Receives a stream that is in a file beside the pool; one that is refused is kept.
    pub fn receive(&self, target: &str, stream: &[u8], force: bool) -> Result<()> {
        let file = self.directory.with_extension("stream");
        fs::write(&file, stream)?;
        let (place, shown) = (self.place(), file.display().to_string());
        let mut words = vec!["receive", "--ignore-assertions"];
        if force {
            words.push("-F");
        }
        words.extend([place.as_str(), target, &shown]);
        let Err(error) = ask(&words) else {
            return Ok(());
        };
        let kept = std::env::temp_dir().join("refused-by-openzfs.stream");
        fs::copy(&file, &kept)?;
        Err(error.context(format!("kept as {}", kept.display())))
    }

    /// Sends `snapshot` since the snapshot `from`.
    pub fn send(&self, flags: &[&str], from: Option<&str>, snapshot: &str) -> Result<Vec<u8>> {
        let file = self.directory.with_extension("sent");
        let (place, shown) = (self.place(), file.display().to_string());
        let mut words = vec!["send", "-o", &shown];
        words.extend(flags);
        if let Some(from) = from {
            words.extend(["-i", from]);
        }
        words.extend([place.as_str(), snapshot]);
        ask(&words)?;
        Ok(fs::read(&file)?)
    }

    /// What is in a snapshot, read by Cenote from the exported pool.
    pub fn facts(&self, cenote: &Cenote, snapshot: &str, key: Option<&str>) -> Result<Facts> {
        let mut options = Vec::new();
        if let Some(key) = key {
            let dataset = snapshot.split('@').next().unwrap_or_default();
            options.extend(["--key".to_owned(), format!("{dataset}=file://{key}")]);
        }
        let command = ["manifest", "--sha256"];
        let read = offline::read(cenote, &self.directory, &options, &command, &[snapshot])?;
        let text = read.success()?.text();
        let document = serde_json::from_str(&text).context("a manifest")?;
        let dataset = manifest::parse_dataset(&document)?;
        Ok(Facts {
            guid: dataset.guid.context("a guid")?,
            entries: dataset.entries.context("files")?,
        })
    }

    /// OpenZFS makes a random history; returns the manifest of its contents.
    pub fn churn(&self, seed: u64, operations: u64) -> Result<Value> {
        let file = self.directory.with_extension("json");
        let (place, shown) = (self.place(), file.display().to_string());
        let (seed, operations) = (seed.to_string(), operations.to_string());
        let words = ["churn", &place, POOL, "--seed", &seed, "--ops", &operations];
        let words: Vec<&str> = words.into_iter().chain(["--manifest", &shown]).collect();
        ask(&words)?;
        Ok(serde_json::from_str(&fs::read_to_string(&file)?)?)
    }

    /// OpenZFS checks a dataset against a manifest.
    pub fn verify(&self, dataset: &Value) -> Result<()> {
        let file = self.directory.with_extension("json");
        let manifest = json!({
            "pool": POOL, "seed": 0, "operations": 0, "datasets": [dataset], "foreign": {},
        });
        fs::write(&file, manifest.to_string())?;
        ask(&["verify", &self.place(), POOL, &file.display().to_string()]).map(|_| ())
    }

    /// OpenZFS checks the pool.
    pub fn judge(&self) -> Result<()> {
        let text = ask(&["check", &self.place(), POOL])?;
        ensure!(text.contains(" 0 failed"), "{text}");
        Ok(())
    }
}
