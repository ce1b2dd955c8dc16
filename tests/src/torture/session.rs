//! One pool, its loads, and the kills.

use super::count::Counts;
use super::load::Load;
use super::loads::loads;
use super::options::Options;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Layouts: their names, words of `zpool create` and MiB of each device.
const LAYOUTS: [(&str, u64); 6] = [
    ("single", 1536),
    ("mirror", 1536),
    ("raidz1", 768),
    ("raidz2", 768),
    ("tables", 1536),
    ("classes", 768),
];

/// Options of `zpool create`.
const PROPERTIES: [&str; 5] = [
    "-O compression=lz4",
    "-O compression=off -O recordsize=16K",
    "-O logbias=throughput",
    "-O sync=always",
    "-O encryption=on -O keyformat=hex",
];

/// The daemon is killed so many milliseconds after the loads have begun.
const KILL_MS: std::ops::Range<u64> = 100..4000;
/// And so many after the import has begun, if that is to be interrupted.
const IMPORT_KILL_MS_MAX: u64 = 400;
const KEY: &str = "5555555555555555555555555555555555555555555555555555555555555555";

struct Session {
    site: Site,
    random: Random,
    loads: Vec<Box<dyn Load>>,
    import: String,
}

/// One session with so many kills; what it was about.
///
/// # Errors
/// What was lost, with the kill after which it was.
pub(super) fn run(seed: u64, kills: u64, options: &Options, counts: &mut Counts) -> Result<String> {
    let mut random = Random::new(seed);
    let (layout, mebibytes) = *random.choose(&LAYOUTS);
    let properties = *random.choose(&PROPERTIES);
    let story = format!("{layout}, {properties}");
    let mut session = Session::new(random, layout, mebibytes, properties, &options.loads)?;
    for kill in 1..=kills {
        let killed = session.kill(counts);
        // A session that failed was nevertheless killed so often.
        counts.kills += 1;
        let is_judged = kill == kills || options.judge > 0 && kill % options.judge == 0;
        let ended = killed.and_then(|()| match is_judged {
            true => session.judge(counts),
            false => Ok(()),
        });
        if let Err(error) = ended {
            session.end();
            return Err(error.context(format!("{story}, kill {kill}")));
        }
    }
    // The last kill was judged: nothing is under way.
    session.site.export()?;
    session.site.abandon();
    Ok(story)
}

impl Session {
    fn new(
        mut random: Random,
        layout: &str,
        mebibytes: u64,
        properties: &str,
        names: &[String],
    ) -> Result<Self> {
        let key = tempfile::NamedTempFile::new()?;
        fs::write(key.path(), KEY)?;
        let mut words = properties.to_owned();
        let is_encrypted = properties.contains("encryption");
        if is_encrypted {
            words += &format!(" -O keylocation=file://{}", key.path().display());
        }
        let site = Site::create(layout, mebibytes, &words)?;
        let mut import = "-f".to_owned();
        if is_encrypted {
            let kept = site.cenote().directory().join("key");
            fs::write(&kept, KEY)?;
            site.ok(&format!(
                "zfs set keylocation=file://{} tank",
                kept.display()
            ))?;
            import += " -l";
        }
        // Other users are on the way to the mounts.
        fs::set_permissions(site.cenote().directory(), Permissions::from_mode(0o755))?;
        let scratch = site.cenote().subdirectory("scratch")?;
        let loads = loads(names, &mut random, &scratch)?;
        for load in &loads {
            site.ok(&format!(
                "zfs create {} tank/{}",
                load.properties(),
                load.name()
            ))?;
        }
        Ok(Self {
            site,
            random,
            loads,
            import,
        })
    }

    /// Starts the loads, kills the daemon in the middle, and has the loads look at what is left.
    fn kill(&mut self, counts: &mut Counts) -> Result<()> {
        for load in &mut self.loads {
            let root = self.site.path("tank").join(load.name());
            let started = load.start(&root);
            started.with_context(|| format!("{} does not start", load.name()))?;
        }
        let span = KILL_MS.end - KILL_MS.start;
        let pause = KILL_MS.start + self.random.below(span);
        thread::sleep(Duration::from_millis(pause));
        self.site.kill()?;
        for load in &mut self.loads {
            let stopped = load.stop();
            stopped.with_context(|| format!("{} does not end", load.name()))?;
        }
        if self.random.index(3) == 0 {
            self.interrupt_import()?;
            counts.kills_in_import += 1;
        }
        self.site.start()?;
        self.site.import(&self.import)?;
        for load in &mut self.loads {
            let root = self.site.path("tank").join(load.name());
            let found = load.check(&root);
            let found = found.with_context(|| format!("after {pause} ms: {}", load.name()))?;
            counts.add(load.name(), found);
        }
        Ok(())
    }

    /// Kills a daemon that imports, or has just done so.
    fn interrupt_import(&mut self) -> Result<()> {
        self.site.start()?;
        let pause = self.random.below(IMPORT_KILL_MS_MAX);
        let (site, import) = (&self.site, self.import.as_str());
        thread::scope(|scope| {
            // Whether it gets there does not matter.
            let importing = scope.spawn(move || site.import(import));
            thread::sleep(Duration::from_millis(pause));
            let killed = site.kill();
            let _ = importing.join();
            killed
        })?;
        // A command that found no daemon has started one.
        let stop = ["daemon", "stop", "--force"];
        self.site.cenote().run("cenote", &stop)?;
        Ok(())
    }

    /// Ends everything, whatever is under way: loads run until their file system fails.
    fn end(mut self) {
        let _ = self.site.kill();
        for load in &mut self.loads {
            let _ = load.stop();
        }
        // Dead mounts, the inner ones first.
        let inner = self
            .loads
            .iter()
            .map(|load| format!("tank/{}", load.name()));
        for dataset in inner.chain(["tank".to_owned()]) {
            let mut unmount = Command::new("umount");
            let _ = unmount.arg("-l").arg(self.site.path(&dataset)).output();
        }
        self.site.abandon();
    }

    /// The pool is exported, verified by us, and judged by OpenZFS.
    fn judge(&mut self, counts: &mut Counts) -> Result<()> {
        for load in &mut self.loads {
            load.stop()?;
        }
        self.site.export()?;
        let devices = self.site.devices().display().to_string();
        let key = self.site.cenote().directory().join("key");
        self.site.ok(&verify(&devices, &key))?;
        self.site.judge()?;
        self.site.import(&self.import)?;
        for load in &mut self.loads {
            let root = self.site.path("tank").join(load.name());
            load.check(&root).context("after an export")?;
            load.stop()?;
        }
        counts.judged += 1;
        Ok(())
    }
}

fn verify(devices: &str, key: &Path) -> String {
    match key.exists() {
        true => format!("cenote verify -q --key {} -d {devices} tank", key.display()),
        false => format!("cenote verify -q -d {devices} tank"),
    }
}
