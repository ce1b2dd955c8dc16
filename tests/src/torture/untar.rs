//! Archives unpacked, synced file by file, and brought to their place by a rename.
//!
//! A tree that has its name was synced before, so every one that is found must be whole.

use super::load::{Load, private, succeed};
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

const FILES: u64 = 40;
/// A tree is removed again when there are more than this.
const TREES: usize = 3;

#[derive(Default)]
struct Ledger {
    trees: BTreeSet<u64>,
    next: u64,
}

/// The archive and the thread that unpacks it.
pub(super) struct Untar {
    source: PathBuf,
    archive: PathBuf,
    ledger: Option<Ledger>,
    thread: Option<JoinHandle<Ledger>>,
}

impl Untar {
    pub fn new(scratch: &Path, seed: u64) -> Result<Self> {
        let place = private(scratch, "untar")?;
        let source = place.join("tree");
        let mut random = Random::new(seed);
        for number in 0..FILES {
            let directory = source.join(format!("d{}/e{}", number % 4, number % 3));
            fs::create_dir_all(&directory)?;
            let mut bytes = vec![0; random.index(30_000)];
            random.fill(&mut bytes);
            fs::write(directory.join(number.to_string()), bytes)?;
        }
        symlink("d0/e0", source.join("link"))?;
        fs::hard_link(source.join("d0/e0/0"), source.join("d1/twin"))?;
        let archive = place.join("archive.tar");
        succeed(
            Command::new("tar")
                .arg("-C")
                .arg(&source)
                .arg("-cf")
                .args([archive.as_os_str(), ".".as_ref()]),
        )?;
        Ok(Self {
            source,
            archive,
            ledger: Some(Ledger::default()),
            thread: None,
        })
    }
}

/// Unpacks, syncs and names one tree after the other until that fails.
fn work(root: &Path, archive: &Path, ledger: &mut Ledger) -> Result<()> {
    loop {
        let number = ledger.next;
        ledger.next += 1;
        let draft = root.join(format!("draft-{number}"));
        fs::create_dir(&draft)?;
        succeed(
            Command::new("tar")
                .arg("-xf")
                .arg(archive)
                .arg("-C")
                .arg(&draft),
        )?;
        let sync = "find \"$1\" ! -type l -print0 | xargs -0 sync";
        succeed(Command::new("sh").args(["-c", sync, "sh"]).arg(&draft))?;
        fs::rename(&draft, root.join(number.to_string()))?;
        File::open(root)?.sync_all()?;
        ledger.trees.insert(number);
        if ledger.trees.len() > TREES
            && let Some(old) = ledger.trees.pop_first()
        {
            let gone = root.join(format!("gone-{old}"));
            fs::rename(root.join(old.to_string()), &gone)?;
            fs::remove_dir_all(&gone)?;
        }
    }
}

impl Load for Untar {
    fn name(&self) -> &'static str {
        "untar"
    }

    fn start(&mut self, root: &Path) -> Result<()> {
        let (root, archive) = (root.to_owned(), self.archive.clone());
        let mut ledger = self.ledger.take().context("it runs already")?;
        self.thread = Some(thread::spawn(move || {
            // It ends when the file system does.
            let _ = work(&root, &archive, &mut ledger);
            ledger
        }));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some(thread) = self.thread.take() {
            self.ledger = Some(thread.join().expect("no panic"));
        }
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<u64> {
        let ledger = self.ledger.as_mut().context("it still runs")?;
        for number in &ledger.trees {
            let tree = root.join(number.to_string());
            ensure!(tree.is_dir(), "tree {number} is lost");
        }
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str().and_then(|name| name.parse::<u64>().ok()) {
                Some(number) => {
                    let compared = Command::new("diff")
                        .args(["-r", "--no-dereference"])
                        .args([&self.source, &entry.path()])
                        .output()?;
                    ensure!(
                        compared.status.success(),
                        "tree {number}: {}{}",
                        String::from_utf8_lossy(&compared.stdout),
                        String::from_utf8_lossy(&compared.stderr)
                    );
                    found.insert(number);
                }
                // What was under way.
                None => fs::remove_dir_all(entry.path())?,
            }
        }
        let acknowledged = ledger.trees.len() as u64;
        ledger.trees = found;
        Ok(acknowledged)
    }
}
