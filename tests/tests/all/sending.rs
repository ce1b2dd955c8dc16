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
    trees(&site)?;
    heads(&site)?;
    saved(&site)?;
    files(&site)?;
    raw_file(&site)?;
    by_openzfs(&site, &full, &step)?;
    site.finish()
}

/// A receive that was cut is resumed by its token.
fn resumed(site: &Site) -> Result<()> {
    let whole = sent(site, "tank/fs@two")?;
    ensure!(receive(site, "-s tank/resumed", &whole[..whole.len() / 2])? == Some(1));
    let token = value(site, "receive_resume_token", "tank/resumed")?;
    let told = site.ok(&format!("zfs send -nvt {token}"))?;
    ensure!(
        told.starts_with("resume token contents:\nnvlist version: 0\n"),
        "{told}"
    );
    recursive_beside_a_partial_receive(site)?;
    let rest = sent(site, &format!("-t {token}"))?;
    ensure!(rest.len() < whole.len());
    ensure!(receive(site, "tank/resumed", &rest)? == Some(0));
    as_sent(site, "tank/resumed")
}

/// One receive that was cut, anywhere in a pool, kept all recursive snapshots above it from being
/// made: "dataset is busy". Backups by cron stopped until someone resumed the receive.
fn recursive_beside_a_partial_receive(site: &Site) -> Result<()> {
    site.ok("zfs snapshot -r tank@beside")?;
    site.ok("zfs list tank/fs/below@beside tank/volume@beside")?;
    site.fails("zfs list tank/resumed@beside")?;
    for named in ["", "-r "] {
        let refused = site.fails(&format!("zfs snapshot {named}tank/resumed@named"))?;
        ensure!(
            refused.stderr.contains("dataset is busy"),
            "{}",
            refused.stderr
        );
    }
    for line in [
        "zfs hold -r keep tank@beside",
        "zfs release -r keep tank@beside",
        "zfs rename -r tank@beside tank@later",
        "zfs bookmark -r tank@later tank#later",
    ] {
        site.ok(line)?;
    }
    let words = ["send", "-nRs", "tank@later"];
    let skipping = site.cenote().run("zfs", &words)?.success()?;
    let warning = "skipping dataset tank/resumed: snapshot '@later' does not exist";
    ensure!(skipping.stderr.contains(warning), "{}", skipping.report());
    site.ok("zfs destroy -r tank@later")?;
    let left = site.ok("zfs list -H -r -t snapshot,bookmark -o name tank")?;
    ensure!(left.contains("tank/fs/below#later"), "{left}");
    ensure!(!left.contains("@later"), "{left}");
    for dataset in left.lines().filter(|name| name.ends_with("#later")) {
        site.ok(&format!("zfs destroy {dataset}"))?;
    }
    Ok(())
}

/// Datasets that are left out of a tree: by name, or because they lack the snapshot.
fn trees(site: &Site) -> Result<()> {
    let without = sent(site, "-R --exclude tank/fs/below tank/fs@two")?;
    ensure!(receive(site, "tank/without", &without)? == Some(0));
    as_sent(site, "tank/without")?;
    site.fails("zfs list tank/without/below")?;
    site.ok("zfs snapshot tank/fs@alone")?;
    let missing = site.fails("zfs send -R tank/fs@alone")?;
    let words = "snapshot tank/fs/below@alone does not exist";
    ensure!(missing.stderr.contains(words), "{}", missing.stderr);
    let skipped = sent(site, "-R --skip-missing tank/fs@alone")?;
    ensure!(receive(site, "tank/skipped", &skipped)? == Some(0));
    as_sent(site, "tank/skipped")?;
    site.fails("zfs list tank/skipped/below")?;
    site.ok("zfs destroy tank/fs@alone").map(drop)
}

/// A file system that is not mounted and a volume go as they are, also since a bookmark.
fn heads(site: &Site) -> Result<()> {
    site.ok("zfs create tank/head")?;
    fs::write(site.path("tank/head").join("file"), vec![5; 200_000])?;
    site.ok("zfs snapshot tank/head@one")?;
    site.ok("zfs bookmark tank/head@one tank/head#one")?;
    fs::write(site.path("tank/head").join("late"), "late")?;
    let busy = site.fails("zfs send tank/head")?;
    ensure!(
        busy.stderr
            .contains("target is busy; if a filesystem, it must not be mounted"),
        "{}",
        busy.stderr
    );
    let expected = site.walk("tank/head")?;
    site.ok("zfs unmount tank/head")?;
    let packaged = site.fails("zfs send -R tank/head")?;
    ensure!(
        packaged
            .stderr
            .contains("Unsupported flag with filesystem or bookmark")
    );
    let full = sent(site, "tank/head")?;
    ensure!(receive(site, "tank/heads@now", &full)? == Some(0));
    same(&expected, &site.walk("tank/heads")?)?;
    ensure!(receive(site, "tank/stepped", &sent(site, "tank/head@one")?)? == Some(0));
    let step = sent(site, "-i #one tank/head")?;
    ensure!(
        step.len() < full.len() / 2,
        "{} of {}",
        step.len(),
        full.len()
    );
    // What has a name of its own gets the one that stands for a head.
    ensure!(receive(site, "tank/stepped", &step)? == Some(0));
    same(&expected, &site.walk("tank/stepped")?)?;
    head_resumed(site, &full, &expected)?;
    site.ok("zfs mount tank/head")?;
    ensure!(!sent(site, "tank/volume")?.is_empty());
    site.ok("zfs destroy -r tank/head")?;
    Ok(())
}

