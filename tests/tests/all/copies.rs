//! Copies in one pool, of encrypted data, of trees: what belongs to which, and what may leave it.
//! All tests here send and receive within one pool.

use anyhow::{Result, ensure};
use cenote_tests::program::Outcome;
use cenote_tests::site::Site;
use std::fs;

const PASSPHRASE: &str = "a-passphrase";

fn sent(site: &Site, arguments: &str) -> Result<Vec<u8>> {
    let words: Vec<&str> = ["send"].into_iter().chain(arguments.split(' ')).collect();
    Ok(site.cenote().run("zfs", &words)?.success()?.stdout)
}

fn receive(site: &Site, arguments: &str, stream: &[u8]) -> Result<Outcome> {
    let words = ["receive"].into_iter().chain(arguments.split(' '));
    let words: Vec<&str> = words.collect();
    site.cenote().run_with_input("zfs", &words, stream)
}

fn value(site: &Site, property: &str, dataset: &str) -> Result<String> {
    let line = format!("zfs get -Hp -o value {property} {dataset}");
    Ok(site.ok(&line)?.trim().to_owned())
}

fn is(site: &Site, property: &str, dataset: &str, wanted: &str) -> Result<()> {
    let found = value(site, property, dataset)?;
    ensure!(
        found == wanted,
        "{property} of {dataset} is {found}, not {wanted}"
    );
    Ok(())
}

fn has(site: &Site, dataset: &str) -> Result<bool> {
    Ok(site.cenote().run("zfs", &["list", dataset])?.code == Some(0))
}

fn all(site: &Site, lines: &[&str]) -> Result<()> {
    lines.iter().try_for_each(|line| site.ok(line).map(drop))
}

/// A command that fails with these words, and writes nothing.
fn refuses(outcome: &Outcome, words: &str) -> Result<()> {
    let is_refused = outcome.code == Some(1) && outcome.stdout.is_empty();
    ensure!(
        is_refused && outcome.stderr.contains(words),
        "{}",
        outcome.report()
    );
    Ok(())
}

fn refuses_to_send(site: &Site, arguments: &str, words: &str) -> Result<()> {
    let line: Vec<&str> = ["send"].into_iter().chain(arguments.split(' ')).collect();
    refuses(&site.cenote().run("zfs", &line)?, words)
}

/// A stream that the receiver encrypts with a new key, with the properties of that key.
fn received_anew(site: &Site, key: &str) -> Result<()> {
    let plain = sent(site, "tank/plain/e/in@1")?;
    receive(site, &format!("-u {key} tank/new"), &plain)?.success()?;
    is(site, "encryptionroot", "tank/new", "tank/new")?;
    is(site, "keyformat", "tank/new", "passphrase")?;
    all(site, &["zfs unload-key tank/new", "zfs load-key tank/new"])?;
    let step = sent(site, "-i @1 tank/plain/e/in@2")?;
    let refused = receive(site, &format!("-u {key} tank/new"), &step)?;
    refuses(&refused, "cannot be set for incremental streams")?;
    let raw = sent(site, "-w tank/plain/e@1")?;
    for option in ["-o encryption=on", "-x encryption", "-o pbkdf2iters=200000"] {
        let refused = receive(site, &format!("-u {option} tank/raw"), &raw)?;
        refuses(&refused, "for raw streams")?;
    }
    ensure!(!has(site, "tank/raw")?);

    // An encryption root keeps its `keylocation`: without one its key could not be loaded.
    let refused = site.fails("zfs inherit -S keylocation tank/new")?;
    ensure!(
        refused.stderr.contains("must not be 'none'"),
        "{}",
        refused.report()
    );
    Ok(())
}

/// A dataset that is older than the snapshot and lacks it is left out, and not silently.
fn what_is_left_out_is_named(site: &Site) -> Result<()> {
    site.ok("zfs snapshot tank/plain@only")?;
    let skipping = site
        .cenote()
        .run("zfs", &["send", "-Rs", "tank/plain@only"])?;
    let warning = "WARNING: skipping dataset tank/plain/e: snapshot '@only' does not exist\n";
    ensure!(
        skipping.stderr == warning,
        "{}",
        skipping.success()?.report()
    );
    site.ok("zfs destroy tank/plain@only").map(drop)
}

