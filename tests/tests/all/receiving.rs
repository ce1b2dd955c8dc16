//! `zfs receive`: streams of OpenZFS into a pool of ours, compared with what OpenZFS says was sent,
//! and the pool judged by it.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Datasets;
use cenote_tests::program::Outcome;
use cenote_tests::site::Site;
use cenote_tests::{offline, streams};
use std::fs;

/// A stream, the dataset to receive it into, and the snapshots that are there afterwards: their
/// dataset here below the pool, that of the sender, and their short names.
type Case = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

const CASES: &[Case] = &[
    ("full", "fs", &[("fs", "fs", "a")]),
    (
        "incremental-I",
        "fs",
        &[("fs", "fs", "b"), ("fs", "fs", "c")],
    ),
    ("full", "jump", &[]),
    ("incremental-from-bookmark", "jump", &[("jump", "fs", "c")]),
    ("compressed", "compressed", &[("compressed", "fs", "b")]),
    ("embedded", "embedded", &[("embedded", "fs", "b")]),
    ("holds", "holds", &[("holds", "fs", "b")]),
    ("raw-clear", "clear", &[("clear", "fs", "c")]),
    ("compressed-embedded-large", "cel", &[("cel", "large", "a")]),
    ("large-blocks", "large", &[("large", "large", "a")]),
    ("split-large", "split", &[("split", "large", "a")]),
    ("decrypted", "decrypted", &[("decrypted", "enc", "a")]),
    ("large-dnode", "dn", &[("dn", "dn", "a")]),
    ("props", "props", &[("props", "repl", "3")]),
    ("zvol", "vol", &[("vol", "vol", "a")]),
    ("zvol-incremental", "vol", &[("vol", "vol", "b")]),
    ("raw-encrypted", "raw", &[("raw", "enc", "a")]),
    ("raw-encrypted-incremental", "raw", &[("raw", "enc", "b")]),
    ("zvol-raw", "rawvol", &[("rawvol", "vol", "b")]),
    (
        "replication",
        "repl",
        &[
            ("repl", "repl", "1"),
            ("repl", "repl", "3"),
            ("repl/child", "repl/child", "3"),
            ("repl/cl", "repl/cl", "3"),
        ],
    ),
    ("replication-incremental", "repl", &[("repl", "repl", "2")]),
];

