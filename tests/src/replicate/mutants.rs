//! Streams that were changed: each must be refused, or received without harm to the pool.
//!
//! Half of the mutants are changed as on a bad line, so their checksums are wrong. The others have
//! correct checksums, as from a malicious sender: records that contradict each other, sizes that
//! make no sense, payloads that do not decompress. Such a stream may be received if it could have
//! been sent. The daemon must survive and reply, and refused streams must leave nothing behind. The
//! pool is verified sometimes, and at the end.

use super::frames::{Frame, join, split};
use super::link;
use crate::model::Session;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use cenote_ondisk::stream::{ByteOrder, Record, kind};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Mutants between two looks at the pool.
const VERIFY_INTERVAL: u64 = 500;
/// Operations on the file system before each snapshot.
const OPERATIONS: u64 = 60;
/// Headers have numbers of these many bytes.
const FIELDS: [usize; 4] = [1, 2, 4, 8];

/// A run.
#[derive(Clone, Debug)]
pub struct MutantOptions {
    /// Chooses everything.
    pub seed: u64,
    /// How many there are.
    pub mutants: u64,
    /// Where the first mutant that does harm is kept.
    pub keep: PathBuf,
}

/// What became of the mutants.
#[derive(Clone, Copy, Debug, Default)]
pub struct MutantReport {
    /// Refused.
    pub refused: u64,
    /// Received: a sender could have sent them.
    pub received: u64,
    /// With wrong checksums, or cut.
    pub damaged: u64,
}

/// A stream that mutants are made of.
struct Parent {
    name: String,
    frames: Vec<Frame>,
    is_increment: bool,
}

/// Receives mutants.
pub fn run_mutants(options: &MutantOptions) -> Result<MutantReport> {
    let mut random = Random::new(options.seed);
    let site = Arc::new(Site::create("single", 1024, "-O canmount=off")?);
    let parents = parents(&site, &mut random)?;
    let mut report = MutantReport::default();
    let before = listing(&site)?;
    for number in 1..=options.mutants {
        let parent = random.choose(&parents);
        let (stream, what, is_damaged) = mutate(parent, &mut random);
        report.damaged += u64::from(is_damaged);
        let place = || format!("mutant {number} of {}: {what}", parent.name);
        let tried = receive(&site, parent, &stream, is_damaged, &mut report)
            .and_then(|()| match listing(&site)? {
                after if after == before => Ok(()),
                after => anyhow::bail!("left behind:\n{after}\nbefore:\n{before}"),
            })
            .and_then(|()| match number.is_multiple_of(VERIFY_INTERVAL) {
                true => site.ok("cenote verify --quiet tank").map(|_| ()),
                false => Ok(()),
            });
        if let Err(error) = tried {
            fs::write(&options.keep, &stream)?;
            let kept = options.keep.display();
            return Err(error.context(format!("{}; kept as {kept}", place())));
        }
    }
    let site = Arc::into_inner(site).context("the only reference to the site")?;
    site.ok("cenote verify --quiet tank")?;
    site.finish()?;
    Ok(report)
}

/// Everything that is listed, without the sums that change by themselves.
fn listing(site: &Site) -> Result<String> {
    site.ok("zfs list -Hp -r -t all -o name,guid,receive_resume_token tank")
}

/// Receives one mutant, and destroys the result if it was received.
fn receive(
    site: &Site,
    parent: &Parent,
    stream: &[u8],
    is_damaged: bool,
    report: &mut MutantReport,
) -> Result<()> {
    let words = match parent.is_increment {
        true => format!("-u -F {}", base_of(parent)),
        false => "-u tank/new".to_owned(),
    };
    let outcome = link::receive(site, &words, stream)?;
    ensure!(!outcome.has_crashed(), "{}", outcome.report());
    match outcome.code {
        Some(1) => {
            report.refused += 1;
            // What came of a package before the stream that is refused may stay.
            if parent.name.ends_with("package") {
                site.cenote().run("zfs", &["destroy", "-r", "tank/new"])?;
            }
        }
        Some(0) => {
            ensure!(!is_damaged, "a damaged stream was received");
            report.received += 1;
            match parent.is_increment {
                true => site.ok(&format!("zfs rollback -r {}@a", base_of(parent)))?,
                false => site.ok("zfs destroy -r tank/new")?,
            };
        }
        _ => anyhow::bail!("{}", outcome.report()),
    }
    Ok(())
}

fn base_of(parent: &Parent) -> String {
    format!(
        "tank/base-{}",
        parent.name.split('-').next().unwrap_or_default()
    )
}

