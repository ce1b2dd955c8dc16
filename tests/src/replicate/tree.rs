//! Trees of datasets that are kept up to date by packages (`zfs send -R`, `zfs receive -F`).
//!
//! Between two packages datasets and snapshots of the tree are made, cloned, promoted, renamed,
//! exchanged and destroyed, and properties change. After each package the copy must have the same
//! datasets, the same snapshots by name and guid, the same origins, the properties as received
//! ones, and the same files.

use super::link::{self, Facts};
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const TOP: &str = "tank/tree";
const COPY: &str = "tank/copy";
/// Datasets; with more, none are made.
const DATASETS_MAX: usize = 12;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Chooses everything.
    pub seed: u64,
    /// How many packages are sent.
    pub packages: u64,
    /// Changes before each package.
    pub changes: u64,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct TreeReport {
    /// Packages that were sent.
    pub packages: u64,
    /// Changes by their kinds.
    pub changes: BTreeMap<&'static str, u64>,
    /// Changes that were refused.
    pub refused: u64,
}

struct Tree {
    /// Snapshots, by their guids, that a package without those in between passed over.
    passed_over: BTreeSet<String>,
    here: Site,
    there: Site,
    random: Random,
    serial: u64,
    report: TreeReport,
}

/// Makes changes and sends packages.
pub fn run_tree(options: &TreeOptions) -> Result<TreeReport> {
    let mut tree = Tree {
        passed_over: BTreeSet::new(),
        here: Site::create("single", 1024, "-O canmount=off")?,
        there: Site::create("single", 1024, "-O canmount=off")?,
        random: Random::new(options.seed),
        serial: 0,
        report: TreeReport::default(),
    };
    tree.here.ok(&format!("zfs create {TOP}"))?;
    let mut last = None;
    for number in 0..options.packages {
        let mut made = Vec::new();
        for _ in 0..options.changes {
            made.push(tree.change(last.as_deref())?);
        }
        let snapshot = format!("p{number}");
        let sent = tree.send(last.as_deref(), &snapshot);
        sent.with_context(|| format!("package {number}, after:\n{}", made.join("\n")))?;
        last = Some(snapshot);
    }
    tree.here.finish()?;
    tree.there.finish()?;
    Ok(tree.report)
}

impl Tree {
    /// The datasets, the topmost first.
    fn datasets(&self) -> Result<Vec<String>> {
        let text = self
            .here
            .ok(&format!("zfs list -H -r -t filesystem -o name {TOP}"))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn any_snapshot(&mut self, but: Option<&str>) -> Result<Option<String>> {
        let text = self
            .here
            .ok(&format!("zfs list -H -r -t snapshot -o name {TOP}"))?;
        let is_base = |name: &&str| name.split('@').next_back() == but;
        let names: Vec<&str> = text.lines().filter(|name| !is_base(name)).collect();
        match names.is_empty() {
            true => Ok(None),
            false => Ok(Some((*self.random.choose(&names)).to_owned())),
        }
    }

    /// Makes one change, as far as it is not refused; the snapshots `base` stay. Returns what.
    fn change(&mut self, base: Option<&str>) -> Result<String> {
        self.serial += 1;
        let serial = self.serial;
        let datasets = self.datasets()?;
        let any = self.random.choose(&datasets).clone();
        let below: Vec<String> = datasets.iter().skip(1).cloned().collect();
        let is_full = datasets.len() >= DATASETS_MAX;
        let (kind, lines): (&'static str, Vec<String>) = match self.random.below(13) {
            0 | 1 if !is_full => ("create", vec![format!("zfs create {any}/n{serial}")]),
            2 | 3 if !is_full => match self.any_snapshot(None)? {
                Some(snapshot) => (
                    "clone",
                    vec![format!("zfs clone {snapshot} {any}/c{serial}")],
                ),
                None => return Ok("nothing".to_owned()),
            },
            4 => ("promote", vec![format!("zfs promote {any}")]),
            5 if !below.is_empty() => {
                let from = self.random.choose(&below).clone();
                ("rename", vec![format!("zfs rename {from} {any}/r{serial}")])
            }
            6 if below.len() > 1 => {
                let (one, two) = (self.random.choose(&below), self.random.choose(&below));
                let lines = vec![
                    format!("zfs rename {one} {TOP}/x{serial}"),
                    format!("zfs rename {two} {one}"),
                    format!("zfs rename {TOP}/x{serial} {two}"),
                ];
                ("exchange", lines)
            }
            7 => match self.any_snapshot(base)? {
                Some(name) => {
                    let of = name.split('@').next().unwrap_or_default();
                    (
                        "rename-snapshot",
                        vec![format!("zfs rename {name} {of}@r{serial}")],
                    )
                }
                None => return Ok("nothing".to_owned()),
            },
            8 => match self.any_snapshot(base)? {
                Some(name) => ("destroy-snapshot", vec![format!("zfs destroy {name}")]),
                None => return Ok("nothing".to_owned()),
            },
            9 if below.len() > 4 => {
                let name = self.random.choose(&below);
                ("destroy", vec![format!("zfs destroy -r {name}")])
            }
            10 => {
                let value = *self.random.choose(&["lz4", "off", "zstd-1", "gzip-1"]);
                (
                    "set",
                    vec![format!("zfs set compression={value} user:n={serial} {any}")],
                )
            }
            _ => return self.write(&any, serial),
        };
        *self.report.changes.entry(kind).or_default() += 1;
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            let outcome = self.here.cenote().run(words[0], &words[1..])?;
            ensure!(!outcome.has_crashed(), "{}", outcome.report());
            if outcome.code != Some(0) {
                self.report.refused += 1;
                return Ok(format!("{line} (refused)"));
            }
        }
        Ok(lines.join("; "))
    }

