//! OpenZFS's turn.

use super::Options;
use super::kept::DATASET;
use crate::manifest::Entries;
use crate::model::Session;
use crate::random::Random;
use crate::referee;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How OpenZFS aborts when it copies a file system with a spill block that is embedded in its
/// pointer: its stream says that this is data before the file's beginning.
const EMBEDDED_SPILL: &str = "dbuf_whichblock() offset < dn->dn_datablksz (0xffffffff";

/// What OpenZFS did so far.
#[derive(Default)]
pub struct Foreign {
    manifests: Vec<PathBuf>,
    has_checkpoint: bool,
}

impl Foreign {
    /// Discards the pool's checkpoint by Cenote, or makes one that OpenZFS is to find.
    pub fn leave_checkpoint(&mut self, site: &Site, random: &mut Random) -> Result<()> {
        if self.has_checkpoint && random.below(2) == 0 {
            site.ok("zpool checkpoint -d -w tank")?;
            self.has_checkpoint = false;
        }
        if !self.has_checkpoint && random.below(2) == 0 {
            site.ok("zpool checkpoint tank")?;
            self.has_checkpoint = true;
        }
        Ok(())
    }

    /// Judges what Cenote left, then writes; returns the manifest of what it made, `None` if it
    /// hit upon what it cannot do.
    pub fn turn(
        &mut self,
        session: &Session,
        options: &Options,
        random: &mut Random,
        files: &Entries,
    ) -> Result<Option<Value>> {
        let site = session.site();
        let devices = site.devices().display().to_string();
        for manifest in &self.manifests {
            ask(&["verify", &devices, "tank", &manifest.display().to_string()])?;
        }
        let mut list = vec!["ls", &devices, DATASET, "-R", "--sha256", "--json"];
        if let Some(key) = session.key() {
            list.extend(["--key", key]);
        }
        let listed = ask(&list)?;
        let listed = serde_json::from_str(&listed).context("the listing of OpenZFS")?;
        let is_old = !session.setup().contains("version=5");
        same_files(files, &listed, is_old).context("OpenZFS reads other files")?;
        ask(&["check", &devices, "tank"])?;
        if self.has_checkpoint {
            ask(&["checkpoint", "--discard", &devices, "tank"])?;
            self.has_checkpoint = false;
        }
        let number = self.manifests.len();
        let manifest = site
            .cenote()
            .directory()
            .join(format!("round-{number}.json"));
        let seed = (random.next_u64() % 1_000_000).to_string();
        let operations = options.foreign_operations.to_string();
        let shown = manifest.display().to_string();
        let mut churn = vec!["churn", &devices, "tank", "--seed", &seed];
        churn.extend(["--ops", &operations, "--manifest", &shown]);
        if random.below(2) == 0 {
            churn.push("--encrypt");
        }
        match ask(&churn) {
            Err(error) if error.to_string().contains(EMBEDDED_SPILL) => return Ok(None),
            result => result?,
        };
        let mut made: Value = serde_json::from_str(&std::fs::read_to_string(&manifest)?)?;
        let answer = made.clone();
        // What it made of datasets that are not its own may come to an end.
        made["foreign"] = json!({});
        std::fs::write(&manifest, made.to_string())?;
        self.manifests.push(manifest);
        if random.below(3) == 0 {
            ask(&["checkpoint", &devices, "tank"])?;
            self.has_checkpoint = true;
        }
        Ok(Some(answer))
    }
}

/// Runs the referee, which is known to be there.
pub fn ask(arguments: &[&str]) -> Result<String> {
    referee::run(arguments)?.context("the referee was there")?
}

/// Whether OpenZFS's listing is what a mount showed.
///
/// The referee reads targets of symlinks as system attributes alone. In a file system that was made
/// before version 5 (`is_old`) they lie behind the znode or in a block, where it does not look: of
/// these only the length is compared.
fn same_files(files: &Entries, listed: &Value, is_old: bool) -> Result<()> {
    let rows = listed.as_array().context("a list of files")?;
    let mut found = BTreeMap::new();
    for row in rows {
        let path = row["path"].as_str().context("a path")?;
        let path = match path.trim_start_matches('/') {
            "" => ".",
            path => path,
        };
        found.insert(path.to_string(), row);
    }
    let names = |count: usize| format!("{count} files");
    ensure!(
        files.keys().eq(found.keys()),
        "{}, not {}",
        names(found.len()),
        names(files.len())
    );
    for (path, wanted) in files {
        let row = found[path];
        let mode = row["mode"].as_u64().context("a mode")?;
        let seconds = wanted["mtime"]
            .as_i64()
            .map(|time| time.div_euclid(1_000_000_000));
        let pairs = [
            (
                "mode",
                Value::from(format!("{:04o}", mode & 0o7777)),
                wanted["mode"].clone(),
            ),
            ("uid", row["uid"].clone(), wanted["uid"].clone()),
            ("gid", row["gid"].clone(), wanted["gid"].clone()),
            ("object", row["object"].clone(), wanted["ino"].clone()),
            ("mtime", row["mtime"].clone(), seconds.into()),
        ];
        for (what, have, want) in pairs {
            ensure!(have == want, "{path}: {what} {have}, not {want}");
        }
        for (theirs, ours) in [
            ("size", "size"),
            ("sha256", "sha256"),
            ("symlink", "target"),
            ("links", "nlink"),
        ] {
            let Some(want) = wanted.get(ours) else {
                continue;
            };
            let have = &row[theirs];
            if is_old && theirs == "symlink" && have.is_null() {
                let length = want.as_str().map(str::len);
                ensure!(row["size"] == json!(length), "{path}: {want} is {row}");
                continue;
            }
            ensure!(have == want, "{path}: {theirs} {have}, not {want}");
        }
        let count =
            |value: Option<&Value>| value.and_then(Value::as_object).map_or(0, |map| map.len());
        let (have, want) = (count(row.get("xattrs")), count(wanted.get("xattrs")));
        // Of a file with attributes in both places, its own and a directory, the list has the
        // former: those too large for it lie in the directory.
        let has_directory = row["xattr"].as_u64().is_some_and(|object| object != 0);
        let is_good = have == want || (has_directory && have < want);
        ensure!(is_good, "{path}: {have} extended attributes, not {want}");
    }
    Ok(())
}