/// Runs `zfs receive` with a stream.
fn receive(site: &Site, arguments: &str, stream: &[u8]) -> Result<Outcome> {
    let words: Vec<&str> = ["receive"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    site.cenote().run_with_input("zfs", &words, stream)
}

fn stream(name: &str) -> Result<Vec<u8>> {
    let path = streams::stream(name)?.context("the streams are here")?;
    Ok(fs::read(path)?)
}

/// What differs between the snapshots of `cases` and what was sent.
fn differences(site: &Site, golden: &Golden, cases: &[Case]) -> Result<Vec<String>> {
    let (pool, tolerance) = (
        &golden.manifest.pool,
        Tolerance::of(streams::KIND, &golden.manifest),
    );
    let mut wanted = Datasets::new();
    for (_, _, snapshots) in cases {
        for (here, sent, snapshot) in *snapshots {
            let sent = format!("{pool}/{sent}@{snapshot}");
            let manifest = &golden.manifest.datasets;
            let dataset = manifest.get(&sent).with_context(|| sent.clone())?;
            let mut dataset = dataset.clone();
            dataset.createtxg = None;
            wanted.insert(format!("tank/{here}@{snapshot}"), dataset);
        }
    }
    // The key of the encrypted dataset opens its raw copy.
    let keys = offline::options(site.cenote(), golden)?;
    let options: Vec<String> = keys
        .iter()
        .filter(|_| wanted.contains_key("tank/raw@a"))
        .map(|option| option.replace(&format!("{pool}/enc="), "tank/raw="))
        .collect();
    let mut found = offline::read_all(site.cenote(), golden, site.devices(), &options, &wanted)?;
    // A snapshot's root has the snapshot's own number.
    for dataset in wanted.values_mut().chain(found.values_mut()) {
        let root = dataset.entries.as_mut().and_then(|all| all.get_mut("."));
        root.map(|root| root.remove("ino"));
    }
    Ok(compare::datasets(&wanted, &found, &tolerance))
}

#[test]
fn streams_of_openzfs_are_received() -> Result<()> {
    let Some(golden) = Golden::find(streams::KIND)? else {
        return Ok(());
    };
    let site = Site::create("single", 512, "-O mountpoint=none")?;
    for (name, target, snapshots) in CASES {
        let outcome = receive(&site, &format!("tank/{target}"), &stream(name)?)?;
        outcome.success().with_context(|| (*name).to_owned())?;
        for (here, sent, snapshot) in *snapshots {
            let guid = site.ok(&format!("zfs get -Hp -o value guid tank/{here}@{snapshot}"))?;
            let sent = format!("{}/{sent}@{snapshot}", golden.manifest.pool);
            let wanted = &golden.manifest.datasets[&sent].guid;
            ensure!(wanted.as_deref() == Some(guid.trim()), "{sent}: {guid}");
        }
    }
    site.export()?;
    let differences = differences(&site, &golden, CASES)?;
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    site.judge()
}

/// The token for resuming a stream; `-` if none was cut.
fn token(site: &Site, dataset: &str) -> Result<String> {
    let line = format!("zfs get -H -o value receive_resume_token {dataset}");
    Ok(site.ok(&line)?.trim().to_owned())
}

#[test]
fn streams_that_were_cut_are_gone_on_with() -> Result<()> {
    let Some(golden) = Golden::find(streams::KIND)? else {
        return Ok(());
    };
    let site = Site::create("single", 512, "-O mountpoint=none")?;
    let (part1, part2) = (stream("resume-part1")?, stream("resume-part2")?);
    let outcome = receive(&site, "-s tank/fs", &part1)?;
    ensure!(outcome.code == Some(1), "{}", outcome.report());
    let token_of_fs = token(&site, "tank/fs")?;
    let said = outcome.report();
    ensure!(
        said.contains("Partially received snapshot is saved."),
        "{said}"
    );
    ensure!(
        said.contains(&format!("    zfs send -t {token_of_fs}")),
        "{said}"
    );
    // Where OpenZFS stopped with the same bytes.
    let state = &golden.manifest.document["resume_state"]["receive_resume_token"];
    let state = state.as_str().context("OpenZFS's token")?;
    let shown = |token: &str| site.ok(&format!("cenote zstream token {token}"));
    let (ours, theirs) = (shown(&token_of_fs)?, shown(state)?);
    ensure!(ours == theirs, "{ours}{theirs}");
    let refused = receive(&site, "tank/fs", &stream("full")?)?.report();
    ensure!(
        refused.contains("contains partially-complete state"),
        "{refused}"
    );
    receive(&site, "-s tank/fs", &part2)?.success()?;
    ensure!(token(&site, "tank/fs")? == "-");
    // Another cut receive: without `-s` nothing of it is left; with `-s` it can be abandoned.
    let cut = &stream("full")?[..500_000];
    ensure!(
        receive(&site, "tank/none", cut)?
            .report()
            .contains("incomplete stream")
    );
    ensure!(
        site.fails("zfs list tank/none")?
            .report()
            .contains("does not exist")
    );
    receive(&site, "-s tank/none", cut)?;
    site.ok("zfs receive -A tank/none")?;
    site.fails("zfs list tank/none")?;
    let nothing = site.fails("zfs receive -A tank/fs")?.report();
    ensure!(nothing.contains("does not have any resumable receive state to abort"));
    // An increment, into the hidden child, over the death of the daemon.
    let increment = stream("incremental-i")?;
    receive(&site, "-s tank/fs", &increment[..600_000])?;
    ensure!(token(&site, "tank/fs")? != "-");
    site.crash()?;
    site.import("-N")?;
    ensure!(token(&site, "tank/fs")? != "-");
    site.ok("zfs receive -A tank/fs")?;
    receive(&site, "tank/fs", &increment)?.success()?;
    site.export()?;
    let cases: &[Case] = &[("", "", &[("fs", "fs", "a"), ("fs", "fs", "b")])];
    let differences = differences(&site, &golden, cases)?;
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    site.judge()
}

/// A pool without features suspended itself when a stream came: how far it had got was noted in
/// fields that such a pool cannot have. Plain streams are received there; others are refused before
/// anything is made.
#[test]
fn pools_without_features_take_plain_streams() -> Result<()> {
    let Some(golden) = Golden::find(streams::KIND)? else {
        return Ok(());
    };
    let site = Site::create("single", 512, "-d -O mountpoint=none")?;
    for refused in [
        "large-blocks",
        "large-dnode",
        "embedded",
        "compressed-embedded-large",
        "raw-encrypted",
    ] {
        let outcome = receive(&site, "tank/none", &stream(refused)?)?;
        ensure!(outcome.code == Some(1), "{refused}: {}", outcome.report());
        let said = outcome.report();
        ensure!(
            said.contains("pool must be upgraded to receive this stream."),
            "{refused}: {said}"
        );
        site.fails("zfs list tank/none")?;
    }
    let noted = receive(&site, "-s tank/none", &stream("full")?)?.report();
    ensure!(noted.contains("pool must be upgraded"), "{noted}");
    site.fails("zfs list tank/none")?;
    let cases: &[Case] = &[
        ("full", "fs", &[("fs", "fs", "a")]),
        ("incremental-i", "fs", &[("fs", "fs", "b")]),
        ("zvol", "vol", &[("vol", "vol", "a")]),
        ("zvol-incremental", "vol", &[("vol", "vol", "b")]),
    ];
    for (name, target, _) in cases {
        let outcome = receive(&site, &format!("tank/{target}"), &stream(name)?)?;
        outcome.success().with_context(|| (*name).to_owned())?;
    }
    let cut = &stream("incremental-i")?[..600_000];
    receive(&site, "tank/copy", &stream("full")?)?.success()?;
    let said = receive(&site, "tank/copy", cut)?.report();
    ensure!(said.contains("incomplete stream"), "{said}");
    ensure!(token(&site, "tank/copy")? == "-");
    let health = site.ok("zpool list -H -o health tank")?;
    ensure!(health.trim() == "ONLINE", "{health}");
    // Nothing counts users' files there: it is not that they have none.
    let counted = site.ok("zfs userspace -H -o objused tank/fs")?;
    ensure!(
        !counted.is_empty() && counted.lines().all(|count| count == "-"),
        "{counted}"
    );
    site.export()?;
    let differences = differences(&site, &golden, cases)?;
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    site.judge()
}

/// A full pool reported an incomplete stream if the received part was kept.
#[test]
fn a_full_pool_says_so() -> Result<()> {
    if Golden::find(streams::KIND)?.is_none() {
        return Ok(());
    }
    let site = Site::create("single", 64, "-O mountpoint=none -O compression=off")?;
    let full = stream("full")?;
    site.ok("zfs create -o refreservation=1M tank/filler")?;
    let free = site.ok("zfs get -Hp -o value available tank")?;
    let free: u64 = free.trim().parse()?;
    let taken = free.checked_sub(600 << 10).context("a pool that is full")?;
    site.ok(&format!("zfs set refreservation={taken} tank/filler"))?;
    for options in ["", "-s"] {
        let outcome = receive(&site, &format!("{options} tank/fs"), &full)?;
        let said = outcome.report();
        ensure!(outcome.code == Some(1), "{said}");
        ensure!(said.contains("out of space"), "{said}");
        ensure!(!said.contains("checksum mismatch"), "{said}");
        ensure!(said.contains("zfs send -t") == (options == "-s"), "{said}");
    }
    // With enough space the receive can be resumed, or started over without a token.
    site.ok("zfs set refreservation=none tank/filler")?;
    site.ok("zfs receive -A tank/fs")?;
    site.ok("zfs create -o quota=600K tank/small")?;
    let said = receive(&site, "tank/small/fs", &full)?.report();
    ensure!(said.contains("space quota exceeded"), "{said}");
    site.finish()
}

/// The beginning of a raw stream lacks the MACs that its end brings. With its key loaded its token
/// could not be read, and abandoning it suspended the pool. A complete receive failed to
/// authenticate if files end with holes: they ended before these.
const TOLD: &str = "compression,copies,quota,refquota,atime,readonly,com.example:note";

/// What `zfs get` says of some properties.
fn told(site: &Site, dataset: &str) -> Result<String> {
    site.ok(&format!(
        "zfs get -Hp -o property,value,received,source {TOLD} {dataset}"
    ))
}

fn sent(site: &Site, arguments: &str) -> Result<Vec<u8>> {
    let words: Vec<&str> = ["send"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    Ok(site.cenote().run("zfs", &words)?.success()?.stdout)
}

fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A stream that fails leaves the properties of the dataset as they were. Before, they were those
/// of a stream of which nothing was received.
#[test]
fn properties_come_with_the_contents() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 512, "")?;
    let source = "-o compression=lz4 -o quota=12M -o refquota=11M -o com.example:note=one";
    site.ok(&format!("zfs create {source} tank/source"))?;
    fs::write(site.path("tank/source").join("small"), vec![7; 100_000])?;
    site.ok("zfs snapshot tank/source@a")?;
    receive(&site, "-u tank/copy", &sent(&site, "-p tank/source@a")?)?.success()?;
    // More than what is there now could hold.
    for property in ["compression=gzip", "quota=64M", "refquota=40M", "copies=2"] {
        site.ok(&format!("zfs set {property} tank/source"))?;
    }
    site.ok("zfs set com.example:note=two tank/source")?;
    let bytes = incompressible(16 << 20);
    fs::write(site.path("tank/source").join("large"), &bytes)?;
    site.ok("zfs set com.example:kept=x tank/source")?;
    site.ok("zfs snapshot -o com.example:tag=one tank/source@b")?;
    let stream = sent(&site, "-p -i @a tank/source@b")?;
    let half = &stream[..stream.len() / 2];
    let before = told(&site, "tank/copy")?;
    let unchanged = || -> Result<()> {
        let now = told(&site, "tank/copy")?;
        ensure!(now == before, "{before}{now}");
        Ok(())
    };
    let options = "-u -o atime=off -x copies tank/copy";
    receive(&site, options, half)?;
    unchanged()?;
    // Impossible options are refused before the contents come.
    for wrong in [
        "-o quota=1K",
        "-o version=4",
        "-x version",
        "-x normalization",
        "-o casesensitivity=mixed",
    ] {
        let refused = receive(&site, &format!("-u {wrong} tank/copy"), &stream)?;
        ensure!(refused.code == Some(1), "{}", refused.report());
    }
    // What is too small for the contents, when they are there.
    let refused = receive(&site, "-u -o refquota=20M -F tank/copy", &stream)?;
    ensure!(refused.code == Some(1), "{}", refused.report());
    site.fails("zfs list tank/copy@b")?;
    unchanged()?;
    // They wait with what came, also over the death of the daemon, and go with it.
    for last in [false, true] {
        receive(&site, &format!("-s {options}"), half)?;
        unchanged()?;
        site.crash()?;
        site.import("-N")?;
        unchanged()?;
        if !last {
            site.ok("zfs receive -A tank/copy")?;
            unchanged()?;
        }
    }
    let rest = sent(&site, &format!("-t {}", token(&site, "tank/copy")?))?;
    receive(&site, "-s -u tank/copy", &rest)?.success()?;
    let now = told(&site, "tank/copy")?;
    let wanted = "compression\tgzip\tgzip\treceived\ncopies\t1\t2\tdefault\n\
                  quota\t67108864\t67108864\treceived\n\
                  refquota\t41943040\t41943040\treceived\natime\toff\t-\tlocal\n\
                  readonly\toff\t-\tdefault\ncom.example:note\ttwo\ttwo\treceived\n";
    ensure!(now == wanted, "{now}");
    properties_of_snapshots(&site)?;
    site.finish()
}