/// `zfs send -R` and `-p` wrote what was encrypted in plain text, and a receiver took it for
/// encrypted no more. A stream of data whose key is not loaded began before that was noticed.
#[test]
fn encrypted_data_leaves_as_it_is_or_by_itself() -> Result<()> {
    let site = Site::create("single", 512, "-O mountpoint=none")?;
    let key = site.devices().join("key");
    fs::write(&key, PASSPHRASE)?;
    let key = format!(
        "-o keyformat=passphrase -o keylocation=file://{}",
        key.display()
    );
    let key = format!("-o encryption=on {key} -o pbkdf2iters=100000");
    site.ok("zfs create tank/plain")?;
    site.ok(&format!("zfs create {key} tank/plain/e"))?;
    site.ok("zfs create tank/plain/e/in")?;
    all(
        &site,
        &[
            "zfs snapshot -r tank/plain@1",
            "zfs snapshot -r tank/plain@2",
        ],
    )?;
    let reason = "may not be sent with properties without the raw flag";
    for options in [
        "-R", "-p", "-b", "-h", "-p -i @1", "-R -s", "-nv -p", "-Lec -p",
    ] {
        let arguments = format!("{options} tank/plain/e@2");
        let words = format!("cannot send tank/plain/e@2: encrypted dataset tank/plain/e {reason}");
        refuses_to_send(&site, &arguments, &words)?;
    }
    // Of a tree one dataset is enough.
    let words = format!("cannot send tank/plain/e@2: encrypted dataset tank/plain/e {reason}");
    refuses_to_send(&site, "-R tank/plain@2", &words)?;
    refuses_to_send(&site, "-R -I @1 tank/plain@2", &words)?;
    let file = site.devices().join("a.zstream");
    let file = file.display();
    site.fails(&format!("cenote send -q -R --to {file} tank/plain@2"))?;
    ensure!(!site.devices().join("a.zstream").exists());
    sent(&site, "-R -X tank/plain/e tank/plain@2")?;
    what_is_left_out_is_named(&site)?;
    sent(&site, "-R -w tank/plain@2")?;
    // `-U` sends it decrypted, with properties, but none of a key.
    let open = sent(&site, "-U -p tank/plain/e@2")?;
    receive(&site, "-u tank/open", &open)?.success()?;
    is(&site, "encryption", "tank/open", "off")?;
    is(&site, "keylocation", "tank/open", "none")?;
    site.ok("zfs destroy -r tank/open")?;
    sent(&site, "-I @1 tank/plain/e@2")?;
    received_anew(&site, &key)?;
    // Nothing at all is written without the key.
    site.ok("zfs unload-key tank/plain/e")?;
    let reason = "dataset key must be loaded";
    for arguments in [
        "tank/plain/e@1",
        "-I @1 tank/plain/e/in@2",
        "-i @1 tank/plain/e/in@2",
    ] {
        refuses_to_send(&site, arguments, reason)?;
    }
    sent(&site, "-w tank/plain/e@1")?;
    // A move that would cost a dataset its key is refused, with what was made for it.
    let refused = site.fails("zfs rename -p tank/plain/e/in tank/made/in")?;
    ensure!(
        refused.stderr.contains("outside of its encryption root"),
        "{}",
        refused.report()
    );
    ensure!(!has(&site, "tank/made")?);
    site.finish()
}

