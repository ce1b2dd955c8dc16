//! What only some golden pools have: folded names, accounting, holds, snapshots below `.zfs`,
//! keys that are not loaded, logs that are not replayed.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::mounted;
use cenote_tests::pool::{self, Import};
use cenote_tests::program::Cenote;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The pool of a kind, imported, with its daemon.
fn imported(kind: &str, import: &Import) -> Result<Option<(Cenote, Golden)>> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(None);
    };
    let cenote = Cenote::new()?;
    pool::import(&cenote, &golden, &golden.devices()?, import)?;
    Ok(Some((cenote, golden)))
}

/// Which spellings of a name find the file, in datasets that fold case or normalize: the manifest
/// has the inode number or the error that OpenZFS gave.
#[test]
fn names_are_folded() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Some((cenote, golden)) = imported("names-folding", &Import::default())? else {
        return Ok(());
    };
    let lookups = golden.manifest.document["lookups"]
        .as_object()
        .context("lookups")?;
    let mut wrong = Vec::new();
    for (dataset, spellings) in lookups {
        let directory = pool::mount(&cenote, dataset)?;
        for (spelling, wanted) in spellings.as_object().context("spellings")? {
            let found = match fs::symlink_metadata(directory.join(spelling)) {
                Ok(metadata) => Value::from(metadata.ino()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => "ENOENT".into(),
                Err(error) => error.to_string().into(),
            };
            if found != *wanted {
                wrong.push(format!("{dataset} {spelling:?}: {found}, wanted {wanted}"));
            }
        }
        pool::unmount(&cenote, &directory)?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn space_is_accounted_by_user_group_and_project() -> Result<()> {
    let Some((cenote, golden)) = imported("quotas", &Import::default())? else {
        return Ok(());
    };
    let pool = &golden.manifest.pool;
    for (command, flags) in [
        ("userspace", "-Hpn"),
        ("groupspace", "-Hpn"),
        ("projectspace", "-Hp"),
    ] {
        let columns = "type,name,used,quota,objused,objquota";
        let output = cenote.ok(&format!("zfs {command} {flags} -o {columns} {pool}/users"))?;
        let have: Vec<&str> = output.lines().collect();
        let want = golden.manifest.document[command]
            .as_array()
            .context("the manifest's lines")?;
        let want: Vec<&str> = want.iter().filter_map(Value::as_str).collect();
        ensure!(have == want, "zfs {command}: {have:#?}, wanted {want:#?}");
    }
    Ok(())
}

/// A hold is known by snapshot and tag; when it was put on is a date in the local form.
#[test]
fn holds_are_listed() -> Result<()> {
    let Some((cenote, golden)) = imported("snapshots-clones", &Import::default())? else {
        return Ok(());
    };
    let want = golden.manifest.document["holds"]
        .as_array()
        .context("holds")?;
    let mut want: Vec<String> = want
        .iter()
        .filter_map(|line| Some(line.as_str()?.into()))
        .collect();
    let mut have = Vec::new();
    for name in golden
        .manifest
        .datasets
        .keys()
        .filter(|name| name.contains('@'))
    {
        let output = cenote.ok(&format!("zfs holds -H {name}"))?;
        have.extend(output.lines().map(str::to_string));
    }
    want.sort();
    have.sort();
    ensure!(have == want, "{have:#?}, wanted {want:#?}");
    Ok(())
}

/// A snapshot's differences to a clone are those of the clone; they were those of the snapshot's
/// own file system.
#[test]
fn snapshots_are_compared_with_clones() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Some((cenote, golden)) = imported("snapshots-clones", &Import::default())? else {
        return Ok(());
    };
    let pool = &golden.manifest.pool;
    let snapshot = format!("{pool}/promoted@s2");
    let names = |dataset: &str| -> Result<BTreeSet<String>> {
        let entries = golden.manifest.datasets[dataset].entries.as_ref();
        Ok(entries.context("entries")?.keys().cloned().collect())
    };
    for clone in [format!("{pool}/base"), format!("{pool}/promoted")] {
        let directory = pool::mount(&cenote, &clone)?;
        let listed = cenote.ok(&format!("zfs diff -H {snapshot} {clone}"))?;
        let start = format!("+\t{}/", directory.display());
        let added = listed.lines().filter_map(|line| line.strip_prefix(&start));
        let added: BTreeSet<String> = added.map(str::to_owned).collect();
        let (before, after) = (names(&snapshot)?, names(&clone)?);
        let want: BTreeSet<String> = after.difference(&before).cloned().collect();
        ensure!(
            !want.is_empty() && added == want,
            "{clone}: {added:?}, wanted {want:?}"
        );
        pool::unmount(&cenote, &directory)?;
    }
    // A snapshot is listed, whatever the listing asks for below it.
    let listed = cenote.ok(&format!("zfs list -rHo name {snapshot}"))?;
    ensure!(listed.trim() == snapshot, "{listed}");
    let holds = cenote.ok(&format!("zfs holds -rH {pool}/promoted@s1"))?;
    ensure!(holds.lines().count() == 1, "{holds}");
    Ok(())
}

/// A mounted file system shows its snapshots below `.zfs/snapshot`, without being asked to mount
/// them, and does not list `.zfs` itself.
#[test]
fn snapshots_are_below_dot_zfs() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Some((cenote, golden)) = imported("raidz1-3", &Import::default())? else {
        return Ok(());
    };
    let dataset = format!("{}/data", golden.manifest.pool);
    let directory = pool::mount(&cenote, &dataset)?;
    let names = |path: &Path| -> Result<Vec<String>> {
        let entries = fs::read_dir(path)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    };
    ensure!(
        !names(&directory)?.contains(&".zfs".into()),
        ".zfs is listed"
    );
    let snapshots = directory.join(".zfs/snapshot");
    ensure!(names(&snapshots)? == ["one"], "{:?}", names(&snapshots)?);
    let mut have = mounted::walk(&snapshots.join("one"))?;
    let want = golden.manifest.datasets[&format!("{dataset}@one")]
        .entries
        .as_ref();
    let mut want = want.context("the manifest describes the snapshot")?.clone();
    // The root of a snapshot below `.zfs` has an inode number of that directory tree. The other
    // numbers have the snapshot's number above the object's, which `walk` lists.
    for entries in [&mut want, &mut have] {
        entries.get_mut(".").context("the root")?.remove("ino");
    }
    for name in have.keys().filter(|name| *name != ".") {
        let ino = fs::symlink_metadata(snapshots.join("one").join(name))?.ino();
        ensure!(
            ino >> 40 != 0,
            "{name}: {ino} could be a number of today's files"
        );
    }
    let tolerance = Tolerance::of("raidz1-3", &golden.manifest);
    let differences = compare::entries(&want, &have, &tolerance);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    pool::unmount(&cenote, &directory)
}

