//! A pool whose devices are served over NBD, under random misfortune: what `cargo xtask network`
//! runs, and the servers for the tests.
//!
//! The servers are `cenote nbd serve --device` on files that lie where the devices of a site do, so
//! that OpenZFS can judge them. Writers make files durable one after the other while servers and
//! the daemon are killed; whatever `fsync` has promised must be there, with its bytes.

use crate::patience::wait_until;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Bytes of a file that a writer makes.
const FILE_BYTES: u64 = 96 << 10;
/// Files of one writer; then it begins again.
const FILES: u64 = 300;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides what happens when.
    pub seed: u64,
    /// Misfortunes.
    pub rounds: u64,
    /// Seconds that servers stay away in every third round.
    pub outage: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Files that were made durable.
    pub files: u64,
    /// Servers that were killed.
    pub servers_killed: u64,
    /// Daemons that were killed.
    pub daemons_killed: u64,
}

/// A server of one device.
pub struct Server<'s> {
    site: &'s Site,
    device: String,
    options: Vec<String>,
    socket: PathBuf,
    child: Mutex<Option<Child>>,
}

impl<'s> Server<'s> {
    /// Serves a device with these options.
    pub fn new(site: &'s Site, name: &str, device: &str, options: &[&str]) -> Result<Self> {
        let server = Self {
            site,
            device: device.to_owned(),
            options: options.iter().map(|&word| word.to_owned()).collect(),
            socket: site.cenote().directory().join(format!("{name}.nbd")),
            child: Mutex::new(None),
        };
        server.start()?;
        Ok(server)
    }

    /// Serves a new file, in which a device of the site is.
    pub fn of_file(site: &'s Site, name: &str, mebibytes: u64) -> Result<Self> {
        let path = site.devices().join(format!("{name}.img"));
        File::create(&path)?.set_len(mebibytes * MIB)?;
        Self::new(site, name, &path.display().to_string(), &[])
    }

    /// Serves it again.
    pub fn start(&self) -> Result<()> {
        self.start_with(&self.device)
    }

    /// Serves another device under the same address.
    pub fn start_with(&self, device: &str) -> Result<()> {
        let socket = self.socket.display().to_string();
        let mut words = vec!["nbd", "serve", "--device", device, "--unix", &socket];
        words.extend(self.options.iter().map(String::as_str));
        let mut command = self.site.cenote().command("cenote", &words);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        // It says its address once it listens.
        let mut line = String::new();
        let output = child.stdout.as_mut().context("its output")?;
        BufReader::with_capacity(1, output).read_line(&mut line)?;
        ensure!(line.starts_with("nbd+unix:///?socket="), "it said '{line}'");
        *self.child.lock().expect("no panic") = Some(child);
        Ok(())
    }

    fn take(&self) -> Option<Child> {
        self.child.lock().expect("no panic").take()
    }

