//! The life of a daemon: read-only commands, a crash, recovery from it, its log.

use anyhow::{Context, Result, ensure};
use cenote_tests::program::{Limits, Outcome, run};
use cenote_tests::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A user without rights.
const NOBODY: u32 = 65_534;

fn as_nobody(site: &Site, line: &str) -> Result<Outcome> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (program, arguments) = words.split_first().context("a command")?;
    let mut command = site.cenote().command(program, arguments);
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    run(command, b"", Limits::default())
}

/// Kills the running daemon, even one that a command started, and waits for its end.
fn kill_daemon(site: &Site) -> Result<()> {
    let status = site.ok("cenote daemon status -j")?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let pid = status["pid"].as_i64().context("a process")?;
    let process = Pid::from_raw(i32::try_from(pid)?).context("a process")?;
    kill_process(process, Signal::KILL)?;
    let end = Instant::now() + Duration::from_secs(30);
    while std::os::unix::net::UnixStream::connect(site.cenote().socket()).is_ok() {
        ensure!(Instant::now() < end, "the daemon does not die");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Ordinary users used to be refused whatever they asked; now they see what OpenZFS shows them, and
/// nothing else is done for them.
#[test]
fn others_may_look_and_do_nothing() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let location = format!("keylocation=file://{}", key.display());
    site.ok(&format!(
        "zfs create -o encryption=on -o keyformat=passphrase -o {location} tank/secret"
    ))?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.cenote().directory(), open)?;
    for (line, expected) in [
        ("zpool list -H -o name,health", "tank\tONLINE\n"),
        ("zpool get -H -o value readonly tank", "off\n"),
        ("zfs list -H -o name -r tank", "tank\ntank/secret\n"),
        ("zfs get -H -o value keystatus tank/secret", "available\n"),
        ("zfs get -H -o value keylocation tank/secret", "-\n"),
    ] {
        let seen = as_nobody(&site, line)?.success()?.text();
        ensure!(seen == expected, "{line}: {seen}");
    }
    let status = as_nobody(&site, "zpool status -v")?.success()?.text();
    ensure!(status.contains("state: ONLINE"), "{status}");
    let health = as_nobody(&site, "cenote health --no-smart")?;
    ensure!(health.code != Some(3), "{}", health.report());
    for line in [
        "zfs snapshot tank@a",
        "zpool export tank",
        "zpool history tank",
        "zfs set atime=off tank",
        "zfs send tank/secret",
        "cenote daemon stop",
        "cenote daemon forget",
        "zfs unload-key tank/secret",
    ] {
        let refused = as_nobody(&site, line)?;
        ensure!(refused.code.is_some_and(|code| code != 0), "{line}");
        ensure!(
            refused.stderr.contains("ermission denied"),
            "{}",
            refused.report()
        );
    }
    ensure!(site.ok("zfs list -H -t snapshot")?.is_empty());
    site.finish()
}

/// A daemon that was killed used to be the same as none: status and health said that there were no
/// pools, with exit code 0, while its mounts did not answer.
#[test]
fn a_dead_daemon_is_told_and_what_it_had_comes_back() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let location = format!("keylocation=file://{}", key.display());
    let encryption = "-o encryption=on -o keyformat=passphrase";
    site.ok(&format!(
        "zfs create {encryption} -o {location} tank/secret"
    ))?;
    site.ok("zfs create -o canmount=noauto tank/quiet")?;
    for dataset in ["tank", "tank/secret"] {
        fs::write(site.path(dataset).join("file"), dataset)?;
    }
    site.ok("zfs snapshot tank@kept")?;
    let aside = site.cenote().subdirectory("aside")?;
    site.ok(&format!("cenote mount tank@kept {}", aside.display()))?;
    let record = site.cenote().directory().join("state/daemons");
    wait_for(&record, "aside")?;
    site.kill()?;

    death_is_told(&site)?;
    // Settings and help concern no pools.
    site.ok("zpool help status")?;

    let resumed = site.ok("cenote daemon resume")?;
    ensure!(
        resumed.contains("tank: imported, 3 file systems"),
        "{resumed}"
    );
    for dataset in ["tank", "tank/secret"] {
        let file = site.path(dataset).join("file");
        ensure!(fs::read_to_string(file)? == dataset);
    }
    ensure!(fs::read_to_string(aside.join("file"))? == "tank");
    site.ok("zpool status -x")?;

    // Commands that change a pool resume it first. File systems mounted just before the crash were
    // once left out silently.
    site.ok("zfs create tank/late")?;
    kill_daemon(&site)?;
    let snapshot = site.cenote().run("zfs", &["snapshot", "tank@after"])?;
    ensure!(snapshot.stderr.contains("its pools are imported again"));
    snapshot.success()?;
    ensure!(site.ok("zfs list -H -o name tank@after")? == "tank@after\n");
    ensure!(site.ok("zfs get -H -o value mounted tank/late")? == "yes\n");

    let log = site.ok("cenote daemon log")?;
    ensure!(log.contains("INFO  pool 'tank': pool_import"), "{log}");
    ensure!(log.contains("ERROR the daemon on"), "no alarm in {log}");
    ensure!(site.ok("cenote daemon log -n 1")?.lines().count() == 1);
    site.export()?;
    ensure!(site.ok("cenote health")?.contains("no pools are imported"));
    ensure!(
        site.ok("cenote daemon resume")?
            .contains("nothing to resume")
    );
    site.ok("cenote daemon stop")?;
    site.start()?;
    site.import("")?;
    site.finish()
}

