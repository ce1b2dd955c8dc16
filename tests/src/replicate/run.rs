//! A run: sources that change, and replicas that follow.

use super::link::{self, Facts};
use super::replica::{Counts, Receiver, Replica, World};
use super::rival::Rival;
use super::volumes::send_volumes;
use crate::model::Session;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result};
use std::fs;
use std::sync::Arc;

/// Steps between two judgements by OpenZFS.
const JUDGE_INTERVAL: u64 = 40;

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Chooses everything.
    pub seed: u64,
    /// How many snapshots are taken and sent.
    pub steps: u64,
    /// Most operations before a snapshot.
    pub operations: u64,
    /// File systems that change.
    pub sources: usize,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// What was chosen.
    pub setup: Vec<String>,
    /// Streams of whole snapshots.
    pub full: u64,
    /// Streams that build upon others.
    pub increments: u64,
    /// Streams that were cut and resumed.
    pub resumed: u64,
    /// Bytes that were sent.
    pub bytes: u64,
}

/// A file system and its replicas.
struct Source {
    session: Session,
    replicas: Vec<Replica>,
    taken: Vec<String>,
}

/// Runs all steps; an error says which of them differed.
pub fn run(options: &Options) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let here = Arc::new(Site::create("single", 3072, "-O canmount=off")?);
    // A mount that may write empties the delete queue that came with a snapshot, and so changes the
    // copy, which then takes no increment.
    let there = Site::create("single", 3072, "-O canmount=off -O readonly=on")?;
    let directory = here.cenote().directory();
    let key = directory.join("replica-key");
    fs::write(&key, link::KEY)?;
    let key = key.display().to_string();
    let rival = Rival::new(directory.join("rival"))?;
    let mut sources = Vec::new();
    for number in 0..options.sources {
        sources.push(Source::new(&here, number, rival.is_some(), &mut random)?);
    }
    let mut counts = Counts::default();
    for step in 1..=options.steps {
        let source = random.index(sources.len());
        let mut world = World {
            source: &here,
            target: &there,
            rival: rival.as_ref(),
            random: &mut random,
            counts: &mut counts,
            key: &key,
        };
        let done = sources[source].step(&mut world, options.operations, step);
        let setup = sources[source].session.setup();
        done.with_context(|| format!("step {step} of {setup}"))?;
        if step.is_multiple_of(JUDGE_INTERVAL)
            && let Some(rival) = &rival
        {
            let volumes = send_volumes(rival, &there, step, &mut random)?;
            counts.full += volumes.full;
            counts.increments += volumes.increments;
            rival
                .judge()
                .with_context(|| format!("after step {step}"))?;
        }
    }
    let setup = sources
        .iter()
        .map(|source| source.session.setup().to_owned());
    let report = Report {
        setup: setup.collect(),
        full: counts.full,
        increments: counts.increments,
        resumed: counts.resumed,
        bytes: counts.bytes,
    };
    drop(sources);
    if let Some(rival) = &rival {
        rival.judge()?;
    }
    there.finish()?;
    let here = Arc::into_inner(here).context("the only reference to the site")?;
    here.finish()?;
    Ok(report)
}

/// Whether OpenZFS loses contents of a file system that is sent to it in increments.
///
/// It compares the pointers of a dnode that it has with those that the bonus buffer would leave
/// room for in a dnode of one slot, and frees an object that has more. Dnodes of more slots have,
/// where attributes are in a znode, as they are before version 5. Of raw streams it refuses them.
fn is_lost_on_openzfs(setup: &str) -> bool {
    let has_znodes = (1..5).any(|version| setup.contains(&format!("version={version}")));
    has_znodes && !setup.contains("dnodesize=legacy")
}

impl Source {
    fn new(site: &Arc<Site>, number: usize, has_rival: bool, random: &mut Random) -> Result<Self> {
        let seed = random.next_u64();
        let dataset = format!("tank/fs{number}");
        let mut session = Session::shared(site, &dataset, Random::new(seed))?;
        // OpenZFS cannot send these.
        session.avoid_embedded_spills();
        let is_encrypted = session.key().is_some();
        let has_rival = has_rival && !is_lost_on_openzfs(session.setup());
        let mut replicas = vec![Replica::new(
            format!("plain{number}"),
            Receiver::Ours,
            (is_encrypted, false),
        )];
        if is_encrypted {
            replicas.push(Replica::new(
                format!("raw{number}"),
                Receiver::Ours,
                (true, true),
            ));
        }
        if has_rival {
            let name = format!("theirs{number}");
            replicas.push(Replica::new(
                name,
                Receiver::Rival,
                (is_encrypted, is_encrypted),
            ));
        }
        Ok(Self {
            session,
            replicas,
            taken: Vec::new(),
        })
    }

    /// Changes the file system, takes snapshots, and sends the last of them to all replicas.
    fn step(&mut self, world: &mut World<'_>, operations: u64, step: u64) -> Result<()> {
        let dataset = self.session.dataset().to_owned();
        let mut snapshot = String::new();
        for part in 0..=world.random.below(2) {
            self.session.work(1 + world.random.below(operations))?;
            snapshot = format!("s{step}-{part}");
            world
                .source
                .ok(&format!("zfs snapshot {dataset}@{snapshot}"))?;
            self.taken.push(snapshot.clone());
        }
        let facts = Facts::of(world.source, &dataset, &snapshot)?;
        for replica in &mut self.replicas {
            replica.update(world, (&dataset, &snapshot), &facts)?;
        }
        self.forget_old(world, &dataset)
    }

    /// Destroys snapshots that are not needed any more, here and there.
    fn forget_old(&mut self, world: &World<'_>, dataset: &str) -> Result<()> {
        while self.taken.len() > 4 {
            let old = self.taken.remove(0);
            world.source.ok(&format!("zfs destroy {dataset}@{old}"))?;
            for replica in &self.replicas {
                // It may not have got all of them.
                let name = format!("tank/{}@{old}", replica.name);
                world.target.cenote().run("zfs", &["destroy", &name])?;
            }
        }
        Ok(())
    }
}
