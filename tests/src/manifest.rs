//! Manifests: what OpenZFS says is in a pool.
//!
//! `manifest.json` names each dataset and snapshot with its guid and, for file systems, all of
//! its files: type, mode, owner, times, inode number, link count, size, contents as a sha256,
//! extended attributes. Entries stay JSON objects: comparing them key by key needs no model, and
//! a key that one side lacks is a difference like any other.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A file, directory or link: what `lstat` and its relatives say.
pub type Entry = Map<String, Value>;

/// Files by their path from the root of the dataset; `.` is the root itself.
pub type Entries = BTreeMap<String, Entry>;

/// A dataset, snapshot or bookmark.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// `filesystem`, `volume`, `snapshot` or `bookmark`.
    pub kind: String,
    /// In decimal.
    pub guid: Option<String>,
    /// The transaction group that made it.
    pub createtxg: Option<u64>,
    /// Of file systems and their snapshots.
    pub entries: Option<Entries>,
    /// Size in bytes and sha256 of volumes and their snapshots.
    pub volume: Option<(u64, String)>,
    /// Not described: a half received dataset.
    pub is_skipped: bool,
}

/// Datasets by name.
pub type Datasets = BTreeMap<String, Dataset>;

/// The key of an encryption root.
#[derive(Clone, Debug)]
pub enum Key {
    /// What a user types.
    Passphrase(String),
    /// 64 hex digits, given as such.
    Hex(String),
    /// 32 bytes.
    Raw(Vec<u8>),
}

/// What is known about a golden pool.
pub struct Manifest {
    /// The pool's name.
    pub pool: String,
    /// The files of its devices.
    pub devices: Vec<String>,
    /// Everything in it.
    pub datasets: Datasets,
    /// The keys of its encryption roots.
    pub keys: BTreeMap<String, Key>,
    /// Patterns of paths with arbitrary contents: `*` matches any characters.
    pub ignore: Vec<String>,
    /// The whole document, for what only some kinds have.
    pub document: Value,
}

impl Manifest {
    /// Reads a manifest.
    pub fn parse(text: &str) -> Result<Self> {
        let document: Value = serde_json::from_str(text)?;
        let names = document["vdevs"].as_array().context("vdevs")?;
        let devices = names
            .iter()
            .map(|vdev| Ok(vdev["file"].as_str().context("a vdev's file")?.to_string()))
            .collect::<Result<_>>()?;
        let mut keys = BTreeMap::new();
        for (dataset, key) in document["keys"].as_object().into_iter().flatten() {
            keys.insert(dataset.clone(), parse_key(key)?);
        }
        let ignore = document["ignore"].as_array().into_iter().flatten();
        Ok(Self {
            pool: document["pool"].as_str().context("pool")?.into(),
            devices,
            datasets: parse_datasets(&document["datasets"])?,
            keys,
            ignore: ignore
                .filter_map(|p| Some(p.as_str()?.to_string()))
                .collect(),
            document,
        })
    }

    /// What a rewind to the checkpoint must show, if there is one.
    pub fn checkpoint_datasets(&self) -> Result<Option<Datasets>> {
        match &self.document["checkpoint_datasets"] {
            Value::Null => Ok(None),
            value => Ok(Some(parse_datasets(value)?)),
        }
    }
}

fn parse_key(key: &Value) -> Result<Key> {
    let text = |name: &str| {
        key[name]
            .as_str()
            .context("a key's value")
            .map(str::to_string)
    };
    Ok(match key["keyformat"].as_str() {
        Some("passphrase") => Key::Passphrase(text("passphrase")?),
        Some("hex") => Key::Hex(text("hex")?),
        Some("raw") => Key::Raw(bytes_of_hex(&text("hex")?)?),
        other => anyhow::bail!("key format {other:?}"),
    })
}

fn bytes_of_hex(hex: &str) -> Result<Vec<u8>> {
    anyhow::ensure!(
        hex.is_ascii() && hex.len().is_multiple_of(2),
        "hex digits come in pairs"
    );
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?))
        .collect()
}

/// The datasets in an object that has one key for each.
pub fn parse_datasets(value: &Value) -> Result<Datasets> {
    let object = value.as_object().context("datasets")?;
    let datasets = object.iter().map(|(name, value)| {
        let dataset = parse_dataset(value).with_context(|| name.clone())?;
        Ok((name.clone(), dataset))
    });
    datasets.collect()
}

/// One dataset: `type`, `guid`, `createtxg`, and `entries` or `volsize` and `sha256`.
pub fn parse_dataset(value: &Value) -> Result<Dataset> {
    let entries = match &value["entries"] {
        Value::Null => None,
        entries => Some(parse_entries(entries)?),
    };
    let volume = match (value["volsize"].as_u64(), value["sha256"].as_str()) {
        (Some(size), Some(sha256)) => Some((size, sha256.to_string())),
        _ => None,
    };
    let guid = match &value["guid"] {
        Value::String(guid) => Some(guid.clone()),
        Value::Number(guid) => Some(guid.to_string()),
        _ => None,
    };
    Ok(Dataset {
        kind: value["type"].as_str().unwrap_or("").to_string(),
        guid,
        createtxg: value["createtxg"].as_u64(),
        entries,
        volume,
        is_skipped: value["skipped"].as_bool().unwrap_or(false),
    })
}

fn parse_entries(value: &Value) -> Result<Entries> {
    let object = value.as_object().context("entries")?;
    let entries = object.iter().map(|(path, entry)| {
        let entry = entry.as_object().context("an entry")?;
        Ok((path.clone(), entry.clone()))
    });
    entries.collect()
}

/// Whether `text` matches `pattern`, in which `*` matches any characters.
pub fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => match text.strip_prefix(before) {
            None => false,
            Some(rest) => {
                let ends = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
                ends.into_iter().any(|at| matches(after, &rest[at..]))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_needed() {
        let text = r#"{"pool": "p", "vdevs": [{"file": "v0.img", "size": 1}],
            "keys": {"p/e": {"keyformat": "raw", "hex": "00ff"}}, "ignore": ["churn-*"],
            "datasets": {"p": {"type": "filesystem", "guid": "12", "createtxg": 1,
                               "entries": {".": {"type": "dir"}}},
                         "p/v": {"type": "volume", "volsize": 9, "sha256": "ab"}}}"#;
        let manifest = Manifest::parse(text).expect("a manifest");
        assert_eq!(manifest.devices, ["v0.img"]);
        assert!(matches!(&manifest.keys["p/e"], Key::Raw(key) if *key == [0, 255]));
        assert_eq!(manifest.datasets["p/v"].volume, Some((9, "ab".into())));
        assert_eq!(
            manifest.datasets["p"].entries.as_ref().map(|e| e.len()),
            Some(1)
        );
    }

    #[test]
    fn patterns() {
        assert!(matches("churn-*", "churn-12") && !matches("churn-*", "data/churn-1"));
        assert!(matches("*a*b", "xxaxxbxb") && !matches("a", "ab"));
    }
}
