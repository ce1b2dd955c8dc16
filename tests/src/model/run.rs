//! Workers on one pool, with imports, and with daemons that are killed.

use super::session::Session;
use crate::random::Random;
use crate::site::{self, Site};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A run.
pub struct Options {
    /// Chooses layout, properties and operations.
    pub seed: u64,
    /// How many operations, of all workers together.
    pub operations: u64,
    /// Operations between two imports.
    pub reopen_interval: u64,
    /// Workers: the first has a file system to itself, each two that follow share one.
    pub workers: usize,
    /// How often the daemon is killed.
    pub kills: u64,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// What was chosen.
    pub setup: String,
    /// Operations by name.
    pub operations: BTreeMap<&'static str, u64>,
    /// Errors that both sides agreed on.
    pub refused: u64,
    /// Imports.
    pub reopened: u64,
}

/// Runs operations from a seed; an error says what differed, and after which of them.
///
/// With one worker and no kill a seed makes the same calls again; otherwise it is the same
/// workers, whose calls meet in other ways.
pub fn run(options: &Options) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let layouts: Vec<&str> = site::layouts().collect();
    let layout = *random.choose(&layouts);
    let site = Arc::new(Site::create(layout, 768, "-O canmount=off")?);
    let mut sessions = hire(&site, options.workers, &mut random)?;
    let mut report = Report {
        setup: layout.into(),
        ..Report::default()
    };
    for session in &sessions {
        report.setup = format!("{}; {}", report.setup, session.setup());
    }
    let turns = options.operations.div_ceil(options.reopen_interval);
    for turn in 0..turns {
        let count = options.reopen_interval / options.workers as u64;
        together(&mut sessions, |session| session.work(count))?;
        together(&mut sessions, Session::leave)?;
        site.export()?;
        report.reopened += 1;
        open(&site, &sessions, "-N")?;
        together(&mut sessions, |session| session.compare_after("the import"))?;
        // Other sessions on the file system would hit the quota, too: they wait.
        sessions[0].hit_quota(turn)?;
        if turn * options.kills / turns < (turn + 1) * options.kills / turns {
            crash(&site, &mut sessions, &mut random).context("a crash")?;
        }
    }
    for session in sessions {
        report.refused += session.refused;
        for (name, count) in &session.operations {
            *report.operations.entry(name).or_default() += count;
        }
    }
    match Arc::into_inner(site) {
        Some(site) => site.finish()?,
        None => bail!("the workers are gone"),
    }
    Ok(report)
}

fn hire(site: &Arc<Site>, workers: usize, random: &mut Random) -> Result<Vec<Session>> {
    let mut sessions: Vec<Session> = Vec::new();
    while sessions.len() < workers {
        let dataset = format!("tank/model{}", sessions.len());
        let seed = random.next_u64();
        let session = Session::shared(site, &dataset, Random::new(seed))?;
        match sessions.is_empty() || workers - sessions.len() == 1 {
            true => sessions.push(session),
            false => sessions.extend(session.split()?),
        }
    }
    Ok(sessions)
}

fn open(site: &Site, sessions: &[Session], options: &str) -> Result<()> {
    site.import(options)?;
    // Of two that share a file system the first mounts it.
    for session in sessions {
        if session.is_first() {
            session.mount()?;
        }
    }
    Ok(())
}

/// All workers at once; the first error is the result.
fn together(
    sessions: &mut [Session],
    work: impl Fn(&mut Session) -> Result<()> + Sync,
) -> Result<()> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter_mut()
            .map(|session| scope.spawn(move || work(session)))
            .collect();
        let mut result = Ok(());
        for thread in threads {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

/// Kills the daemon under the workers, and looks at what it kept.
fn crash(site: &Site, sessions: &mut [Session], random: &mut Random) -> Result<()> {
    let delay = Duration::from_millis(random.below(3000));
    let is_killed = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let killer = scope.spawn(|| {
            thread::sleep(delay);
            is_killed.store(true, Ordering::SeqCst);
            site.kill()
        });
        let worked = together(sessions, |session| session.work_until(&is_killed));
        match killer.join() {
            Ok(killed) => killed.and(worked),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    site.start()?;
    open(site, sessions, "-f -N")?;
    together(sessions, Session::survive)?;
    site.ok("cenote verify --quiet tank")?;
    Ok(())
}