    /// Kills it as a crash would.
    pub fn kill(&self) -> Result<()> {
        let mut child = self.take().context("it runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends it as a person would; returns what it said.
    pub fn end(&self) -> Result<String> {
        let mut child = self.take().context("it runs")?;
        let process = Pid::from_raw(i32::try_from(child.id())?).context("a process")?;
        kill_process(process, Signal::INT)?;
        let mut text = String::new();
        let output = child.stdout.as_mut().context("its output")?;
        output.read_to_string(&mut text)?;
        ensure!(child.wait()?.success(), "it failed: {text}");
        Ok(text)
    }

    /// The address, with options of our client behind it.
    pub fn url(&self, options: &str) -> String {
        format!("nbd+unix:///?socket={}{options}", self.socket.display())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Bytes that are the same for the same seed.
pub fn noise(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Writes a file and waits until it is durable.
pub fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

/// A writer: how many files it has made durable, one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    number: u64,
    count: AtomicU64,
}

impl Writer {
    /// One of several.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Files that are durable.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    fn place(&self, directory: &Path, file: u64) -> PathBuf {
        directory.join(format!("{}-{}", self.number, file % FILES))
    }

    fn bytes(&self, file: u64) -> Vec<u8> {
        noise(self.number << 32 | file, FILE_BYTES)
    }

    /// Writes until it is over, or a write fails.
    ///
    /// # Errors
    /// Of the write.
    pub fn write(&self, directory: &Path, is_over: &AtomicBool) -> Result<()> {
        while !is_over.load(Ordering::SeqCst) {
            let file = self.count();
            put(&self.place(directory, file), &self.bytes(file))?;
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Checks what is durable.
    ///
    /// # Errors
    /// Something else is there.
    pub fn check(&self, directory: &Path) -> Result<()> {
        let count = self.count();
        // The one after the last was being written, and may have taken the place of an old one.
        let first = (count + 1).saturating_sub(FILES);
        for file in first..count {
            let path = self.place(directory, file);
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            let name = path.display();
            ensure!(
                found == self.bytes(file),
                "{name} is not what was made durable"
            );
        }
        Ok(())
    }
}

fn import(site: &Site, urls: &[String]) -> Result<()> {
    let root = site.path("").display().to_string();
    let places: String = urls.iter().map(|url| format!(" -d {url}")).collect();
    site.ok(&format!("zpool import -f -R {root}{places} tank"))
        .map(drop)
}

/// Runs all rounds, and has OpenZFS judge the pool.
///
/// # Errors
/// A promise was not kept.
pub fn run(options: &Options) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let mut report = Report::default();
    let site = Site::new("tank")?;
    let servers: Result<Vec<Server<'_>>> = ["a", "b"]
        .into_iter()
        .map(|name| Server::of_file(&site, name, 512))
        .collect();
    let servers = servers?;
    let urls: Vec<String> = servers.iter().map(|server| server.url("")).collect();
    let root = site.path("").display().to_string();
    site.ok(&format!(
        "zpool create -R {root} tank mirror {}",
        urls.join(" ")
    ))?;
    let directory = site.path("tank");
    let writers: Vec<Writer> = (0..3).map(Writer::new).collect();
    for round in 0..options.rounds {
        let is_over = AtomicBool::new(false);
        let kills_daemon = random.below(3) == 0;
        thread::scope(|scope| -> Result<()> {
            let (directory, is_over) = (&directory, &is_over);
            let each = writers.iter();
            let running: Vec<_> = each
                .map(|writer| scope.spawn(move || writer.write(directory, is_over)))
                .collect();
            let result = misfortune(&servers, &writers, options, round, &mut random, &mut report);
            if kills_daemon && result.is_ok() {
                site.kill()?;
                report.daemons_killed += 1;
            }
            is_over.store(true, Ordering::SeqCst);
            for writer in running {
                let written = writer.join().ok().context("a writer panicked")?;
                // Writes fail without a daemon.
                if !kills_daemon {
                    written?;
                }
            }
            result
        })?;
        if kills_daemon {
            site.start()?;
            // The dead mount goes before the pool comes back.
            let _ = site.cenote().run("cenote", &["unmount", &root]);
            import(&site, &urls)?;
        }
        for writer in &writers {
            writer
                .check(&directory)
                .with_context(|| format!("round {round}"))?;
        }
    }
    site.ok("zpool scrub -w tank")?;
    let status = site.ok("zpool status -p tank")?;
    ensure!(status.contains("errors: No known data errors"), "{status}");
    site.ok("zpool export tank")?;
    report.files = writers.iter().map(Writer::count).sum();
    site.judge()?;
    Ok(report)
}

/// Kills servers under load, and starts them again after a while.
fn misfortune(
    servers: &[Server<'_>],
    writers: &[Writer],
    options: &Options,
    round: u64,
    random: &mut Random,
    report: &mut Report,
) -> Result<()> {
    let count = || writers.iter().map(Writer::count).sum::<u64>();
    let wanted = count() + 3 + random.below(20);
    wait_until("files are written", || Ok(count() > wanted))?;
    let whose = random.below(3);
    let killed: Vec<&Server<'_>> = match whose {
        0 | 1 => vec![&servers[whose as usize]],
        _ => servers.iter().collect(),
    };
    for server in &killed {
        server.kill()?;
        report.servers_killed += 1;
    }
    let seconds = match round % 3 {
        2 => options.outage,
        _ => random.below(2),
    };
    thread::sleep(Duration::from_secs(seconds));
    killed.iter().try_for_each(|server| server.start())
}