/// User properties of a snapshot are received values there, too. They were local ones.
fn properties_of_snapshots(site: &Site) -> Result<()> {
    site.ok("zfs destroy -r tank/copy")?;
    receive(site, "-u tank/copy", &sent(site, "-p tank/source@b")?)?.success()?;
    let tag = |snapshot: &str| -> Result<String> {
        let line = format!("zfs get -H -o value,source com.example:tag {snapshot}");
        Ok(site.ok(&line)?.trim_end().to_owned())
    };
    let is = |wanted: &str| -> Result<()> {
        let now = tag("tank/copy@b")?;
        ensure!(now == wanted, "{now}");
        Ok(())
    };
    is("one\treceived")?;
    let listed = site.ok("zfs get -H -o property -s received all tank/copy@b")?;
    ensure!(listed.contains("com.example:tag"), "{listed}");
    site.ok("zfs set com.example:tag=two tank/copy@b")?;
    is("two\tlocal")?;
    site.ok("zfs inherit -S com.example:tag tank/copy@b")?;
    is("one\treceived")?;
    site.ok("zfs inherit com.example:tag tank/copy@b")?;
    is("-\t-")?;
    site.ok("zfs inherit -S com.example:tag tank/copy@b")?;
    is("one\treceived")?;
    receive(site, "-u tank/again", &sent(site, "-b tank/copy@b")?)?.success()?;
    let again = tag("tank/again@b")?;
    ensure!(again == "one\treceived", "{again}");
    Ok(())
}

