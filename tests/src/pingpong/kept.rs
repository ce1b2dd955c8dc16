//! What OpenZFS's snapshots, clones, copies and volumes hold, while Cenote changes what they
//! share blocks with.

use crate::manifest::{Entries, Key};
use crate::mounted;
use crate::pool;
use crate::random::Random;
use crate::site::{self, Site};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The file system that Cenote writes to.
pub const DATASET: &str = "tank/model";
/// Clones that are changed in one turn.
const CHANGED_MAX: usize = 2;

/// A volume, or a snapshot of one.
struct Volume {
    name: String,
    size: usize,
    sha256: String,
}

/// Everything that has to stay as it is.
#[derive(Default)]
pub struct Kept {
    /// Of Cenote's own file system, by what follows the `@`.
    snapshots: BTreeMap<String, Arc<Entries>>,
    /// Clones and copies of it.
    clones: BTreeMap<String, Arc<Entries>>,
    volumes: Vec<Volume>,
    /// Encryption roots and their keys in hex.
    keys: BTreeMap<String, String>,
    looks: u64,
}

impl Kept {
    /// How much was checked.
    pub fn summary(&self) -> String {
        format!(
            "{} looks at {} snapshots, {} clones and {} volumes",
            self.looks,
            self.snapshots.len(),
            self.clones.len(),
            self.volumes.len()
        )
    }

    /// Takes over what OpenZFS made, by its manifest; `files` was in `dataset` before.
    pub fn add(&mut self, manifest: &Value, dataset: &str, files: &Entries) -> Result<()> {
        let files = Arc::new(files.clone());
        let foreign = &manifest["foreign"];
        let rows = |kind: &str| foreign[kind].as_array().cloned().unwrap_or_default();
        let mut own = BTreeSet::new();
        for row in rows("snapshots") {
            let (name, source) = (text(&row["name"])?, text(&row["source"])?);
            if source == dataset {
                let (_, short) = name.split_once('@').context("a snapshot")?;
                self.snapshots.insert(short.into(), Arc::clone(&files));
                own.insert(name.to_string());
            }
        }
        for row in rows("clones").into_iter().chain(rows("copies")) {
            if own.contains(text(&row["source"])?) {
                let name = text(&row["name"])?;
                let name = name.split('@').next().unwrap_or(name);
                self.clones.insert(name.into(), Arc::clone(&files));
            }
        }
        for row in manifest["datasets"].as_array().context("datasets")? {
            let name = text(&row["name"])?;
            if let Some(key) = row["key"].as_str() {
                self.keys.insert(name.into(), key.into());
            }
            if row["type"] != "zvol" {
                continue;
            }
            self.add_volume(name, &row["objects"])?;
            for snapshot in row["snapshots"].as_array().into_iter().flatten() {
                let name = format!("{name}@{}", text(&snapshot["name"])?);
                self.add_volume(&name, &snapshot["objects"])?;
            }
        }
        Ok(())
    }

    fn add_volume(&mut self, name: &str, objects: &Value) -> Result<()> {
        for object in objects.as_array().context("objects")? {
            if object["object"] == 1 && object["kind"] == "data" {
                let size = object["size"].as_u64().context("a size")?;
                self.volumes.push(Volume {
                    name: name.into(),
                    size: usize::try_from(size)?,
                    sha256: text(&object["sha256"])?.into(),
                });
            }
        }
        Ok(())
    }

    /// Takes over a snapshot of Cenote's own file system, which has `files`.
    pub fn keep_snapshot(&mut self, short: &str, files: &Arc<Entries>) {
        self.snapshots.insert(short.into(), Arc::clone(files));
    }

    /// A snapshot of Cenote's own file system is no more.
    pub fn forget_snapshot(&mut self, short: &str) {
        self.snapshots.remove(short);
    }

    /// Takes over a clone of it, which has `files`.
    pub fn keep_clone(&mut self, name: &str, files: &Arc<Entries>) {
        self.clones.insert(name.into(), Arc::clone(files));
    }

    /// What is in a clone.
    pub fn clone_files(&self, name: &str) -> Option<Arc<Entries>> {
        self.clones.get(name).cloned()
    }

    /// Destroys a clone with its snapshots; false if these have clones.
    pub fn destroy(&mut self, site: &Site, name: &str) -> Result<bool> {
        let outcome = site.cenote().run("zfs", &["destroy", "-r", name])?;
        if outcome.code != Some(0) && outcome.stderr.contains("dependent clones") {
            return Ok(false);
        }
        outcome.success()?;
        self.clones.remove(name);
        Ok(true)
    }