/// The stream of a head that was cut is resumed as long as the head is as it was. A token named
/// only the head, and the rest was refused always; with the head's own guid it would be the rest of
/// whatever is there now.
fn head_resumed(site: &Site, full: &[u8], expected: &Entries) -> Result<()> {
    let cut = |target: &str| -> Result<String> {
        let part = &full[..full.len() * 2 / 3];
        ensure!(receive(site, &format!("-s tank/{target}@now"), part)? == Some(1));
        value(site, "receive_resume_token", &format!("tank/{target}"))
    };
    let rest = sent(site, &format!("-t {}", cut("cut")?))?;
    ensure!(rest.len() < full.len() && receive(site, "tank/cut@now", &rest)? == Some(0));
    same(expected, &site.walk("tank/cut")?)?;
    let token = cut("changed")?;
    site.ok("zfs mount tank/head")?;
    let busy = site.fails(&format!("zfs send -t {token}"))?.report();
    ensure!(busy.contains("target is busy"), "{busy}");
    let late = site.path("tank/head").join("late");
    fs::write(&late, "LATE")?;
    site.ok("zfs unmount tank/head")?;
    let refused = site.fails(&format!("zfs send -t {token}"))?.report();
    let words = "cannot resume send: 'tank/head' has changed since the initial send";
    ensure!(refused.contains(words), "{refused}");
    site.ok("zfs rename tank/head tank/elsewhere")?;
    let gone = site.fails(&format!("zfs send -t {token}"))?.report();
    let words = "'tank/head@--head--' used in the initial send no longer exists";
    ensure!(gone.contains(words), "{gone}");
    site.ok("zfs rename tank/elsewhere tank/head")?;
    site.ok("zfs receive -A tank/changed").map(drop)
}

/// A partly received snapshot is sent to another place, and completed there.
fn saved(site: &Site) -> Result<()> {
    let whole = sent(site, "tank/fs@two")?;
    ensure!(receive(site, "-s tank/part", &whole[..whole.len() / 2])? == Some(1));
    let part = sent(site, "--saved tank/part")?;
    ensure!(receive(site, "-s tank/elsewhere", &part)? == Some(1));
    let token = value(site, "receive_resume_token", "tank/elsewhere")?;
    let rest = sent(site, &format!("-t {token}"))?;
    ensure!(rest.len() < whole.len());
    ensure!(receive(site, "tank/elsewhere", &rest)? == Some(0));
    as_sent(site, "tank/elsewhere")?;
    let none = site.fails("zfs send -S tank/fs")?;
    ensure!(
        none.stderr
            .contains("does not have any resumable receive state")
    );
    let token = value(site, "receive_resume_token", "tank/part")?;
    let rest = sent(site, &format!("-t {token}"))?;
    ensure!(receive(site, "tank/part", &rest)? == Some(0));
    as_sent(site, "tank/part")
}

/// The same command resumes a stream in a file, on both sides.
fn files(site: &Site) -> Result<()> {
    let directory = site.cenote().subdirectory("streams")?;
    let to = directory.display();
    site.ok(&format!("cenote send --to {to} tank/fs@one"))?;
    let full = directory.join("tank%fs@one.zstream");
    let plain = sent(site, "tank/fs@one")?;
    ensure!(fs::read(&full)? == plain, "the file has another stream");
    site.fails(&format!("cenote send --to {to} tank/fs@one"))?;
    // What an interrupted one leaves: the rest comes with a token, and nothing shows.
    let partial = directory.join("tank%fs@one.zstream.partial");
    for kept in [plain.len() * 2 / 3, plain.len() / 3, 100] {
        fs::remove_file(&full)?;
        fs::write(&partial, &plain[..kept])?;
        let done = site
            .cenote()
            .run("cenote", &["send", "--to", &to.to_string(), "tank/fs@one"])?;
        ensure!(done.code == Some(0), "{}", done.report());
        let is_resumed = done.stderr.contains("resuming at");
        ensure!(is_resumed == (kept > 100), "{}", done.stderr);
        ensure!(fs::read(&full)? == plain && !partial.exists());
    }
    fs::write(directory.join("other.partial"), &plain[..plain.len() / 2])?;
    let other = site.fails(&format!("cenote send --to {to}/other tank/fs@two"))?;
    ensure!(
        other.stderr.contains("this is a stream of 'tank/fs@one'"),
        "{}",
        other.stderr
    );
    site.ok(&format!("cenote send --to {to} -i @one tank/fs@two"))?;
    // The first was received in part.
    ensure!(receive(site, "-s tank/filed", &plain[..plain.len() / 2])? == Some(1));
    let received = site.cenote().run(
        "cenote",
        &["receive", "--from", &to.to_string(), "tank/filed"],
    )?;
    ensure!(received.code == Some(0), "{}", received.report());
    ensure!(
        received.stderr.contains("resuming the receive of"),
        "{}",
        received.stderr
    );
    as_sent(site, "tank/filed")
}

/// The same for a raw stream: the object at which it resumes needs its block of dnodes.
fn raw_file(site: &Site) -> Result<()> {
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let (to, key) = (site.cenote().directory().join("raw"), key.display());
    let encryption =
        format!("-o encryption=on -o keyformat=passphrase -o keylocation=file://{key}");
    site.ok(&format!("zfs create {encryption} tank/secret"))?;
    for number in 0..20_usize {
        let file = site.path("tank/secret").join(number.to_string());
        fs::write(file, vec![number as u8; number * 7000])?;
    }
    site.ok("zfs snapshot tank/secret@one")?;
    let whole = sent(site, "-w tank/secret@one")?;
    fs::write(to.with_extension("partial"), &whole[..whole.len() / 2])?;
    let to = to.display();
    site.ok(&format!("cenote send -w --to {to} tank/secret@one"))?;
    ensure!(fs::read(to.to_string())? == whole);
    site.ok("zfs destroy -r tank/secret").map(drop)
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
        "{size} bytes were estimated, of {exact}"
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