#[test]
fn raw_streams_are_received_in_part_and_whole() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let key = format!("file://{}", key.display());
    let options = "-o encryption=aes-128-ccm -o keyformat=passphrase -o recordsize=4K";
    site.ok(&format!(
        "zfs create {options} -o keylocation={key} tank/source"
    ))?;
    let mut raw = Vec::new();
    for (snapshot, since) in [("a", ""), ("b", "-i @a ")] {
        for number in 0..20_usize {
            let file = site.path("tank/source").join(format!("{snapshot}{number}"));
            // The zeros at the end become a hole, behind which there is nothing.
            let mut contents = vec![number as u8; 30_000];
            contents.resize(30_000 + number * 2000, 0);
            fs::write(file, contents)?;
        }
        site.ok(&format!("zfs snapshot tank/source@{snapshot}"))?;
        let line = format!("send -w {since}tank/source@{snapshot}");
        let words: Vec<&str> = line.split_whitespace().collect();
        raw.push(site.cenote().run("zfs", &words)?.success()?.stdout);
    }
    for (stream, is_whole) in [(&raw[0], false), (&raw[0], true), (&raw[1], false)] {
        for options in ["-u", "-s -u"] {
            let target = format!("{options} tank/copy");
            if is_whole {
                receive(&site, "-u tank/copy", stream)?.success()?;
                site.ok(&format!("zfs load-key -L {key} tank/copy"))?;
                break;
            }
            let outcome = receive(&site, &target, &stream[..stream.len() * 2 / 3])?;
            ensure!(outcome.code == Some(1), "{}", outcome.report());
            if options == "-u" {
                continue;
            }
            if stream == &raw[0] {
                site.ok(&format!("zfs load-key -L {key} tank/copy"))?;
            }
            ensure!(token(&site, "tank/copy")?.starts_with("1-"));
            site.ok("zfs list -r -o all tank")?;
            site.ok("zfs receive -A tank/copy")?;
        }
    }
    receive(&site, "-s -u tank/copy", &raw[1][..raw[1].len() / 2])?;
    let rest = || -> Result<Vec<u8>> {
        let line = format!("send -t {}", token(&site, "tank/copy")?);
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(site.cenote().run("zfs", &words)?.success()?.stdout)
    };
    // What is refused at its end is not thrown away: it may be wanted with -F.
    site.ok("zfs mount tank/copy")?;
    fs::write(site.path("tank/copy").join("own"), "own")?;
    let refused = receive(&site, "-s tank/copy", &rest()?)?;
    ensure!(
        refused.code == Some(1) && refused.stderr.contains("has been modified"),
        "{}",
        refused.report()
    );
    receive(&site, "-s -F tank/copy", &rest()?)?.success()?;
    let (sent, received) = (site.walk("tank/source")?, site.walk("tank/copy")?);
    cenote_tests::site::same(&sent, &received)?;
    more_of_keys(&site, &key)?;
    a_refused_resume_can_be_forced(&site)?;
    a_partial_receive_goes_with_its_dataset(&site)?;
    site.finish()
}

