//! `zfs send`: what it sends is received by us and by OpenZFS, and is the same there.

use anyhow::{Context, Result, ensure};
use cenote_tests::manifest::Entries;
use cenote_tests::referee;
use cenote_tests::site::{Site, same};
use std::fs;

/// The stream that a command line of `zfs send` writes.
fn sent(site: &Site, arguments: &str) -> Result<Vec<u8>> {
    let words: Vec<&str> = ["send"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    let outcome = site.cenote().run("zfs", &words)?;
    ensure!(outcome.code == Some(0), "{}", outcome.report());
    Ok(outcome.stdout)
}

/// Receives a stream; with `-s` it may be cut.
fn receive(site: &Site, arguments: &str, stream: &[u8]) -> Result<Option<i32>> {
    let words: Vec<&str> = ["receive"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    Ok(site.cenote().run_with_input("zfs", &words, stream)?.code)
}

fn value(site: &Site, property: &str, dataset: &str) -> Result<String> {
    let line = format!("zfs get -Hp -o value {property} {dataset}");
    Ok(site.ok(&line)?.trim().to_owned())
}

/// A file system with two snapshots and a bookmark, a child of it, and a volume.
fn make(site: &Site) -> Result<()> {
    for name in ["fs", "fs/below"] {
        site.ok(&format!("zfs create tank/{name}"))?;
    }
    site.ok("zfs create -V 4M tank/volume")?;
    let root = site.path("tank/fs");
    fs::create_dir(root.join("directory"))?;
    for number in 0..40_usize {
        let bytes: Vec<u8> = (0..number * 1777).map(|at| (at * number) as u8).collect();
        fs::write(root.join(format!("directory/{number}")), bytes)?;
    }
    fs::write(site.path("tank/fs/below").join("inner"), "one")?;
    site.ok("zfs snapshot -r tank/fs@one")?;
    site.ok("zfs snapshot tank/volume@one")?;
    site.ok("zfs bookmark tank/fs@one tank/fs#one")?;
    for number in (0..40).step_by(3) {
        fs::remove_file(root.join(format!("directory/{number}")))?;
    }
    fs::write(root.join("late"), vec![9; 300_000])?;
    site.ok("zfs snapshot -r tank/fs@two")?;
    Ok(())
}

/// Compares what was received with what was sent, but for the place where a child is mounted.
fn as_sent(site: &Site, received: &str) -> Result<()> {
    let own = |dataset: &str| -> Result<Entries> {
        let mut entries = site.walk(dataset)?;
        entries.retain(|path, _| !path.starts_with("below"));
        Ok(entries)
    };
    same(&own("tank/fs")?, &own(received)?).with_context(|| received.to_owned())
}

#[test]
fn what_is_sent_is_the_same_where_it_is_received() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 256, "")?;
    make(&site)?;
    let (full, step) = (
        sent(&site, "tank/fs@one")?,
        sent(&site, "-i #one tank/fs@two")?,
    );
    let compressed = sent(&site, "-Lec -i @one tank/fs@two")?;
    ensure!(receive(&site, "tank/copy", &full)? == Some(0));
    ensure!(receive(&site, "tank/copy", &compressed)? == Some(0));
    as_sent(&site, "tank/copy")?;
    ensure!(value(&site, "guid", "tank/fs@two")? == value(&site, "guid", "tank/copy@two")?);
    let tree = sent(&site, "-R tank/fs@two")?;
    ensure!(receive(&site, "tank/tree", &tree)? == Some(0));
    as_sent(&site, "tank/tree")?;
    same(&site.walk("tank/fs/below")?, &site.walk("tank/tree/below")?)?;
    let volume = sent(&site, "tank/volume@one")?;
    ensure!(receive(&site, "tank/volume2", &volume)? == Some(0));
    ensure!(value(&site, "volsize", "tank/volume2")? == (4 << 20).to_string());
    resumed(&site)?;
    refused_and_estimated(&site)?;
    by_openzfs(&site, &full, &step)?;
    site.finish()
}

/// A receive that was cut is gone on with by its token.
fn resumed(site: &Site) -> Result<()> {
    let whole = sent(site, "tank/fs@two")?;
    ensure!(receive(site, "-s tank/resumed", &whole[..whole.len() / 2])? == Some(1));
    let token = value(site, "receive_resume_token", "tank/resumed")?;
    let told = site.ok(&format!("zfs send -nvt {token}"))?;
    ensure!(
        told.starts_with("resume token contents:\nnvlist version: 0\n"),
        "{told}"
    );
    let rest = sent(site, &format!("-t {token}"))?;
    ensure!(rest.len() < whole.len());
    ensure!(receive(site, "tank/resumed", &rest)? == Some(0));
    as_sent(site, "tank/resumed")
}

fn refused_and_estimated(site: &Site) -> Result<()> {
    let cases = [
        (
            "send -i @two tank/fs@one",
            "not an earlier snapshot from the same fs",
        ),
        (
            "send -i @none tank/fs@two",
            "incremental source (tank/fs@none) does not exist",
        ),
        (
            "send tank/fs@none",
            "cannot open 'tank/fs@none': dataset does not exist",
        ),
        (
            "send -s tank/fs@two",
            "skip-missing flag can only be used in conjunction",
        ),
    ];
    for (line, words) in cases {
        let outcome = site.fails(&format!("zfs {line}"))?;
        ensure!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
    }
    let line = site.ok("zfs send -nP -i @one tank/fs@two")?;
    let size = line
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("size\t"));
    let size: usize = size.context("no size")?.parse()?;
    let exact = sent(site, "-i @one tank/fs@two")?.len();
    ensure!(
        size.abs_diff(exact) < exact / 2,
        "{size} bytes were told of {exact}"
    );
    ensure!(
        line.starts_with("incremental\ttank/fs@one\ttank/fs@two\t"),
        "{line}"
    );
    Ok(())
}

/// OpenZFS receives the streams into the same pool.
fn by_openzfs(site: &Site, full: &[u8], step: &[u8]) -> Result<()> {
    site.export()?;
    let directory = site.devices().to_str().context("a path")?;
    for (name, stream) in [("full", full), ("step", step)] {
        let file = site.devices().with_extension(name);
        fs::write(&file, stream)?;
        let arguments = [
            "receive",
            directory,
            "tank/theirs",
            file.to_str().context("a path")?,
        ];
        match referee::run(&arguments)? {
            Some(received) => received.context(name)?,
            None => return site.import(""),
        };
    }
    site.import("")?;
    as_sent(site, "tank/theirs")
}