/// A clone in the second copy of a tree became one of the first, which `zfs destroy -R` of the
/// first took along. An increment of a renamed file system was not found by `receive -d`, which
/// left empty parents behind. The `refquota` of a package was lost, and with it short names of
/// properties. A volume in place of a mounted file system arrived, and the command failed.
#[test]
fn what_is_received_belongs_to_its_own_tree() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 512, "-O compression=off")?;
    all(
        &site,
        &[
            "zfs create -o quota=200M -o refquota=100M tank/t",
            "zfs create -o compression=zstd tank/t/base",
            "zfs snapshot tank/t/base@1",
            "zfs clone tank/t/base@1 tank/t/clone",
            "zfs snapshot -r tank/t@n",
            "zfs create tank/b",
        ],
    )?;
    let tree = sent(&site, "-R tank/t@n")?;
    for copy in ["first", "b/second"] {
        receive(&site, &format!("tank/{copy}"), &tree)?.success()?;
        is(
            &site,
            "origin",
            &format!("tank/{copy}/clone"),
            &format!("tank/{copy}/base@1"),
        )?;
        is(&site, "quota", &format!("tank/{copy}"), "209715200")?;
        is(&site, "refquota", &format!("tank/{copy}"), "104857600")?;
    }
    let one = sent(&site, "-i tank/t/base@1 tank/t/clone@n")?;
    receive(&site, "tank/b/second/other", &one)?.success()?;
    is(
        &site,
        "origin",
        "tank/b/second/other",
        "tank/b/second/base@1",
    )?;
    site.ok("zfs destroy -R tank/first")?;
    ensure!(has(&site, "tank/b/second/clone")? && has(&site, "tank/b/second/other")?);

    receive(&site, "-u -o compress=lz4 tank/o", &tree)?.success()?;
    is(&site, "compression", "tank/o/base", "lz4")?;
    receive(
        &site,
        "-u -x compress -x quota -o refquota=90M tank/x",
        &tree,
    )?
    .success()?;
    is(&site, "compression", "tank/x/base", "off")?;
    is(&site, "refquota", "tank/x", "94371840")?;
    is(&site, "quota", "tank/x", "0")?;
    receive(&site, "-u -x refquota tank/z", &tree)?.success()?;
    is(&site, "refquota", "tank/z", "0")?;
    for options in [
        "-o compress=lz4 -x compression",
        "-x atime -x atime",
        "-o rdonly=on -o readonly=off",
    ] {
        let refused = receive(&site, &format!("{options} tank/y"), &tree)?;
        ensure!(refused.code != Some(0), "{options}: {}", refused.report());
        ensure!(
            refused.stderr.contains("specified multiple times"),
            "{}",
            refused.report()
        );
    }
    renamed(&site)?;
    resumed(&site)?;
    replaced(&site)?;
    site.finish()
}

fn renamed(site: &Site) -> Result<()> {
    all(
        site,
        &[
            "zfs create tank/home",
            "zfs create tank/home/u",
            "zfs snapshot tank/home/u@1",
        ],
    )?;
    receive(site, "-d tank/b", &sent(site, "tank/home/u@1")?)?.success()?;
    all(
        site,
        &[
            "zfs rename tank/home/u tank/home/v",
            "zfs snapshot tank/home/v@2",
        ],
    )?;
    let step = sent(site, "-i @1 tank/home/v@2")?;
    receive(site, "-d tank/b", &step)?.success()?;
    ensure!(has(site, "tank/b/home/u@2")?);
    // Also where it was moved out of the target, if only one can be meant.
    all(
        site,
        &[
            "zfs rename tank/b/home/u tank/moved",
            "zfs snapshot tank/home/v@3",
        ],
    )?;
    let moved = sent(site, "-i @2 tank/home/v@3")?;
    receive(site, "-d tank/b", &moved)?.success()?;
    ensure!(has(site, "tank/moved@3")?);
    all(
        site,
        &[
            "zfs destroy tank/moved@3",
            "zfs rename tank/moved tank/b/home/u",
        ],
    )?;
    // An explicit name is used as it is.
    let refused = receive(site, "tank/b/v", &step)?;
    refuses(&refused, "destination 'tank/b/v' does not exist")?;
    all(
        site,
        &[
            "zfs create -p tank/other/x",
            "zfs snapshot tank/other/x@1",
            "zfs snapshot tank/other/x@2",
        ],
    )?;
    let step = sent(site, "-i @1 tank/other/x@2")?;
    let full = sent(site, "tank/other/x@1")?;
    for stream in [&step[..], &full[..full.len() / 2]] {
        let failed = receive(site, "-d tank/b", stream)?;
        ensure!(failed.code == Some(1), "{}", failed.report());
        ensure!(!has(site, "tank/b/other")?, "{}", failed.report());
    }
    // What is kept to be resumed keeps its parents.
    receive(site, "-s -d tank/b", &full[..full.len() / 2])?;
    ensure!(has(site, "tank/b/other")?);
    site.ok("zfs receive -A tank/b/other/x")?;
    receive(site, "-d tank/o", &full)?.success()?;
    ensure!(has(site, "tank/o/other/x@1")?);
    Ok(())
}