fn more_of_keys(site: &Site, key: &str) -> Result<()> {
    a_tree_keeps_its_encryption_roots(site, key)?;
    a_key_in_use_stays_with_its_mounts(site)?;
    a_place_of_a_key_arrives(site, key)?;
    a_changed_key_arrives(site, key)
}

/// The sender's `keylocation` comes with the stream, and is only used on request.
fn a_place_of_a_key_arrives(site: &Site, key: &str) -> Result<()> {
    receive(site, "-u tank/kept", &sent(site, "-wp tank/source@b")?)?.success()?;
    let of = |property: &str, dataset: &str| -> Result<String> {
        let line = format!("zfs get -H -o value,source {property} {dataset}");
        Ok(site.ok(&line)?.trim_end().to_owned())
    };
    let place = of("keylocation", "tank/kept")?;
    ensure!(place == format!("{key}\treceived"), "{place}");
    site.ok("zfs load-key tank/kept")?;
    site.crash()?;
    // A resuming command names no key.
    let resumed = site.cenote().run("cenote", &["daemon", "resume"])?;
    let status = [
        of("keystatus", "tank/source")?,
        of("keystatus", "tank/kept")?,
    ];
    ensure!(
        status == ["available\t-", "unavailable\t-"],
        "{status:?} {}",
        resumed.report()
    );
    site.ok("zfs load-key tank/kept")?;
    // A `keylocation` of the command overrides that of the stream.
    let other = "-u -o keylocation=file:///none tank/other";
    receive(site, other, &sent(site, "-wp tank/source@a")?)?.success()?;
    let place = of("keylocation", "tank/other")?;
    ensure!(place == "file:///none\tlocal", "{place}");
    for dataset in ["tank/kept", "tank/other"] {
        site.ok(&format!("zfs destroy -r {dataset}"))?;
    }
    site.ok(&format!("zfs load-key -L {key} tank/copy"))?;
    site.ok("zfs mount tank/copy").map(drop)
}