    /// Destroys one of the clones and copies that are not among `ours`.
    pub fn destroy_foreign_clone(
        &mut self,
        site: &Site,
        ours: &[String],
        random: &mut Random,
    ) -> Result<()> {
        let theirs = self.clones.keys().filter(|name| !ours.contains(name));
        let theirs: Vec<String> = theirs.cloned().collect();
        if theirs.is_empty() {
            return Ok(());
        }
        let name: &String = random.choose(&theirs);
        self.destroy(site, name).map(drop)
    }

    /// Looks at everything.
    pub fn check(&mut self, site: &Site) -> Result<()> {
        for (name, wanted) in &self.snapshots {
            let path = site.path(DATASET).join(".zfs/snapshot").join(name);
            let mut found = mounted::walk(&path).with_context(|| format!("snapshot {name}"))?;
            // What a mount shows there is the entry in the control directory.
            let root = found.get_mut(".").context("a root")?;
            root.insert("ino".into(), wanted["."]["ino"].clone());
            site::same(wanted, &found).with_context(|| format!("snapshot {name}"))?;
            self.looks += 1;
        }
        for (name, wanted) in &self.clones {
            let found = on_mount(site, name, mounted::walk)?;
            site::same(wanted, &found).with_context(|| format!("clone {name}"))?;
            self.looks += 1;
        }
        self.load_keys(site)?;
        for volume in &self.volumes {
            check_volume(site, volume).with_context(|| volume.name.clone())?;
            self.looks += 1;
        }
        site.ok("cenote verify --quiet tank")?;
        Ok(())
    }

    fn load_keys(&self, site: &Site) -> Result<()> {
        for (name, key) in &self.keys {
            let line = format!("zfs get -H -o value keystatus,encryptionroot {name}");
            let said = site.ok(&line)?;
            let is_root = said.lines().nth(1) == Some(name);
            if !is_root || said.starts_with("available") {
                continue;
            }
            let input = pool::key_input(&Key::Hex(key.clone()));
            let arguments = ["load-key", "-L", "prompt", name];
            let outcome = site.cenote().run_with_input("zfs", &arguments, &input)?;
            outcome.success()?;
        }
        Ok(())
    }

    /// Changes some of the clones.
    pub fn change(&mut self, site: &Site, random: &mut Random) -> Result<()> {
        let names: Vec<String> = self.clones.keys().cloned().collect();
        for _ in 0..names.len().min(CHANGED_MAX) {
            let name = random.choose(&names).clone();
            let files = self.clones[&name].clone();
            let found = changed(site, &name, &files, random)?;
            self.clones.insert(name, Arc::new(found));
        }
        Ok(())
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value}: no text"))
}

/// Changes a clone that has `files`; returns what it has then.
pub fn changed(site: &Site, name: &str, files: &Entries, random: &mut Random) -> Result<Entries> {
    on_mount(site, name, |root| {
        change_files(root, files, random)?;
        mounted::walk(root)
    })
}

fn on_mount<T>(site: &Site, dataset: &str, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let directory = pool::mount(site.cenote(), dataset)?;
    let result = work(&directory).with_context(|| dataset.to_string());
    let unmounted = pool::unmount(site.cenote(), &directory);
    let result = result?;
    unmounted?;
    Ok(result)
}

/// Removes some files, overwrites others, and makes new ones.
fn change_files(root: &Path, files: &Entries, random: &mut Random) -> Result<()> {
    let is_file = |name: &&String| files[*name]["type"] == "file";
    for name in files.keys().filter(is_file) {
        let path = root.join(name);
        match random.below(6) {
            0 => fs::remove_file(&path).with_context(|| name.clone())?,
            1 => {
                let file = OpenOptions::new().write(true).open(&path)?;
                let mut bytes = vec![0; 1 + random.index(30_000)];
                random.fill(&mut bytes);
                let size = file.metadata()?.len();
                file.write_all_at(&bytes, random.below(size + 1))?;
            }
            2 => File::options()
                .write(true)
                .open(&path)?
                .set_len(random.below(50_000))?,
            _ => {}
        }
    }
    let directory = root.join(format!("changed-{}", random.next_u64()));
    fs::create_dir(&directory)?;
    for number in 0..10 {
        let mut bytes = vec![0; random.index(100_000)];
        random.fill(&mut bytes);
        fs::write(directory.join(format!("f{number}")), bytes)?;
    }
    Ok(())
}

fn check_volume(site: &Site, volume: &Volume) -> Result<()> {
    let outcome = site
        .cenote()
        .run("cenote", &["dump", "--quiet", &volume.name, "-"])?
        .success()?;
    let mut bytes = outcome.stdout;
    bytes.resize(volume.size.max(bytes.len()), 0);
    let sum = mounted::hex(&Sha256::digest(&bytes[..volume.size]));
    ensure!(sum == volume.sha256, "other contents");
    Ok(())
}