/// An encrypted dataset without its key gives an error, and others work.
#[test]
fn a_key_is_needed() -> Result<()> {
    let locked = Import {
        is_locked: true,
        options: vec!["-f".into()],
    };
    let Some((cenote, golden)) = imported("dirty-zil", &locked)? else {
        return Ok(());
    };
    let encrypted = format!("{}/enc", golden.manifest.pool);
    ensure!(
        cenote
            .ok(&format!("zfs get -H -o value keystatus {encrypted}"))?
            .trim()
            == "unavailable"
    );
    let outcome = cenote.run("cenote", &["ls", &format!("{encrypted}:/")])?;
    ensure!(outcome.code == Some(1), "{}", outcome.report());
    ensure!(outcome.stderr.contains("key"), "{}", outcome.report());
    let wrong = "0".repeat(64) + "\n";
    let load = ["load-key", "-L", "prompt", encrypted.as_str()];
    let outcome = cenote.run_with_input("zfs", &load, wrong.as_bytes())?;
    ensure!(outcome.code != Some(0), "a wrong key was taken");
    cenote.ok(&format!("cenote ls {}/data:/", golden.manifest.pool))?;
    Ok(())
}

/// Without a replay the files are those of the last transaction group, and the status says that
/// there is more in the log.
#[test]
fn an_unreplayed_log_is_shown() -> Result<()> {
    let import = Import::default().with(&["-f"]);
    let Some((cenote, golden)) = imported("dirty-zil", &import)? else {
        return Ok(());
    };
    let data = format!("{}/data", golden.manifest.pool);
    let names = cenote.ok(&format!("cenote ls {data}:/"))?;
    ensure!(
        !names.contains("newdir"),
        "the log was replayed without being asked"
    );
    let status = cenote.ok(&format!("zpool status {}", golden.manifest.pool))?;
    ensure!(
        status.contains(&data) && status.contains("record"),
        "{status}"
    );
    Ok(())
}