fn a_partial_receive_goes_with_its_dataset(site: &Site) -> Result<()> {
    fs::write(site.path("tank/source").join("more"), vec![1; 600_000])?;
    site.ok("zfs snapshot tank/source@d")?;
    let words = ["send", "-w", "-i", "@c", "tank/source@d"];
    let stream = site.cenote().run("zfs", &words)?.success()?.stdout;
    receive(site, "-s -u -F tank/copy", &stream[..stream.len() / 2])?;
    ensure!(token(site, "tank/copy")?.starts_with("1-"));
    site.ok("zfs destroy -r tank/copy")?;
    site.fails("zfs list tank/copy").map(drop)
}

/// The key of the source is changed: with the next increment the copy has it, too.
fn a_changed_key_arrives(site: &Site, old: &str) -> Result<()> {
    let key = site.cenote().directory().join("new-key");
    fs::write(&key, "another passphrase")?;
    let new = format!("file://{}", key.display());
    site.ok(&format!("zfs change-key -o keylocation={new} tank/source"))?;
    site.ok("zfs snapshot tank/source@c")?;
    let words = ["send", "-w", "-i", "@b", "tank/source@c"];
    let stream = site.cenote().run("zfs", &words)?.success()?.stdout;
    // What is made below the copy would be wrapped by the key that is loaded.
    let refused = receive(site, "-F tank/copy", &stream)?;
    ensure!(
        refused.code == Some(1) && refused.stderr.contains("zfs unload-key"),
        "{}",
        refused.report()
    );
    site.ok("zfs unmount tank/copy")?;
    site.ok("zfs unload-key tank/copy")?;
    receive(site, "-u -F tank/copy", &stream)?.success()?;
    site.fails(&format!("zfs load-key -L {old} tank/copy"))?;
    site.ok(&format!("zfs load-key -L {new} tank/copy"))?;
    site.ok("zfs mount tank/copy")?;
    let (sent, received) = (site.walk("tank/source")?, site.walk("tank/copy")?);
    cenote_tests::site::same(&sent, &received)
}