    /// Writes a file, and takes a snapshot of that dataset alone.
    fn write(&mut self, dataset: &str, serial: u64) -> Result<String> {
        let mut bytes = vec![0; 1 + self.random.index(60_000)];
        self.random.fill(&mut bytes);
        let name = format!("f{}", self.random.below(5));
        fs::write(self.here.path(dataset).join(&name), &bytes)?;
        *self.report.changes.entry("write").or_default() += 1;
        self.here.ok(&format!("zfs snapshot {dataset}@w{serial}"))?;
        Ok(format!(
            "write {dataset}/{name}; zfs snapshot {dataset}@w{serial}"
        ))
    }

    /// Sends a package, and compares.
    fn send(&mut self, last: Option<&str>, snapshot: &str) -> Result<()> {
        if let Some(last) = last {
            // A promoted clone has the snapshot now.
            let base = format!("{TOP}@{last}");
            if self.here.cenote().run("zfs", &["list", &base])?.code != Some(0) {
                self.here.ok(&format!("zfs promote {TOP}"))?;
            }
        }
        self.here.ok(&format!("zfs snapshot -r {TOP}@{snapshot}"))?;
        let has_all = last.is_none() || self.random.below(3) > 0;
        let since = match last {
            None => String::new(),
            Some(last) if has_all => format!("-I @{last}"),
            Some(last) => format!("-i @{last}"),
        };
        let stream = self.package(&since, snapshot)?;
        let outcome = link::receive(&self.there, &format!("-F -v {COPY}"), &stream)?;
        let said = format!("{}{}", outcome.text(), outcome.stderr);
        outcome.success()?;
        self.report.packages += 1;
        self.compare(snapshot, has_all).context(said)
    }

    /// The package. Clones that are above what they were cloned from are promoted, as the error
    /// says.
    fn package(&self, since: &str, snapshot: &str) -> Result<Vec<u8>> {
        for _ in 0..DATASETS_MAX {
            let sent = link::send(&self.here, &format!("-R {since} {TOP}@{snapshot}"));
            let told = sent.as_ref().err().map(|error| format!("{error:#}"));
            let told = told
                .as_deref()
                .and_then(|text| text.split_once("'zfs promote "));
            let Some((dataset, _)) = told.and_then(|(_, rest)| rest.split_once('\'')) else {
                return sent;
            };
            self.here.ok(&format!("zfs promote {dataset}"))?;
        }
        anyhow::bail!("datasets are promoted again and again")
    }

    fn compare(&mut self, snapshot: &str, has_all: bool) -> Result<()> {
        let (mut ours, theirs) = (Listed::of(&self.here, TOP)?, Listed::of(&self.there, COPY)?);
        same("dataset", &ours.datasets, &theirs.datasets)?;
        if !has_all {
            let missing = ours.snapshots.difference(&theirs.snapshots);
            let guids = missing.map(|(_, guid)| guid.clone());
            self.passed_over.extend(guids);
        }
        let passed_over = &self.passed_over;
        ours.snapshots
            .retain(|(_, guid)| !passed_over.contains(guid));
        same("snapshot", &ours.snapshots, &theirs.snapshots)?;
        let (set, received) = (
            properties(&self.here, TOP, "local")?,
            properties(&self.there, COPY, "received")?,
        );
        same("property", &set, &received)?;
        for dataset in ours.datasets.iter().map(|(name, _)| name) {
            let of = |site: &Site, top: &str| Facts::of(site, &format!("{top}{dataset}"), snapshot);
            let compared = of(&self.here, TOP)?.same(&of(&self.there, COPY)?);
            compared.with_context(|| format!("{TOP}{dataset}@{snapshot}"))?;
        }
        Ok(())
    }
}

/// The datasets and snapshots of a tree, by their names below its top.
struct Listed {
    /// With their origins.
    datasets: BTreeSet<(String, String)>,
    /// With their guids.
    snapshots: BTreeSet<(String, String)>,
}

impl Listed {
    fn of(site: &Site, top: &str) -> Result<Self> {
        let text = site.ok(&format!("zfs list -Hp -r -t all -o name,guid,origin {top}"))?;
        let (mut datasets, mut snapshots) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let name = fields[0]
                .strip_prefix(top)
                .context("a name below")?
                .to_owned();
            let origin = fields[2].strip_prefix(top).unwrap_or(fields[2]);
            match name.contains('@') {
                true => snapshots.insert((name, fields[1].to_owned())),
                false => datasets.insert((name, origin.to_owned())),
            };
        }
        Ok(Self {
            datasets,
            snapshots,
        })
    }
}

/// Properties of the tree's datasets with this source.
fn properties(site: &Site, top: &str, source: &str) -> Result<BTreeSet<(String, String)>> {
    let line = format!(
        "zfs get -Hp -r -s {source} -t filesystem -o name,property,value compression,user:n {top}"
    );
    let text = site.ok(&line)?;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let (name, value) = line.split_once('\t').context("a name and a value")?;
        let name = name.strip_prefix(top).context("a name below")?;
        found.insert((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

fn same(
    what: &str,
    ours: &BTreeSet<(String, String)>,
    theirs: &BTreeSet<(String, String)>,
) -> Result<()> {
    let missing = ours.difference(theirs).next();
    let extra = theirs.difference(ours).next();
    ensure!(
        missing.is_none() && extra.is_none(),
        "{what} {missing:?} is missing, {extra:?} is of the copy alone"
    );
    Ok(())
}
