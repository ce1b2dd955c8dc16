//! Streams that are cut at each of their records and resumed.
//!
//! A stream is cut before each record, and at some bytes within them; the received part is kept
//! (`-s`). If the receiver has a token for it, the sender sends the rest; otherwise the stream is
//! sent again. The resulting snapshot must be the one that was sent. Sometimes the receiving daemon
//! is killed while the stream is still open.

use super::frames::split;
use super::link::{self, Facts};
use crate::model::Session;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Operations on the file system before each snapshot.
const OPERATIONS: u64 = 40;
/// Of so many cuts one is the death of the daemon.
const KILL_INTERVAL: u64 = 16;
/// For so long a daemon reads what it got before it is killed.
const KILL_DELAY: Duration = Duration::from_millis(150);

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct CutOptions {
    /// Chooses everything.
    pub seed: u64,
    /// Cuts within records, for each stream.
    pub within: usize,
    /// Of the cuts before records only each so many-th is made.
    pub stride: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutReport {
    /// Streams that were cut.
    pub cuts: u64,
    /// Those that could be resumed.
    pub resumed: u64,
    /// Cuts that were the death of a daemon.
    pub kills: u64,
}

/// A stream and its expected result.
struct Case {
    /// Options of its send.
    words: String,
    /// What it is received into.
    target: &'static str,
    is_raw: bool,
    is_increment: bool,
}

/// Cuts streams.
pub fn run_cuts(options: &CutOptions) -> Result<CutReport> {
    let mut random = Random::new(options.seed);
    let site = Arc::new(Site::create("single", 1024, "-O canmount=off")?);
    let key = site.cenote().directory().join("cut-key");
    fs::write(&key, link::KEY)?;
    let key = key.display().to_string();
    let encrypted = format!("-o encryption=on -o keyformat=hex -o keylocation=file://{key}");
    let mut report = CutReport::default();
    for (kind, made_with, flags) in [
        ("plain", "-o compression=lz4 -o recordsize=16K", "-c -e"),
        ("raw", encrypted.as_str(), "-w"),
    ] {
        let dataset = format!("tank/source-{kind}");
        site.ok(&format!("zfs create {made_with} {dataset}"))?;
        let seed = Random::new(random.next_u64());
        let mut session = Session::of(&site, &dataset, made_with, seed)?;
        session.avoid_embedded_spills();
        for snapshot in ["a", "b"] {
            session.work(OPERATIONS)?;
            site.ok(&format!("zfs snapshot {dataset}@{snapshot}"))?;
        }
        session.leave()?;
        drop(session);
        for (since, snapshot) in [("", "a"), ("-i @a", "b")] {
            let case = Case {
                words: format!("{flags} {since} {dataset}@{snapshot}"),
                target: "tank/cut",
                is_raw: kind == "raw",
                is_increment: !since.is_empty(),
            };
            let sent = Facts::of(&site, &dataset, snapshot)?;
            let trial = Trial {
                site: &site,
                key: &key,
                case: &case,
                sent: &sent,
                snapshot,
            };
            let done = trial.all(options, &mut random, &mut report);
            done.with_context(|| format!("zfs send {}", case.words))?;
        }
        site.ok("zfs destroy -r tank/cut")?;
    }
    let site = Arc::into_inner(site).context("the only reference to the site")?;
    site.finish()?;
    Ok(report)
}

/// One stream, cut again and again.
struct Trial<'a> {
    site: &'a Site,
    key: &'a str,
    case: &'a Case,
    sent: &'a Facts,
    snapshot: &'a str,
}

impl Trial<'_> {
    fn all(&self, options: &CutOptions, random: &mut Random, report: &mut CutReport) -> Result<()> {
        let stream = link::send(self.site, &self.case.words)?;
        let mut places = Vec::new();
        let mut at = 0;
        for (index, frame) in split(&stream)?.iter().enumerate() {
            if index.is_multiple_of(options.stride.max(1)) {
                places.push(at);
            }
            at += frame.header.len() + frame.payload.len();
        }
        places.extend((0..options.within).map(|_| random.index(stream.len())));
        for place in places {
            report.cuts += 1;
            let kills = place > 0 && report.cuts.is_multiple_of(KILL_INTERVAL);
            report.kills += u64::from(kills);
            let resumed = self.one(&stream, place, kills);
            let resumed = resumed
                .with_context(|| format!("cut at {place} of {}, killed: {kills}", stream.len()))?;
            report.resumed += u64::from(resumed);
        }
        // What comes next builds upon it.
        if !self.case.is_increment {
            self.receive(&stream)?;
        }
        Ok(())
    }

    fn receive(&self, stream: &[u8]) -> Result<()> {
        let words = format!("-s -u {}", self.case.target);
        link::receive(self.site, &words, stream)?.success()?;
        Ok(())
    }

    /// Cuts the stream at one place; says whether the rest alone was sent.
    fn one(&self, stream: &[u8], place: usize, kills: bool) -> Result<bool> {
        let (site, target) = (self.site, self.case.target);
        match kills {
            true => self.receive_and_kill(&stream[..place])?,
            false => {
                let outcome = link::receive(site, &format!("-s -u {target}"), &stream[..place])?;
                ensure!(outcome.code == Some(1), "{}", outcome.report());
            }
        }
        let token = link::token(site, target)?;
        match &token {
            Some(token) => self.receive(&link::send(site, &format!("-t {token}"))?)?,
            None => self.receive(stream)?,
        }
        link::open(site, target, self.key)?;
        let received = Facts::of(site, target, self.snapshot)?;
        site.ok(&format!("zfs unmount {target}"))?;
        if self.case.is_raw {
            site.ok(&format!("zfs unload-key {target}"))?;
        }
        self.sent.same(&received)?;
        match self.case.is_increment {
            true => site.ok(&format!("zfs rollback -r {target}@a"))?,
            false => site.ok(&format!("zfs destroy -r {target}"))?,
        };
        Ok(token.is_some())
    }

    /// Kills the daemon while it waits for the rest of the stream.
    fn receive_and_kill(&self, part: &[u8]) -> Result<()> {
        let arguments = ["receive", "-s", "-u", self.case.target];
        let mut command = self.site.cenote().command("zfs", &arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut pipe = child.stdin.take().context("a pipe was asked for")?;
        let written = pipe.write_all(part).and_then(|()| pipe.flush());
        thread::sleep(KILL_DELAY);
        self.site.kill()?;
        drop(pipe);
        let status = child.wait()?;
        ensure!(
            !status.success(),
            "the receive ended well without its daemon"
        );
        written.context("the beginning of a stream")?;
        link::restart(self.site, self.key)
    }
}
