//! Sending and receiving together: random histories, trees, cuts, changed streams, and blocks that
//! a stream heals. Each is a small run of `cargo xtask replicate`, or by hand.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::replicate::{
    self, CutOptions, MutantOptions, Options, TreeOptions, receive, send,
};
use cenote_tests::site::Site;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The key of an encrypted dataset, in hex.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn histories_are_equal_on_all_sides() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = Options {
        seed: 1,
        steps: 3,
        operations: 60,
        sources: 1,
    };
    let report = replicate::run(&options)?;
    ensure!(report.full > 0 && report.increments > 0, "{report:?}");
    Ok(())
}

#[test]
fn trees_follow_what_was_done_to_them() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = TreeOptions {
        seed: 1,
        packages: 4,
        changes: 10,
    };
    let report = replicate::run_tree(&options)?;
    ensure!(report.packages == 4, "{report:?}");
    Ok(())
}

/// A clone of an old snapshot was promoted between two packages. Its snapshots existed here, those
/// of its origin. It arrived complete nevertheless, and the origin did not become a clone of it.
#[test]
fn a_clone_promoted_between_packages_is_no_new_dataset() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "")?;
    let all = |lines: &[&str]| lines.iter().try_for_each(|line| site.ok(line).map(drop));
    let send = |arguments: &str| {
        let words: Vec<&str> = ["send"].into_iter().chain(arguments.split(' ')).collect();
        let sent = site.cenote().run("zfs", &words)?.success()?;
        let words = ["receive", "-F", "tank/copy"];
        let received = site.cenote().run_with_input("zfs", &words, &sent.stdout)?;
        received.success()
    };
    all(&["zfs create tank/tree", "zfs create tank/tree/a"])?;
    fs::write(site.path("tank/tree").join("file"), contents())?;
    all(&["zfs snapshot tank/tree@old", "zfs snapshot -r tank/tree@p0"])?;
    send("-R tank/tree@p0")?;
    all(&[
        "zfs clone tank/tree@old tank/tree/a/c",
        "zfs promote tank/tree/a/c",
        "zfs rename tank/tree/a/c@old tank/tree/a/c@renamed",
        "zfs snapshot -r tank/tree@p1",
    ])?;
    send("-R -I @p0 tank/tree@p1")?;
    let list = |top: &str| -> Result<String> {
        let line = format!("zfs list -Hp -r -t all -o name,guid,origin,mounted {top}");
        let mut lines = Vec::new();
        for line in site.ok(&line)?.lines() {
            let line = line.replace(top, "TOP");
            let fields: Vec<&str> = line.split('\t').collect();
            let guid = if fields[0].contains('@') {
                fields[1]
            } else {
                "-"
            };
            lines.push(format!("{} {guid} {} {}", fields[0], fields[2], fields[3]));
        }
        Ok(lines.join("\n"))
    };
    let (ours, theirs) = (list("tank/tree")?, list("tank/copy")?);
    ensure!(ours == theirs, "{ours}\n{theirs}");
    let file = site.path("tank/copy/a/c").join("file");
    ensure!(fs::read(file)? == contents());
    site.finish()
}

#[test]
fn streams_are_gone_on_with_wherever_they_are_cut() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = CutOptions {
        seed: 1,
        within: 2,
        stride: 24,
    };
    let report = replicate::run_cuts(&options)?;
    ensure!(report.resumed > 0 && report.kills > 0, "{report:?}");
    Ok(())
}

#[test]
fn changed_streams_do_no_harm() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = MutantOptions {
        seed: 1,
        mutants: 200,
        keep: std::env::temp_dir().join("cenote-mutant.stream"),
    };
    let report = replicate::run_mutants(&options)?;
    ensure!(
        report.refused > report.damaged && report.damaged > 0,
        "{report:?}"
    );
    Ok(())
}