/// Each dataset of a raw package became an encryption root, so that each needed its key loaded.
/// Changes of which datasets are roots did not arrive either.
fn a_tree_keeps_its_encryption_roots(site: &Site, key: &str) -> Result<()> {
    let all = |lines: &[&str]| lines.iter().try_for_each(|line| site.ok(line).map(drop));
    let hex = site.cenote().directory().join("hex");
    fs::write(&hex, "0123456789abcdef".repeat(4))?;
    let (phrase, hex) = (
        format!("-o keyformat=passphrase -o keylocation={key}"),
        format!("-o keyformat=hex -o keylocation=file://{}", hex.display()),
    );
    all(&[
        &format!("zfs create -o encryption=on {phrase} tank/tree"),
        "zfs create -p tank/tree/heir/below",
        &format!("zfs create -o encryption=on {hex} tank/tree/own"),
        "zfs create tank/tree/own/below",
        "zfs snapshot -r tank/tree@1",
        "zfs clone tank/tree/heir@1 tank/tree/clone",
        "zfs create tank/tree/clone/below",
        "zfs snapshot -r tank/tree@2",
    ])?;
    receive(site, "-u tank/got", &sent(site, "-wR tank/tree@2")?)?.success()?;
    roots_are_equal(site, &["tree", "tree/own"])?;
    // The child with a key of its own gets its parent's, another one a key of its own.
    all(&[
        &format!("zfs change-key {hex} tank/tree/heir"),
        "zfs change-key -i tank/tree/own",
        "zfs snapshot -r tank/tree@3",
    ])?;
    let step = sent(site, "-wR -I @2 tank/tree@3")?;
    receive(site, "-u -F tank/got", &step)?.success()?;
    roots_are_equal(site, &["tree", "tree/heir"])?;
    // What arrived by itself is a root. The next package corrects that.
    let alone = ["own", "own/below"].map(|name| sent(site, &format!("-w tank/tree/{name}@3")));
    site.ok("zfs destroy -r tank/got/own")?;
    for (name, stream) in ["own", "own/below"].into_iter().zip(alone) {
        receive(site, &format!("-u tank/got/{name}"), &stream?)?.success()?;
    }
    let root = || site.ok("zfs get -H -o value encryptionroot tank/got/own");
    ensure!(root()?.trim() == "tank/got/own", "{}", root()?);
    site.ok("zfs snapshot -r tank/tree@4")?;
    let step = sent(site, "-wR -I @3 tank/tree@4")?;
    receive(site, "-u -F tank/got", &step)?.success()?;
    roots_are_equal(site, &["tree", "tree/heir"])?;
    // It is an heir for all purposes: it does not leave its root.
    let refused = site.fails("zfs rename tank/got/own tank/got/heir/own")?;
    ensure!(refused.stderr.contains("outside of its encryption root"));
    all(&["zfs destroy -R tank/got", "zfs destroy -R tank/tree"])
}

