//! One pool and what is done to it.

use super::draw::{DEVICE, Draw};
use super::tree::{Tree, Vdev};
use super::writer::{Files, Writer};
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Layouts: words of `zpool create`; `N` is the number of a file.
const LAYOUTS: [(&str, &str); 10] = [
    ("mirror2", "mirror 0 1"),
    ("mirror3", "mirror 0 1 2"),
    ("mirrors", "mirror 0 1 mirror 2 3"),
    ("raidz1", "raidz1 0 1 2"),
    ("raidz2", "raidz2 0 1 2 3"),
    ("raidz3", "raidz3 0 1 2 3 4"),
    ("draid1", "draid1:2d:4c:0s 0 1 2 3"),
    ("draid1-spare", "draid1:2d:5c:1s 0 1 2 3 4"),
    ("draid2-spare", "draid2:2d:6c:1s 0 1 2 3 4 5"),
    ("draid3", "draid3:1d:6c:1s 0 1 2 3 4 5"),
];

/// How long a pool of a few MiB may take to come to rest: a hang is a failure, a busy machine none.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// Commands of one storm begin so many milliseconds after each other.
const PAUSES_MS: [u64; 10] = [0, 0, 0, 2, 5, 10, 20, 40, 80, 200];
/// The daemon is killed so many milliseconds after a storm began, or earlier.
const KILL_MS_MAX: u64 = 250;

/// A pool, its files, and what was done so far.
pub(super) struct Session {
    pub layout: &'static str,
    site: Site,
    random: Random,
    files: Files,
    made: u32,
    options: &'static str,
    story: Mutex<String>,
    began: Instant,
}

impl Session {
    pub fn new(seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let (layout, words) = *random.choose(&LAYOUTS);
        let site = Site::new("tank")?;
        let mut line = String::from("zpool create -f ");
        let mut options = "";
        if random.index(3) == 0 {
            let key = site.cenote().directory().join("key");
            fs::write(&key, "a passphrase of a test\n")?;
            let location = format!("-O keylocation=file://{}", key.display());
            let encryption = "-O encryption=on -O keyformat=passphrase";
            write!(line, "{encryption} {location} -O pbkdf2iters=100000 ")?;
            options = "-l";
        }
        write!(
            line,
            "-R {} -O recordsize=16k tank",
            site.path("").display()
        )?;
        let has_spare = random.index(3) == 0;
        for word in words
            .split(' ')
            .chain(["spare", "9"].into_iter().filter(|_| has_spare))
        {
            match word.parse::<u32>() {
                Err(_) => write!(line, " {word}")?,
                Ok(number) => {
                    let path = site.devices().join(format!("d{number}.img"));
                    File::create(&path)?.set_len(DEVICE)?;
                    write!(line, " {}", path.display())?;
                }
            }
        }
        let session = Self {
            layout,
            site,
            random,
            files: Files::default(),
            made: 0,
            options,
            story: Mutex::default(),
            began: Instant::now(),
        };
        session.tell(&format!("seed {seed} {layout}: {line}"));
        session.site.ok(&line)?;
        Ok(session)
    }