/// A command that would write says why it does not, and nothing is written.
#[test]
fn nothing_is_written() -> Result<()> {
    let Some((cenote, golden)) = imported("quotas", &Import::default())? else {
        return Ok(());
    };
    let pool = &golden.manifest.pool;
    for line in [
        format!("zfs create {pool}/new"),
        format!("zfs snapshot {pool}@new"),
        format!("zfs set compression=off {pool}"),
        format!("zfs destroy {pool}/q/refq"),
        format!("zpool scrub {pool}"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = cenote.run(words[0], &words[1..])?;
        let says_why = outcome.stderr.contains("pool is read-only");
        ensure!(outcome.code != Some(0) && says_why, "{}", outcome.report());
    }
    Ok(())
}

/// How often blocks are used, as OpenZFS 2.3.2 shows it of the same pools, what waits in logs
/// included; and the sizes of devices that could replace these.
#[test]
fn deduplication_is_shown() -> Result<()> {
    let heading = [
        "",
        "bucket              allocated                       referenced          ",
        "______   ______________________________   ______________________________",
        "refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE",
        "------   ------   -----   -----   -----   ------   -----   -----   -----",
    ]
    .join("\n");
    let tables = [
        (
            "dedup",
            " dedup: DDT entries 113, size 105K on disk, 256K in core",
            "     1      102   1.43M    550K    550K      102   1.43M    550K    550K
     2        7    112K    104K    104K       21    336K    310K    310K
     4        4     64K     64K     64K       28    448K    448K    448K
 Total      113   1.60M    718K    718K      151   2.19M   1.28M   1.28M
",
            ["734720", "2297344", "122159104"],
        ),
        (
            "dedup-legacy",
            " dedup: DDT entries 16, size 45K on disk, 128K in core",
            "     1       12    192K     89K     89K       12    192K     89K     89K
     4        4     64K     64K     64K       16    256K    256K    256K
 Total       16    256K    153K    153K       28    448K    345K    345K
",
            ["156672", "458752", "88604672"],
        ),
    ];
    for (kind, summary, rows, [physical, referenced, replaceable]) in tables {
        let Some((cenote, golden)) = imported(kind, &Import::default())? else {
            continue;
        };
        let pool = &golden.manifest.pool;
        let text = cenote.ok(&format!("zpool status -D {pool}"))?;
        let wanted = format!("{summary}\n{heading}\n{rows}\n");
        ensure!(text.ends_with(&wanted), "{kind}:\n{text}");
        let document = cenote.ok(&format!("zpool status -jDp {pool}"))?;
        let document: Value = serde_json::from_str(&document)?;
        let status = &document["pools"][pool];
        let total = &status["dedup_stats"]["ddt_stats"]["total"];
        ensure!(total["deflated_size"] == physical, "{total}");
        ensure!(total["ref_lsize"] == referenced, "{total}");
        let device = status["vdevs"][pool]["vdevs"].as_object();
        let (_, device) = device
            .and_then(|all| all.iter().next())
            .context("a device")?;
        ensure!(device["rep_dev_size"] == replaceable, "{device}");
    }
    Ok(())
}
