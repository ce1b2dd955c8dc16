//! What was done so far, kept in a file so that a run can be continued.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Counts over all sessions.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub sessions: u64,
    pub kills: u64,
    /// Kills of a daemon that was importing or replaying.
    pub kills_in_import: u64,
    /// Judgements by our `verify` and by OpenZFS.
    pub judged: u64,
    pub foreign: u64,
    /// Acknowledged things that were found again, by load.
    pub found: BTreeMap<String, u64>,
    pub failed: Vec<String>,
}

impl Counts {
    /// Those in the file, if there is one.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            text => text.with_context(|| path.display().to_string())?,
        };
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} does not have the counts of a run", path.display()))?;
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let found = value.get("found").and_then(Value::as_object);
        let found = found.into_iter().flatten();
        let failed = value.get("failed").and_then(Value::as_array);
        let failed = failed.into_iter().flatten();
        Ok(Self {
            sessions: number("sessions"),
            kills: number("kills"),
            kills_in_import: number("kills_in_import"),
            judged: number("judged"),
            foreign: number("foreign"),
            found: found
                .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
                .collect(),
            failed: failed
                .map(|story| story.as_str().unwrap_or_default().to_owned())
                .collect(),
        })
    }

    /// Writes them, if a file was named.
    pub fn save(&self, path: Option<&Path>) -> Result<()> {
        let Some(path) = path else {
            return Ok(());
        };
        let value = json!({
            "sessions": self.sessions,
            "kills": self.kills,
            "kills_in_import": self.kills_in_import,
            "judged": self.judged,
            "foreign": self.foreign,
            "found": self.found,
            "failed": self.failed,
        });
        let text = serde_json::to_string_pretty(&value)?;
        fs::write(path, text).with_context(|| path.display().to_string())
    }

    /// Adds what a load found.
    pub fn add(&mut self, load: &str, found: u64) {
        *self.found.entry(load.to_owned()).or_default() += found;
    }

    /// One line about them.
    pub fn summary(&self) -> String {
        let found: Vec<String> = self
            .found
            .iter()
            .map(|(load, count)| format!("{load} {count}"))
            .collect();
        format!(
            "{} kills ({} during an import), {} judged, {} turns with OpenZFS, {} failures; \
             acknowledged and found: {}",
            self.kills,
            self.kills_in_import,
            self.judged,
            self.foreign,
            self.failed.len(),
            found.join(", "),
        )
    }
}