    fn tell(&self, what: &str) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.began.elapsed().as_millis();
        // A string takes it.
        let _ = writeln!(story, "{at:>7} ms  {what}");
    }

    /// Runs a command; whether it succeeded. It may be refused, and neither crash nor hang.
    fn command(&self, line: &str) -> Result<bool> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.tell(line);
        let (program, arguments) = words.split_first().context("a command")?;
        let outcome = self.site.cenote().run(program, arguments)?;
        let said = outcome.stderr.lines().next().unwrap_or_default();
        self.tell(&format!("  {line}: {:?} {said}", outcome.code));
        let is_well = outcome.limit.is_none() && !outcome.has_crashed();
        ensure!(is_well, "{}", outcome.report());
        Ok(outcome.code == Some(0))
    }

    fn status(&self) -> Result<(String, Tree)> {
        let status = self.site.ok("zpool status -P tank")?;
        let tree = Tree::parse(&status);
        Ok((status, tree))
    }

    /// Files of some groups, some of them in a snapshot only.
    fn fill(&mut self) -> Result<()> {
        self.site.ok("zfs create tank/fs")?;
        self.site.ok("zfs create tank/w")?;
        let root = self.site.path("tank/fs");
        for number in 0..30 {
            let mut bytes = vec![0; self.random.index(100_000)];
            self.random.fill(&mut bytes);
            fs::write(root.join(format!("f{number}")), &bytes)?;
        }
        self.site.ok("zfs snapshot tank/fs@one")?;
        for number in 0..5 {
            fs::remove_file(root.join(format!("f{number}")))?;
        }
        self.site.ok("zpool sync tank")?;
        Ok(())
    }

    /// All of the session, but for its end.
    pub fn run(&mut self, storms: u32) -> Result<()> {
        self.fill()?;
        for storm in 0..storms {
            self.storm().with_context(|| format!("storm {storm}"))?;
            self.settle()?;
            self.judge_devices()
                .with_context(|| format!("after storm {storm}"))?;
            self.tidy()?;
        }
        if self.random.index(2) == 0 {
            self.split().context("split")?;
        }
        Ok(())
    }

    /// Several commands at once while a writer writes, and what happens between them.
    fn storm(&mut self) -> Result<()> {
        let (_, tree) = self.status()?;
        let mut commands = Vec::new();
        let mut at = 0;
        for _ in 0..3 + self.random.index(6) {
            let mut draw = Draw {
                devices: self.site.devices(),
                random: &mut self.random,
                made: &mut self.made,
            };
            if let Some(command) = draw.command(&tree)? {
                at += *self.random.choose(&PAUSES_MS);
                commands.push((Duration::from_millis(at), format!("zpool {command}")));
            }
        }
        let is_killed = self.random.index(4) == 0;
        let kill_after = Duration::from_millis(at / 2 + self.random.below(KILL_MS_MAX));
        let snapshot = format!("zfs snapshot -r tank@s{}", self.random.next_u64());
        commands.push((Duration::from_millis(self.random.below(at + 1)), snapshot));
        let files = std::mem::take(&mut self.files);
        let writer = Writer::start(&self.site.path("tank/w"), files, self.random.next_u64());
        let own = &*self;
        let done: Result<Vec<bool>> = std::thread::scope(|scope| {
            let threads: Vec<_> = commands
                .iter()
                .map(|(after, line)| {
                    scope.spawn(move || {
                        std::thread::sleep(*after);
                        own.command(line)
                    })
                })
                .collect();
            if is_killed {
                std::thread::sleep(kill_after);
                own.tell("the daemon is killed");
                own.site.kill()?;
            }
            let ends = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            ends.collect()
        });
        self.files = writer.end(is_killed)?;
        done?;
        match (is_killed, self.random.index(3)) {
            (true, _) => self.restart(),
            (false, 0) => self.reopen(""),
            (false, _) => Ok(()),
        }
    }

    /// Starts a daemon after the one before was killed.
    fn restart(&self) -> Result<()> {
        // A command that came later may have started one.
        let _ = self
            .site
            .cenote()
            .run("cenote", &["daemon", "stop", "--force"])?;
        self.site.start()?;
        self.import("-f")
    }

    fn import(&self, options: &str) -> Result<()> {
        self.tell(&format!("zpool import {options}"));
        self.site.import(&format!("{} {options}", self.options))
    }

    fn reopen(&self, options: &str) -> Result<()> {
        self.tell("zpool export tank");
        self.site.export()?;
        self.import(options)
    }

    /// Brings back what was taken out of use, and waits until nothing is under way any more.
    fn settle(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let (status, tree) = self.status()?;
            let is_out = |leaf: &&Vdev| !["ONLINE", "AVAIL"].contains(&leaf.state.as_str());
            let out: Vec<&Vdev> = tree.leaves().into_iter().filter(is_out).collect();
            for leaf in &out {
                self.command(&format!("zpool online tank {}", leaf.name))?;
            }
            if !out.is_empty() {
                self.command("zpool clear tank")?;
            }
            let marks = [
                "in progress",
                "replacing-",
                "awaiting resilver",
                "(resilvering)",
            ];
            let is_busy = !out.is_empty() || marks.iter().any(|mark| status.contains(mark));
            if !is_busy {
                // A spare for a device that was never faulty stays until it is detached.
                let spared = tree.spared();
                for spare in spared.iter().filter_map(|spared| spared.children.last()) {
                    self.command(&format!("zpool detach tank {}", spare.name))?;
                }
                if spared.is_empty() {
                    ensure!(status.contains("state: ONLINE"), "it is not well: {status}");
                    self.tell("at rest");
                    return Ok(());
                }
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "it does not come to rest: {status}"
            );
            std::thread::sleep(POLL);
        }
    }

    /// Takes as many devices away as can be, compares, and scrubs with all of them.
    fn judge_devices(&mut self) -> Result<()> {
        let before = self.site.walk("tank/fs")?;
        let (_, tree) = self.status()?;
        let mut away: Vec<PathBuf> = Vec::new();
        for top in &tree.tops {
            let mut children: Vec<&Vdev> = top.children.iter().collect();
            for _ in 0..top.losses() {
                let child = children.swap_remove(self.random.index(children.len()));
                away.push(child.name.clone().into());
            }
        }
        self.tell(&format!("without {away:?}"));
        self.site.export()?;
        let hidden = self.site.cenote().subdirectory("hidden")?;
        let moved = |device: &PathBuf| hidden.join(device.file_name().unwrap_or_default());
        for device in &away {
            fs::rename(device, moved(device)).with_context(|| device.display().to_string())?;
        }
        self.import("-o readonly=on")?;
        let compared = self
            .files
            .check(&self.site.path("tank/w"))
            .and_then(|()| crate::site::same(&before, &self.site.walk("tank/fs")?));
        compared.with_context(|| format!("without {away:?}"))?;
        self.site.export()?;
        for device in &away {
            fs::rename(moved(device), device)?;
        }
        self.import("")?;
        self.scrub()
    }

    /// Scrubs: nothing may be wrong with a pool that said so.
    fn scrub(&self) -> Result<()> {
        let began = Instant::now();
        let status = loop {
            let scrubs = self.command("zpool scrub -w tank")?;
            let (status, _) = self.status()?;
            if scrubs && status.contains("scan: scrub repaired") {
                break status;
            }
            ensure!(began.elapsed() < PATIENCE, "no scrub ends: {status}");
            std::thread::sleep(POLL);
        };
        let is_clean = ["repaired 0B", "with 0 errors", "No known data errors"]
            .iter()
            .all(|words| status.contains(words));
        ensure!(is_clean, "it was not whole: {status}");
        Ok(())
    }

    /// Removes devices that are not in use any more, and old snapshots.
    fn tidy(&self) -> Result<()> {
        let (status, _) = self.status()?;
        for entry in fs::read_dir(self.site.devices())? {
            let path = entry?.path();
            if !status.contains(&path.display().to_string()) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Splits the pool where it is of mirrors, and looks at what the sides have.
    fn split(&self) -> Result<()> {
        let (_, tree) = self.status()?;
        if !tree.tops.iter().all(Vdev::is_mirror) {
            return Ok(());
        }
        let before = self.site.walk("tank/fs")?;
        ensure!(
            self.command("zpool split tank half")?,
            "a sound pool can be split"
        );
        let root = self.site.cenote().subdirectory("half")?;
        let (place, devices) = (root.display(), self.site.devices().display());
        let key = self.options;
        self.site
            .ok(&format!("zpool import {key} -R {place} -d {devices} half"))?;
        self.files.check(&root.join("half/w"))?;
        crate::site::same(&before, &crate::mounted::walk(&root.join("half/fs"))?)?;
        self.site.ok("zpool destroy half")?;
        self.files.check(&self.site.path("tank/w"))?;
        // The judge is to find one pool.
        self.tidy()
    }

    /// Ends a session that went well.
    pub fn finish(self, is_judged: bool) -> Result<()> {
        let story = self.story.into_inner();
        let story = story.unwrap_or_else(PoisonError::into_inner);
        match is_judged {
            true => self
                .site
                .finish()
                .with_context(|| format!("the story:\n{story}")),
            false => {
                self.site.abandon();
                Ok(())
            }
        }
    }

    /// Ends one that did not: its story.
    pub fn abandon(self) -> String {
        self.site.abandon();
        self.story
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