/// A copy has the encryption roots of the original, and opens with the keys of these alone.
fn roots_are_equal(site: &Site, roots: &[&str]) -> Result<()> {
    let found = |top: &str| -> Result<String> {
        let properties = "name,encryptionroot,keyformat";
        let line = format!("zfs list -H -r -o {properties} tank/{top}");
        Ok(site.ok(&line)?.replace(&format!("tank/{top}"), "tank/TOP"))
    };
    let (original, copy) = (found("tree")?, found("got")?);
    ensure!(original == copy, "{original}, not {copy}");
    let with_place = site.ok("zfs get -H -r -o name,value keylocation tank/got")?;
    for line in with_place.lines() {
        let (name, place) = line.split_once('\t').context("two columns")?;
        let is_root = roots
            .iter()
            .any(|root| name == root.replace("tree", "tank/got"));
        ensure!(
            (place != "none") == is_root || name.contains('@'),
            "{with_place}"
        );
    }
    for root in roots {
        let copy = root.replace("tree", "tank/got");
        let place = site.ok(&format!("zfs get -H -o value keylocation tank/{root}"))?;
        site.ok(&format!("zfs load-key -L {} {copy}", place.trim()))?;
    }
    let status = site.ok("zfs get -H -r -t filesystem -o value keystatus tank/got")?;
    ensure!(
        status.lines().all(|status| status == "available"),
        "{status}"
    );
    let names = site.ok("zfs list -H -r -o name tank/got")?;
    for name in names.lines() {
        site.ok(&format!("zfs mount {name}"))?;
    }
    site.ok("zfs unmount tank/got")?;
    for root in roots.iter().rev() {
        site.ok(&format!(
            "zfs unload-key {}",
            root.replace("tree", "tank/got")
        ))?;
    }
    Ok(())
}

/// `zfs unmount -u` unmounted the dataset before it found that a clone uses the key.
fn a_key_in_use_stays_with_its_mounts(site: &Site) -> Result<()> {
    site.ok("zfs clone tank/source@b tank/clone")?;
    let refused = site.fails("zfs unmount -u tank/source")?;
    ensure!(refused.stderr.contains("busy"), "{}", refused.report());
    let state = site.ok("zfs get -H -o value mounted,keystatus tank/source")?;
    ensure!(state == "yes\navailable\n", "{state}");
    site.ok("zfs destroy tank/clone").map(drop)
}

/// A resumed stream was received to its end before it was refused for lack of `-F`. With `-F` the
/// same stream did not fit any more then.
fn a_refused_resume_can_be_forced(site: &Site) -> Result<()> {
    site.ok("zfs create -o recordsize=4K tank/plain")?;
    fs::write(
        site.path("tank/plain").join("file"),
        incompressible(600_000),
    )?;
    site.ok("zfs snapshot tank/plain@a")?;
    let full = sent(site, "tank/plain@a")?;
    site.ok("zfs create tank/onto")?;
    fs::write(site.path("tank/onto").join("own"), "own")?;
    site.ok("zpool sync tank")?;
    receive(site, "-s -u -F tank/onto", &full[..full.len() / 2])?;
    // What is received so far can be asked about by its name, and by no other.
    let state = site.ok("zfs get -H -o value inconsistent tank/onto/%recv")?;
    ensure!(state.trim() == "1", "{state}");
    site.fails("zfs list tank/plain/%recv")?;
    site.fails("zfs create tank/plain/%recv")?;
    site.fails("zfs snapshot tank/onto/%recv@a")?;
    let rest = sent(site, &format!("-t {}", token(site, "tank/onto")?))?;
    let refused = receive(site, "-s -u tank/onto", &rest)?;
    ensure!(
        refused.code == Some(1) && refused.stderr.contains("has been modified"),
        "{}",
        refused.report()
    );
    receive(site, "-s -u -F tank/onto", &rest)?.success()?;
    let (sent, received) = (site.walk("tank/plain")?, site.walk("tank/onto")?);
    cenote_tests::site::same(&sent, &received)?;
    site.ok("zfs destroy -r tank/plain")?;
    site.ok("zfs destroy -r tank/onto").map(drop)
}
