//! A copy of a file system somewhere, and how it is kept up to date.

use super::link::{self, Facts, Way};
use super::rival::Rival;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result};
use std::fs;

/// The receiving software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Cenote.
    Ours,
    /// OpenZFS, and Cenote what OpenZFS then sends.
    Rival,
}

/// A copy.
#[derive(Debug)]
pub struct Replica {
    /// The dataset, without its pool.
    pub name: String,
    pub receiver: Receiver,
    /// Whether blocks come as they are stored and encrypted.
    pub is_raw: bool,
    /// Whether properties may come along: of what is encrypted only with raw streams.
    takes_properties: bool,
    /// Whether blocks above 128 KiB are sent whole: for good, once they were.
    pub has_large: bool,
    /// The snapshot that it has.
    pub last: Option<String>,
    /// What OpenZFS sends is received as this one's echo.
    echo: Option<Box<Replica>>,
}

/// All participants.
pub struct World<'a> {
    pub source: &'a Site,
    pub target: &'a Site,
    pub rival: Option<&'a Rival>,
    pub random: &'a mut Random,
    pub counts: &'a mut Counts,
    /// A file with the key of encrypted datasets.
    pub key: &'a str,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub full: u64,
    pub increments: u64,
    pub resumed: u64,
    pub bytes: u64,
}

impl Replica {
    pub fn new(name: String, receiver: Receiver, (is_encrypted, is_raw): (bool, bool)) -> Self {
        let echo = (receiver == Receiver::Rival).then(|| {
            let name = format!("echo-{name}");
            Box::new(Self::new(name, Receiver::Ours, (is_encrypted, is_raw)))
        });
        Self {
            name,
            receiver,
            is_raw,
            takes_properties: is_raw || !is_encrypted,
            has_large: is_raw,
            last: None,
            echo,
        }
    }

    /// Options of a send, as far as the replica can take them.
    fn flags(&mut self, random: &mut Random) -> Vec<&'static str> {
        let mut flags = Vec::new();
        let chances = if self.last.is_some() { 12 } else { 2 };
        let changes = random.below(chances) == 0;
        // OpenZFS in user space refuses larger blocks for files that it has, its own streams, too.
        self.has_large |= changes && (self.last.is_none() || self.receiver == Receiver::Ours);
        if self.is_raw {
            return vec!["-w"];
        }
        if self.has_large {
            flags.push("-L");
        }
        for flag in ["-c", "-e"] {
            if random.below(2) == 0 {
                flags.push(flag);
            }
        }
        flags
    }

    /// Sends `dataset@snapshot` here; what came must be equal.
    pub fn update(
        &mut self,
        world: &mut World<'_>,
        (dataset, snapshot): (&str, &str),
        facts: &Facts,
    ) -> Result<()> {
        let mut flags = self.flags(world.random);
        let since = self.since(world, dataset)?;
        if self.takes_properties && since.starts_with("-I") && world.random.below(2) == 0 {
            flags.push("-p");
        }
        let words = format!("{} {since} {dataset}@{snapshot}", flags.join(" "));
        let place = format!("zfs send {words} | {:?} {}", self.receiver, self.name);
        let stream = link::send(world.source, &words)?;
        world.counts.bytes += stream.len() as u64;
        match self.receiver {
            Receiver::Ours => self.receive_here(world, stream, since.starts_with("-I")),
            Receiver::Rival => self.receive_there(world, stream),
        }
        .with_context(|| place.clone())?;
        self.received(world, snapshot, facts).context(place)
    }

    /// What the stream is to build upon.
    fn since(&self, world: &mut World<'_>, dataset: &str) -> Result<String> {
        let Some(last) = &self.last else {
            return Ok(String::new());
        };
        match world.random.below(6) {
            0 => {
                let mark = format!("{dataset}#{last}");
                let text = world
                    .source
                    .ok(&format!("zfs list -H -t bookmark -o name -d 1 {dataset}"))?;
                if !text.lines().any(|line| line == mark) {
                    world
                        .source
                        .ok(&format!("zfs bookmark {dataset}@{last} {mark}"))?;
                }
                Ok(format!("-i {mark}"))
            }
            // OpenZFS in user space reads no packages of properties, and Cenote does.
            1 | 2 if self.receiver == Receiver::Ours => Ok(format!("-I @{last}")),
            _ => Ok(format!("-i @{last}")),
        }
    }

    fn receive_here(
        &mut self,
        world: &mut World<'_>,
        stream: Vec<u8>,
        is_package: bool,
    ) -> Result<()> {
        let target = format!("tank/{}", self.name);
        let mut words = String::new();
        if self.last.is_some() && world.random.below(3) == 0 {
            words.push_str("-F ");
            // A rollback to the snapshot removes it.
            let place = world.target.path(&target).join("local");
            world.target.ok(&format!("zfs set readonly=off {target}"))?;
            fs::write(&place, b"this was not sent").with_context(|| place.display().to_string())?;
            world.target.ok(&format!("zfs inherit readonly {target}"))?;
        }
        if !is_package && world.random.below(4) == 0 {
            let cuts = (1 + world.random.below(3), world.random.below(3) == 0);
            let way = Way {
                from: world.source,
                to: world.target,
                words: &words,
                target: &target,
                key: world.key,
            };
            world.counts.resumed += link::receive_in_pieces(way, stream, cuts, world.random)?;
            return Ok(());
        }
        link::receive(world.target, &format!("{words}{target}"), &stream)?.success()?;
        Ok(())
    }

    fn receive_there(&mut self, world: &mut World<'_>, stream: Vec<u8>) -> Result<()> {
        let rival = world.rival.context("OpenZFS")?;
        rival.receive(
            &format!("rival/{}", self.name),
            &stream,
            self.last.is_some(),
        )
    }

    /// Compares what came, and has OpenZFS send it on.
    fn received(&mut self, world: &mut World<'_>, snapshot: &str, facts: &Facts) -> Result<()> {
        let before = self.last.replace(snapshot.to_owned());
        match before {
            None => world.counts.full += 1,
            Some(_) => world.counts.increments += 1,
        }
        if self.receiver == Receiver::Ours {
            let dataset = format!("tank/{}", self.name);
            link::open(world.target, &dataset, world.key)?;
            return facts.same(&Facts::of(world.target, &dataset, snapshot)?);
        }
        let rival = world.rival.context("OpenZFS")?;
        let full = format!("rival/{}@{snapshot}", self.name);
        let key = self.is_raw.then_some(world.key);
        let there = rival.facts(world.source.cenote(), &full, key)?;
        facts.same(&there).context("OpenZFS has")?;
        let Some(echo) = &mut self.echo else {
            return Ok(());
        };
        let flags = echo.flags(world.random);
        let from = echo.last.as_ref().map(|last| format!("@{last}"));
        let stream = rival.send(&flags, from.as_deref(), &full)?;
        let place = || format!("openzfs-ref send {} {from:?} {full}", flags.join(" "));
        let done = echo.receive_whole(world, stream);
        done.with_context(place)?;
        echo.received(world, snapshot, facts).with_context(place)
    }

    /// Receives a stream that cannot be sent again from here.
    fn receive_whole(&self, world: &World<'_>, stream: Vec<u8>) -> Result<()> {
        link::receive(world.target, &format!("tank/{}", self.name), &stream)?.success()?;
        Ok(())
    }
}