/// The place of each copy of a file's first block.
fn first_block(site: &Site, dataset: &str, number: u64) -> Result<u64> {
    let listed = site.ok(&format!("cenote inspect blocks -j {dataset} {number}"))?;
    for line in listed.lines() {
        let block: Value = serde_json::from_str(line)?;
        if block["level"] == 0 {
            let copies = block["copies"].as_array().context("its copies")?;
            return copies[0]["offset"].as_u64().context("an offset");
        }
    }
    anyhow::bail!("no block: {listed}")
}

/// A file whose blocks compress to half their size.
fn contents() -> Vec<u8> {
    let mut contents = vec![7; 147 * 2048];
    for (seed, half) in (0..).zip(contents.chunks_mut(2048)) {
        Random::new(seed).fill(&mut half[..1024]);
    }
    contents
}

#[test]
fn a_stream_heals_its_snapshot() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=lz4")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, KEY)?;
    let encrypted = format!(
        "-o encryption=on -o keyformat=hex -o keylocation=file://{}",
        key.display()
    );
    let contents = contents();
    let (mut streams, mut spoiled) = (Vec::new(), Vec::new());
    for (dataset, made_with, flags) in [
        ("tank/plain", "", ""),
        ("tank/packed", "-o compression=zstd-6", "-c"),
        ("tank/raw", encrypted.as_str(), "-w"),
    ] {
        site.ok(&format!("zfs create {made_with} {dataset}"))?;
        let file = site.path(dataset).join("file");
        fs::write(&file, &contents)?;
        site.ok(&format!("zfs snapshot {dataset}@a"))?;
        streams.push((dataset, send(&site, &format!("{flags} {dataset}@a"))?));
        let place = first_block(&site, dataset, fs::metadata(&file)?.ino())?;
        spoiled.push((place, [0x55; 512]));
    }
    site.export()?;
    site.exchange(&spoiled)?;
    site.import("-l")?;
    let file = |dataset: &str| site.path(dataset).join("file");
    for (dataset, stream) in &streams {
        ensure!(fs::read(file(dataset)).is_err(), "{dataset} is not damaged");
        let other = receive(&site, "-c tank/plain@a", &streams[1].1)?;
        ensure!(
            other.report().contains("is not the snapshot"),
            "{}",
            other.report()
        );
        let outcome = receive(&site, &format!("-c -v {dataset}@a"), stream)?.success()?;
        let said = outcome.text();
        ensure!(said.contains("healed 1 of 1 damaged blocks"), "{said}");
        ensure!(fs::read(file(dataset))? == contents, "{dataset}");
        let again = receive(&site, &format!("-c -v {dataset}@a"), stream)?.success()?;
        ensure!(again.text().contains("healed 0 of 0"), "{}", again.text());
    }
    // Each try to read counted an error, and the device may be degraded for too many.
    site.ok("zpool clear tank")?;
    site.finish()
}

#[test]
fn compressed_blocks_are_stored_as_they_come() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=gzip-9")?;
    site.ok("zfs create tank/source")?;
    let contents = contents();
    fs::write(site.path("tank/source").join("file"), &contents)?;
    site.ok("zfs snapshot tank/source@a")?;
    let stream = send(&site, "-c tank/source@a")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, KEY)?;
    let encrypted = format!(
        "zfs create -o encryption=on -o keyformat=hex -o keylocation=file://{} tank/enc",
        key.display()
    );
    site.ok(&encrypted)?;
    for target in ["tank/copy", "tank/enc/copy"] {
        receive(&site, &format!("-o compression=off {target}"), &stream)?.success()?;
        ensure!(
            fs::read(site.path(target).join("file"))? == contents,
            "{target}"
        );
        let sizes = site.ok(&format!("zfs get -Hp -o value refer,lrefer {target}"))?;
        let sizes: Vec<u64> = sizes.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(sizes[0] * 3 < sizes[1] * 2, "{target} takes {sizes:?}");
    }
    // What was stored is what was sent.
    site.ok("zfs snapshot tank/copy@again")?;
    let again = send(&site, "-c tank/copy@a")?;
    ensure!(
        again.len() == stream.len(),
        "{} and {}",
        again.len(),
        stream.len()
    );
    site.finish()
}
