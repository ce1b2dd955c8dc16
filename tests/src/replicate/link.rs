//! Streams from one site to another: sent, cut, received, and what is in their snapshots.

use crate::manifest::Entries;
use crate::mounted;
use crate::program::{self, Limits, Outcome};
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// The key of encrypted datasets, in hex: that of [`crate::model::Session`].
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Streams shorter than this are not worth cutting.
const CUT_MIN: u64 = 2000;

/// What is known of a snapshot.
pub struct Facts {
    /// In decimal.
    pub guid: String,
    /// Its files.
    pub entries: Entries,
}

impl Facts {
    /// What a mount of `site` shows of `dataset@snapshot`.
    pub fn of(site: &Site, dataset: &str, snapshot: &str) -> Result<Self> {
        let guid = site.ok(&format!("zfs get -Hp -o value guid {dataset}@{snapshot}"))?;
        let place = site.path(dataset).join(".zfs/snapshot").join(snapshot);
        let entries = mounted::walk(&place).with_context(|| place.display().to_string())?;
        Ok(Self {
            guid: guid.trim().to_owned(),
            entries: without_root_number(entries),
        })
    }

    /// Must be what `other` has.
    pub fn same(&self, other: &Self) -> Result<()> {
        ensure!(
            self.guid == other.guid,
            "guid {}, not {}",
            other.guid,
            self.guid
        );
        let other = without_root_number(other.entries.clone());
        crate::site::same(&self.entries, &other)
    }
}

/// A snapshot's root has a number of its own.
fn without_root_number(mut entries: Entries) -> Entries {
    if let Some(root) = entries.get_mut(".") {
        root.remove("ino");
    }
    entries
}

fn limits() -> Limits {
    Limits {
        time: Duration::from_secs(300),
        ..Limits::default()
    }
}

/// The stream of `zfs send` with these words.
pub fn send(site: &Site, words: &str) -> Result<Vec<u8>> {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let arguments: Vec<&str> = ["send"].into_iter().chain(arguments).collect();
    let command = site.cenote().command("zfs", &arguments);
    Ok(program::run(command, b"", limits())?.success()?.stdout)
}

/// Runs `zfs receive` with these words.
pub fn receive(site: &Site, words: &str, stream: &[u8]) -> Result<Outcome> {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let arguments: Vec<&str> = ["receive"].into_iter().chain(arguments).collect();
    program::run(site.cenote().command("zfs", &arguments), stream, limits())
}

/// A stream's way.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub from: &'a Site,
    pub to: &'a Site,
    /// Options of the receive.
    pub words: &'a str,
    pub target: &'a str,
    /// A file with the key of whatever is encrypted.
    pub key: &'a str,
}

/// Receives a stream in pieces: it is cut, resumed by the receiver's token, and cut again, `cuts`
/// times; with `kills` daemons are killed in between. Returns how often there was a token.
pub fn receive_in_pieces(
    way: Way<'_>,
    mut stream: Vec<u8>,
    (cuts, kills): (u64, bool),
    random: &mut Random,
) -> Result<u64> {
    let words = format!("-s {} {}", way.words, way.target);
    let mut resumed = 0;
    for _ in 0..cuts {
        if (stream.len() as u64) < CUT_MIN {
            break;
        }
        let at = random.below(stream.len() as u64) as usize;
        let place = format!("cut at {at} of {}", stream.len());
        let outcome = receive(way.to, &words, &stream[..at])?;
        let is_refused = outcome.code == Some(1) && !outcome.has_crashed();
        ensure!(is_refused, "{place}: {}", outcome.report());
        if kills && random.below(2) == 0 {
            way.to.kill()?;
            restart(way.to, way.key)?;
        }
        let Some(token) = token(way.to, way.target)? else {
            continue;
        };
        stream = send(way.from, &format!("-t {token}")).context(place)?;
        resumed += 1;
    }
    receive(way.to, &words, &stream)?.success()?;
    Ok(resumed)
}

/// Starts a daemon in place of one that was killed, and opens what that had open.
pub fn restart(site: &Site, key: &str) -> Result<()> {
    site.start()?;
    site.import("-f")?;
    let text = site.ok("zfs list -H -t filesystem -o name,keystatus,encryptionroot")?;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[1] == "unavailable" && fields[0] == fields[2] {
            site.ok(&format!("zfs load-key -L file://{key} {}", fields[0]))?;
        }
    }
    site.ok("zfs mount -a")?;
    Ok(())
}

/// Mounts a dataset, and loads its key if necessary.
pub fn open(site: &Site, dataset: &str, key: &str) -> Result<()> {
    let text = site.ok(&format!("zfs get -H -o value keystatus,mounted {dataset}"))?;
    let values: Vec<&str> = text.lines().collect();
    if values[0] == "unavailable" {
        site.ok(&format!("zfs load-key -L file://{key} {dataset}"))?;
    }
    if values[1] == "no" {
        site.ok(&format!("zfs mount {dataset}"))?;
    }
    Ok(())
}

/// The token for resuming an interrupted stream.
pub fn token(site: &Site, dataset: &str) -> Result<Option<String>> {
    let line = format!("zfs get -H -o value receive_resume_token {dataset}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let outcome = site.cenote().run(words[0], &words[1..])?;
    let text = outcome.text().trim().to_owned();
    let is_there = outcome.code == Some(0) && text != "-" && !text.is_empty();
    Ok(is_there.then_some(text))
}