/// Queries about pools exit with code 3 and report the crash, always in the same words.
fn death_is_told(site: &Site) -> Result<()> {
    let mut said = Vec::new();
    for line in [
        "zpool status -x",
        "zpool status",
        "zpool list",
        "zpool get all",
        "zfs list",
        "cenote health",
        "cenote health -q",
        "cenote daemon status",
    ] {
        let outcome = site.fails(line)?;
        ensure!(outcome.code == Some(3), "{}", outcome.report());
        said.push(outcome.stderr.clone());
    }
    let first = &said[0];
    ensure!(said.iter().all(|other| other == first), "{said:#?}");
    for word in ["died", "tank", "last seen", "cenote daemon resume", "aside"] {
        ensure!(first.contains(word), "no '{word}' in {first}");
    }
    Ok(())
}

/// After an orderly stop nothing died; what was not exported comes back from the cache file.
#[test]
fn what_was_not_exported_comes_back_after_a_stop() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    // An alternate root keeps a pool out of the cache file.
    site.export()?;
    let devices = site.devices().display().to_string();
    site.ok(&format!("zpool import -N -d {devices} tank"))?;
    site.ok("cenote daemon stop")?;
    site.cenote().run("zpool", &["status"])?.success()?;
    ensure!(site.ok("cenote health")?.contains("no pools are imported"));
    let resumed = site.ok("cenote daemon resume")?;
    ensure!(resumed.contains("tank: imported"), "{resumed}");
    // With a damaged cache file the pool would not be imported again; this was silent.
    let cache = site.cenote().directory().join("state/zpool.cache");
    fs::write(&cache, "junk")?;
    site.export()?;
    let line = ["import", "-N", "-d", &devices, "tank"];
    let imported = site.cenote().run("zpool", &line)?.success()?;
    let said = imported.stderr;
    ensure!(
        said.contains("not in their cache file") && said.contains("'tank': "),
        "{said}"
    );
    ensure!(site.fails("cenote health --no-smart")?.code == Some(1));
    fs::remove_file(&cache)?;
    site.ok("zpool set cachefile= tank")?;
    site.ok("cenote health --no-smart")?;
    // What is not wanted any more can be forgotten.
    kill_daemon(&site)?;
    ensure!(site.fails("zpool list")?.code == Some(3));
    site.ok("cenote daemon forget")?;
    site.ok("zpool list")?;
    site.ok("cenote daemon resume")?;
    site.finish()
}

/// An upgrade of the packages stopped the daemon and resumed. Pools in no cache file, served
/// volumes and mounts in other places were lost, and the package reported that all pools were
/// imported again. A key typed by a user was lost, too.
#[test]
fn a_restart_brings_back_what_only_commands_gave_the_daemon() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    site.ok("zfs create -V 8M tank/volume")?;
    // A daemon that was started with options must be restarted in the same way.
    let refused = site.fails("cenote daemon restart")?;
    ensure!(
        refused
            .stderr
            .contains("it was started with 'cenote daemon run'"),
        "{}",
        refused.report()
    );
    site.export()?;
    site.ok("cenote daemon stop")?;
    let devices = site.devices().display().to_string();
    site.ok(&format!("zpool import -N -o readonly=on -d {devices} tank"))?;
    let socket = site.cenote().directory().join("nbd");
    let socket = socket.display();
    site.ok(&format!("cenote nbd serve --unix {socket} tank/volume"))?;
    let process = |site: &Site| -> Result<i64> {
        let status: serde_json::Value = serde_json::from_str(&site.ok("cenote daemon status -j")?)?;
        status["pid"].as_i64().context("a process")
    };
    let first = process(&site)?;
    let said = site.ok("cenote daemon restart")?;
    ensure!(
        said.contains("tank: imported") && said.contains("1 volume served"),
        "{said}"
    );
    ensure!(process(&site)? != first, "it is the same daemon");
    ensure!(site.ok("zpool get -H -o value readonly tank")? == "on\n");
    // There was no crash, and the log agrees.
    let log = site.ok("cenote daemon log")?;
    ensure!(!log.contains("died with pools"), "{log}");
    site.export()?;
    site.ok(&format!("zpool import -N -d {devices} tank"))?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase")?;
    let location = format!("-L file://{}", key.display());
    site.ok(&format!(
        "zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file://{} tank/secret",
        key.display()
    ))?;
    site.ok("zfs set keylocation=prompt tank/secret")?;
    let second = process(&site)?;
    let refused = site.fails("cenote daemon restart")?;
    ensure!(
        refused.report().contains("tank/secret"),
        "{}",
        refused.report()
    );
    ensure!(process(&site)? == second, "it was restarted");
    site.ok("cenote daemon restart -f").err();
    site.ok(&format!("zfs load-key {location} tank/secret"))?;
    site.finish()
}