/// Streams of all kinds; those that increments build upon are received.
fn parents(site: &Arc<Site>, random: &mut Random) -> Result<Vec<Parent>> {
    let mut parents = Vec::new();
    let key = site.cenote().directory().join("mutant-key");
    fs::write(&key, link::KEY)?;
    let encrypted = format!(
        "-o encryption=on -o keyformat=hex -o keylocation=file://{}",
        key.display()
    );
    for (kind, options, flags) in [
        ("plain", "-o compression=lz4", "-c -e -L"),
        (
            "expanded",
            "-o compression=zstd-1 -o recordsize=16K -o dnodesize=auto",
            "",
        ),
        ("raw", encrypted.as_str(), "-w"),
    ] {
        let dataset = format!("tank/source-{kind}");
        let seed = random.next_u64();
        site.ok(&format!("zfs create {options} {dataset}"))?;
        let mut session = Session::of(site, &dataset, options, Random::new(seed))?;
        session.avoid_embedded_spills();
        for snapshot in ["a", "b"] {
            session.work(OPERATIONS)?;
            site.ok(&format!("zfs snapshot {dataset}@{snapshot}"))?;
        }
        let base = format!("tank/base-{kind}");
        let full = link::send(site, &format!("{flags} {dataset}@a"))?;
        link::receive(site, &format!("-u {base}"), &full)?.success()?;
        let increment = link::send(site, &format!("{flags} -i @a {dataset}@b"))?;
        let package = link::send(site, &format!("{flags} -R {dataset}@b"))?;
        for (what, stream) in [
            ("full", full),
            ("increment", increment),
            ("package", package),
        ] {
            parents.push(Parent {
                name: format!("{kind}-{what}"),
                frames: split(&stream).with_context(|| format!("{kind} {what}"))?,
                is_increment: what == "increment",
            });
        }
    }
    Ok(parents)
}

/// A changed stream, what was done to it, and whether it cannot be taken for whole.
fn mutate(parent: &Parent, random: &mut Random) -> (Vec<u8>, String, bool) {
    if random.below(2) == 0 {
        let mut stream = join(&parent.frames, false);
        let at = random.index(stream.len());
        if random.below(3) == 0 {
            stream.truncate(at);
            return (stream, format!("cut at {at}"), true);
        }
        let bit = 1 << random.below(8);
        stream[at] ^= bit;
        // Records around the streams of a package are only partly covered by checksums.
        let is_noticed = !parent.name.ends_with("package");
        return (stream, format!("bit {bit} of byte {at}"), is_noticed);
    }
    let mut frames = parent.frames.clone();
    let mut what = String::new();
    for _ in 0..=random.below(3) {
        what.push_str(&change(&mut frames, random));
        what.push_str("; ");
    }
    (join(&frames, true), what, false)
}

/// Changes one record, or the order of records.
fn change(frames: &mut Vec<Frame>, random: &mut Random) -> String {
    let at = random.index(frames.len());
    let kind = frames[at].kind();
    match random.below(10) {
        0 => {
            frames.remove(at);
            if frames.is_empty() {
                frames.push(Frame {
                    header: [0; 312],
                    payload: Vec::new(),
                });
            }
            format!("record {at} (kind {kind}) left out")
        }
        1 => {
            let copy = frames[at].clone();
            frames.insert(random.index(frames.len()), copy);
            format!("record {at} (kind {kind}) once more")
        }
        2 => {
            let other = random.index(frames.len());
            frames.swap(at, other);
            format!("records {at} and {other} changed places")
        }
        3 | 4 if !frames[at].payload.is_empty() => {
            let byte = random.index(frames[at].payload.len());
            frames[at].payload[byte] = random.below(256) as u8;
            format!("byte {byte} of the payload of record {at} (kind {kind})")
        }
        _ => field(&mut frames[at], at, random),
    }
}

/// Changes a number of a header.
fn field(frame: &mut Frame, at: usize, random: &mut Random) -> String {
    let number = frame.kind();
    // Names and sums are less worth it.
    let end = if number == kind::BEGIN { 56 } else { 144 };
    let size = *random.choose(&FIELDS);
    let start = random.index(end / size) * size;
    let old = frame.header[start..start + size].to_vec();
    let value: u64 = match random.below(7) {
        0 => 0,
        1 => u64::MAX,
        2 => random.next_u64(),
        3 => 1 << random.below(64),
        4 => random.below(300),
        n => {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&old);
            let near = if n == 5 { 1 } else { 512 };
            u64::from_le_bytes(word).wrapping_add(near)
        }
    };
    frame.header[start..start + size].copy_from_slice(&value.to_le_bytes()[..size]);
    let length = Record::decode(&frame.header, ByteOrder::Little)
        .ok()
        .and_then(|(record, _)| record.payload_length().ok());
    if let Some(length) = length.filter(|_| random.below(2) == 0) {
        frame.payload.resize(length, 0);
    }
    format!("{size} bytes at {start} of record {at} (kind {number}) are {value:#x}")
}
