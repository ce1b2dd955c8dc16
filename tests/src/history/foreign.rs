//! Turns of OpenZFS on the same pool.
//!
//! OpenZFS's library writes datasets of its own, and makes snapshots, clones and copies of what is
//! there. The model takes them over by the listing: what a snapshot of ours holds is known, and so
//! is what began as one. Datasets of OpenZFS are snapshot with all others and otherwise left
//! alone, so that it can verify what it wrote in all its earlier turns.

use super::check::{self, Row};
use super::model::{Files, Model, Set, Snap};
use super::session::Session;
use crate::referee;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

fn ask(arguments: &[&str]) -> Result<String> {
    referee::run(arguments)?.context("the referee was there")?
}

impl Session {
    /// OpenZFS's turn on the exported pool.
    pub(super) fn foreign_turn(&mut self) -> Result<()> {
        let devices = self.site.devices().display().to_string();
        for manifest in &self.foreign.manifests {
            ask(&["verify", &devices, "tank", &manifest.display().to_string()])?;
        }
        let number = self.foreign.manifests.len();
        let directory = self.site.cenote().directory();
        let manifest = directory.join(format!("turn-{number}.json"));
        let shown = manifest.display().to_string();
        let seed = (self.random.next_u64() % 1_000_000).to_string();
        let operations = self.foreign.operations.to_string();
        let mut churn = vec!["churn", &devices, "tank", "--seed", &seed];
        churn.extend(["--ops", &operations, "--manifest", &shown]);
        ask(&churn)?;
        // What it made of datasets that are not its own may come to an end.
        let mut made: Value = serde_json::from_str(&fs::read_to_string(&manifest)?)?;
        made["foreign"] = Value::Object(serde_json::Map::new());
        fs::write(&manifest, made.to_string())?;
        self.foreign.manifests.push(manifest);
        Ok(())
    }
}

impl Model {
    /// Takes over what is listed and was not there.
    pub(super) fn adopt(&mut self, rows: &BTreeMap<String, Row>) -> Result<()> {
        let is_head = |name: &&String| !name.contains(['@', '#']);
        for name in rows.keys().filter(is_head) {
            if !self.sets.contains_key(name) {
                let set = Set {
                    is_foreign: true,
                    is_volume: true,
                    quota: check::number(&rows[name], "quota") >> 20,
                    ..Set::default()
                };
                self.sets.insert(name.clone(), set);
            }
        }
        let mut snaps: Vec<&Row> = rows
            .values()
            .filter(|row| row["name"].contains('@'))
            .collect();
        snaps.sort_by_key(|row| check::number(row, "createtxg"));
        // Those made in one group are of one age.
        for row in snaps {
            self.adopt_snapshot(row)?;
        }
        let mut origins = Vec::new();
        for (name, set) in &self.sets {
            let origin = &rows[name]["origin"];
            if set.is_foreign && origin != "-" {
                let (of, snap) = origin.split_once('@').context("an origin")?;
                let of = &self.sets[of];
                let snap = &of.snaps[of.position(snap).context("an origin")?];
                origins.push((name.clone(), snap.id, Arc::clone(&snap.files)));
            }
        }
        for (name, id, files) in origins {
            let set = self.sets.get_mut(&name).context("a clone")?;
            set.origin = Some(id);
            if !files.is_empty() && set.files.is_empty() {
                set.files = files;
            }
        }
        for name in rows.keys() {
            if let Some((of, mark)) = name.split_once('#') {
                let marks = &mut self.sets.get_mut(of).context("a dataset")?.marks;
                marks.entry(mark.to_owned()).or_insert(0);
            }
        }
        Ok(())
    }

    fn adopt_snapshot(&mut self, row: &Row) -> Result<()> {
        let (of, name) = row["name"].split_once('@').context("a snapshot")?;
        let id = self.made + 1;
        let set = self.sets.get_mut(of).context("a dataset")?;
        if set.position(name).is_some() {
            return Ok(());
        }
        let tags = (0..check::number(row, "userrefs")).map(|tag| format!("their{tag}"));
        let newest = set.snaps.last().map_or(0, |snap| snap.id);
        ensure!(newest < id, "{of}@{name} is not the newest");
        set.snaps.push(Snap {
            id,
            name: name.to_owned(),
            files: Arc::clone(&set.files),
            tags: tags.collect::<BTreeSet<_>>(),
            is_deferred: row["defer_destroy"] == "on",
        });
        self.made = id;
        Ok(())
    }

    /// Clones that OpenZFS made of file systems here, with what must be in them.
    pub(super) fn foreign_clones(&self) -> Vec<(&String, &Arc<Files>)> {
        let sets = self.sets.iter().filter(|(_, set)| set.is_foreign);
        let sets = sets.filter(|(_, set)| set.origin.is_some() && !set.files.is_empty());
        sets.map(|(name, set)| (name, &set.files)).collect()
    }
}