/// Waits until a word is in a record of a directory; one that is still being written, beside its
/// place, may be lost with the daemon.
fn wait_for(directory: &Path, word: &str) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        for file in fs::read_dir(directory)? {
            let path = file?.path();
            let is_record = path
                .extension()
                .is_some_and(|extension| extension == "json");
            if is_record && fs::read_to_string(path).is_ok_and(|text| text.contains(word)) {
                return Ok(());
            }
        }
        ensure!(
            Instant::now() < end,
            "no '{word}' in {}",
            directory.display()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// If the record of a killed daemon was garbage or could not be written, its pools were forgotten:
/// health and status reported no problem, while its mounts did not answer.
#[test]
fn what_a_dead_daemon_had_is_never_taken_for_nothing() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let state = site.cenote().directory().join("state");
    let records = state.join("daemons");
    wait_for(&records, "/tank")?;
    kill_daemon(&site)?;
    let record = fs::read_dir(&records)?.next().context("a record")??.path();
    for garbage in ["", "{\"socket\": 7}"] {
        fs::write(&record, garbage)?;
        is_unknown(&site, &record.display().to_string())?;
    }
    // Without any record the socket and the mounts are left.
    fs::remove_file(&record)?;
    is_unknown_with(&site, "zpool status -x", "do not answer")?;
    let forgotten = site.cenote().run("cenote", &["daemon", "forget"])?;
    let place = site.path("tank").display().to_string();
    ensure!(forgotten.stderr.contains(&place), "{}", forgotten.report());
    site.ok(&format!("cenote unmount {place}"))?;
    ensure!(site.ok("cenote health")?.contains("no pools are imported"));

    // A path below a file cannot be written to.
    fs::remove_dir_all(&records)?;
    fs::write(&records, "")?;
    let devices = site.devices().display().to_string();
    let root = site.path("").display().to_string();
    let line = format!("import -R {root} -d {devices} tank");
    let words: Vec<&str> = line.split(' ').collect();
    let imported = site.cenote().run("zpool", &words)?;
    ensure!(
        imported.stderr.contains("cannot write down"),
        "{}",
        imported.report()
    );
    imported.success()?;
    let health = site.cenote().run("cenote", &["health", "--no-smart"])?;
    ensure!(
        health.stderr.contains("cannot write down"),
        "{}",
        health.report()
    );
    ensure!(health.code != Some(0), "{}", health.report());
    kill_daemon(&site)?;
    is_unknown_with(&site, "cenote health", "It had imported: tank")?;
    site.ok("cenote daemon resume")?;
    fs::remove_file(&records)?;
    site.ok("zfs create tank/more")?;

    // With a FIFO in place of the log, reading it blocked forever.
    let log = state.join("daemon.log");
    fs::remove_file(&log)?;
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &log,
        rustix::fs::Mode::from_raw_mode(0o600),
    )?;
    let shown = site.fails("cenote daemon log")?;
    ensure!(
        shown.stderr.contains("not a regular file"),
        "{}",
        shown.report()
    );
    site.finish()
}

/// Queries about pools report that a crash cannot be ruled out, and why.
fn is_unknown(site: &Site, why: &str) -> Result<()> {
    for line in [
        "zpool status -x",
        "zfs list",
        "cenote health",
        "cenote daemon status",
    ] {
        is_unknown_with(site, line, "is unknown")?;
        is_unknown_with(site, line, why)?;
    }
    Ok(())
}

fn is_unknown_with(site: &Site, line: &str, word: &str) -> Result<()> {
    let outcome = site.fails(line)?;
    ensure!(outcome.code == Some(3), "{}", outcome.report());
    ensure!(outcome.stderr.contains(word), "{}", outcome.report());
    Ok(())
}