/// The rest of a stream that was cut has no properties: the limit on what it brings was lost.
fn resumed(site: &Site) -> Result<()> {
    site.ok("zfs create -o refquota=40M tank/r")?;
    fs::write(site.path("tank/r").join("file"), vec![7; 4 << 20])?;
    site.ok("zfs snapshot tank/r@1")?;
    let full = sent(site, "-p tank/r@1")?;
    let cut = receive(site, "-s tank/resumed", &full[..full.len() / 2])?;
    ensure!(cut.code == Some(1), "{}", cut.report());
    let token = value(site, "receive_resume_token", "tank/resumed")?;
    receive(
        site,
        "-s tank/resumed",
        &sent(site, &format!("-t {token}"))?,
    )?
    .success()?;
    is(site, "refquota", "tank/resumed", "41943040")?;
    let all = site.ok("zfs get -H -o property all tank/resumed")?;
    ensure!(!all.contains("waiting"), "{all}");
    Ok(())
}

fn replaced(site: &Site) -> Result<()> {
    all(
        site,
        &[
            "zfs create -V 8M tank/v",
            "zfs snapshot tank/v@1",
            "zfs create tank/m",
        ],
    )?;
    fs::write(site.path("tank/m").join("file"), "gone")?;
    receive(site, "-F tank/m", &sent(site, "tank/v@1")?)?.success()?;
    is(site, "type", "tank/m", "volume")?;
    ensure!(!site.path("tank/m").join("file").exists());
    site.ok("zfs destroy tank/m@1")?;
    receive(site, "-F tank/m", &sent(site, "tank/t/base@1")?)?.success()?;
    is(site, "type", "tank/m", "filesystem")?;
    is(site, "mounted", "tank/m", "yes")
}

/// One property with two values: the last one won, by whichever name it was given.
#[test]
fn no_property_is_given_twice() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    site.ok("zfs create tank/f")?;
    site.ok("zfs snapshot tank/f@1")?;
    let device = site.devices().join("other.img");
    fs::File::create(&device)?.set_len(128 << 20)?;
    let device = device.display();
    let lines = [
        ("zfs set atime=on atime=off tank/f", 255),
        ("zfs set compress=on compression=off tank/f", 255),
        ("zfs create -o rdonly=on -o readonly=on tank/n", 1),
        ("zfs create -V 8M -o volsize=9M tank/n", 1),
        ("zfs create -V 8M -b 8K -o volblock=16K tank/n", 1),
        ("zfs clone -o a:b=1 -o a:b=2 tank/f@1 tank/n", 1),
        ("zfs snapshot -o a:b=1 -o a:b=2 tank/f@n", 1),
        ("zpool create -o expand=on -o autoexpand=off p DEVICE", 1),
        ("zpool create -O atime=on -O atime=off p DEVICE", 1),
        ("zpool create -m /x -O mountpoint=/y p DEVICE", 1),
        ("zpool create -R /x -o altroot=/y p DEVICE", 1),
        ("zpool import -o readonly=on -o rdonly=off p", 1),
        ("zpool import -R /a -o altroot=/b p", 1),
        ("zpool split -o comment=1 -o comment=2 tank n", 2),
    ];
    for (line, code) in lines {
        let line = line.replace("DEVICE", &device.to_string());
        let failed = site.fails(&line)?;
        let said = failed.stderr.contains("specified multiple times");
        ensure!(
            said && failed.code == Some(code),
            "{line}: {}",
            failed.report()
        );
    }
    ensure!(!has(&site, "tank/n")? && !has(&site, "tank/f@n")?);
    // Short names are taken wherever long ones are.
    all(
        &site,
        &[
            "zfs set compress=lz4 tank/f",
            "zfs inherit compress tank/f",
            "zfs list -o name,compress,rdonly -s compress tank/f",
            "zfs clone -o compress=gzip tank/f@1 tank/c",
            "zpool set expand=on tank",
        ],
    )?;
    is(&site, "compress", "tank/c", "gzip")?;
    let expands = site.ok("zpool get -H -o value expand tank")?;
    ensure!(expands.trim() == "on", "{expands}");
    site.finish()
}
