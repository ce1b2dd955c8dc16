//! Pools on network block devices, which `cenote nbd serve --device` serves: servers that end and
//! come back, that stay away, that come back with another disk; and what stands around a device.
//!
//! The servers' files lie where the devices of a site do, so that OpenZFS judges them.

use anyhow::{Context, Result, ensure};
use cenote_tests::network::{Server, Writer, noise, put};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// A site with a new pool on these devices.
fn create(site: &Site, devices: &str) -> Result<()> {
    let root = site.path("").display().to_string();
    site.ok(&format!("zpool create -R {root} tank {devices}"))
        .map(drop)
}

fn import(site: &Site, options: &str, urls: &[&str]) -> Result<()> {
    let root = site.path("").display().to_string();
    let places: String = urls.iter().map(|url| format!(" -d {url}")).collect();
    site.ok(&format!("zpool import -R {root} {options}{places} tank"))
        .map(drop)
}

/// Servers are killed under load, one and all, and for longer than a reconnection takes: writers
/// only notice a pause. Then all operations on devices are tried.
#[test]
fn a_mirror_lives_through_restarts_of_its_servers() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::new("tank")?;
    let [a, b, c] = ["a", "b", "c"].map(|name| Server::of_file(&site, name, 128));
    let (a, b, c) = (a?, b?, c?);
    // Long enough for the outages, and short enough for a test that fails.
    let urls = [a.url("&timeout=30"), b.url("&timeout=30")];
    create(&site, &format!("mirror {} {}", urls[0], urls[1]))?;
    let status = site.ok("zpool status tank")?;
    urls.iter()
        .try_for_each(|url| has(&status, &format!("\t    {url}  ONLINE")))?;

    let (writer, is_over) = (Writer::default(), AtomicBool::new(false));
    let directory = site.path("tank");
    thread::scope(|scope| -> Result<()> {
        let running = scope.spawn(|| writer.write(&directory, &is_over));
        let result = (|| {
            for (servers, outage) in [(vec![&a], 0), (vec![&a, &b], 3), (vec![&b], 1)] {
                let before = writer.count();
                wait_until("files are written", || Ok(writer.count() > before + 3))?;
                servers.iter().try_for_each(|server| server.kill())?;
                thread::sleep(Duration::from_secs(outage));
                servers.iter().try_for_each(|server| server.start())?;
            }
            Ok(())
        })();
        is_over.store(true, Ordering::SeqCst);
        running.join().ok().context("it panicked")??;
        result
    })?;
    writer.check(&directory)?;
    has(&site.ok("zpool status -x tank")?, "healthy")?;

    // A daemon that waits for itself would hang.
    site.ok("zfs create -s -V 100M tank/v")?;
    let own = site.ok("cenote nbd serve tank/v")?;
    let refused = site.fails(&format!("zpool create other {}", own.trim()))?;
    has(&refused.stderr, "it is served by this daemon")?;
    site.ok("zfs destroy tank/v")?;

    // The protocol has no locks; the daemon knows what it has.
    let refused = site.fails(&format!("zpool create -f other {}", urls[0]))?;
    has(&refused.stderr, "is part of active pool 'tank'")?;
    let refused = site.fails(&format!("zpool labelclear -f {}", urls[1]))?;
    has(&refused.stderr, "tank")?;

    site.crash()?;
    import(&site, "", &[&urls[0], &urls[1]])?;
    writer.check(&directory)?;
    devices_are_exchanged(&site, &urls, &c.url("&timeout=30"))?;
    let line = format!("cenote verify -q -d {} -d {} tank", urls[0], urls[1]);
    site.ok(&line)?;
    fs::remove_file(site.devices().join("c.img"))?;
    site.judge()
}

/// What is done with devices, done with those of the network; the pool is exported in the end.
fn devices_are_exchanged(site: &Site, urls: &[String; 2], spare: &str) -> Result<()> {
    site.ok(&format!("zpool replace -w tank {} {}", urls[1], spare))?;
    // `replace -w` returned a moment before the old device was released.
    site.ok(&format!("zpool attach -w tank {} {}", urls[0], urls[1]))?;
    site.ok(&format!("zpool offline tank {}", urls[0]))?;
    put(&site.path("tank").join("late"), b"late")?;
    site.ok(&format!("zpool online tank {}", urls[0]))?;
    site.ok("zpool wait -t resilver tank")?;
    site.ok(&format!("zpool detach tank {}", spare))?;
    site.ok("zpool scrub -w tank")?;
    has(&site.ok("zpool status -x tank")?, "healthy")?;
    let line = format!("cenote ls -d {} -d {} tank:/late", urls[0], urls[1]);
    has(&site.ok(&line)?, "late")?;
    site.ok("zpool export tank").map(drop)
}

/// A server that stays away suspends the pool after the configured time, and never hangs it. A
/// server that comes back with another disk gets no writes: the protocol does not identify an
/// export's disk, and unflushed writes went to another disk.
#[test]
fn a_server_that_stays_away_or_has_another_disk_suspends_the_pool() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::new("tank")?;
    let server = Server::of_file(&site, "a", 128)?;
    let url = server.url("&timeout=1");
    create(&site, &url)?;
    let directory = site.path("tank");
    put(&directory.join("first"), b"first")?;
    let is_suspended = || Ok(site.ok("zpool list -Ho health tank")? == "SUSPENDED\n");
    server.kill()?;
    let late = directory.join("late");
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| put(&late, b"late"));
        wait_until("suspended", is_suspended)?;
        has(&site.fails("zpool clear tank")?.stderr, "do not answer")?;

        let stranger = site.cenote().directory().join("stranger.img");
        File::create(&stranger)?.set_len(128 * MIB)?;
        server.start_with(&stranger.display().to_string())?;
        site.fails("zpool clear tank")?;
        let (mut bytes, mut file) = (Vec::new(), File::open(&stranger)?);
        file.read_to_end(&mut bytes)?;
        ensure!(
            bytes.iter().all(|byte| *byte == 0),
            "the other disk is written to"
        );
        server.kill()?;

        server.start()?;
        clear(&site)?;
        writer.join().ok().context("it panicked")?
    })?;
    ensure!(fs::read(&late)? == b"late");
    has(&site.ok("zpool list -Ho health tank")?, "ONLINE")?;
    an_older_copy_is_not_taken(&site, &server)?;
    site.ok("zpool export tank")?;
    site.judge()
}

/// Resumes the pool as soon as its disk answers again.
fn clear(site: &Site) -> Result<()> {
    wait_until("it is cleared", || {
        let cleared = site.cenote().run("zpool", &["clear", "tank"])?;
        Ok(cleared.code == Some(0))
    })
}

/// Neither does an older copy from before an `fsync`, which has the same labels as the disk: it was
/// used once the connection had been given up, while the data promised by `fsync` was only in
/// memory.
fn an_older_copy_is_not_taken(site: &Site, server: &Server) -> Result<()> {
    let disk = site.devices().join("a.img");
    let older = site.cenote().directory().join("older.img");
    let directory = site.path("tank");
    site.ok("zpool sync tank")?;
    fs::copy(&disk, &older)?;
    let before = fs::read(&older)?;
    put(&directory.join("promised"), b"promised")?;
    server.kill()?;
    let later = directory.join("later");
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| put(&later, b"later"));
        wait_until("suspended", || {
            Ok(site.ok("zpool list -Ho health tank")? == "SUSPENDED\n")
        })?;
        server.start_with(&older.display().to_string())?;
        site.fails("zpool clear tank")?;
        ensure!(fs::read(&older)? == before, "the copy is written to");
        server.kill()?;
        server.start()?;
        clear(site)?;
        writer.join().ok().context("it panicked")?
    })?;
    ensure!(fs::read(directory.join("promised"))? == b"promised");
    Ok(fs::remove_file(older)?)
}

/// `--cow` leaves the device as it is, `--stats` says what came; a device in a store is served,
/// and has everything when the command has ended.
#[test]
fn devices_are_served_with_filters_and_from_stores() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::new("tank")?;
    let image = site.devices().join("a.img");
    File::create(&image)?.set_len(128 * MIB)?;
    let options = ["--cow", "--stats", "--delay", "1ms", "--rate", "100M"];
    let server = Server::new(&site, "cow", &image.display().to_string(), &options)?;
    create(&site, &server.url(""))?;
    put(&site.path("tank").join("a"), &noise(1, MIB))?;
    site.ok("zpool export tank")?;
    let said = server.end()?;
    for word in ["read: ", "write: ", "flush: ", "  alignment\n"] {
        has(&said, word)?;
    }
    ensure!(
        fs::read(&image)?.iter().all(|byte| *byte == 0),
        "it was written to"
    );
    let device = image.display().to_string();
    let refused = Server::new(&site, "ro", &device, &["--readonly"])?;
    let outcome = site.fails(&format!("zpool create tank {}", refused.url("")))?;
    has(&outcome.stderr, "read-only")?;
    fs::remove_file(&image)?;

    let store = site.cenote().directory().join("store");
    let url = format!("file://{}", store.display());
    let server = Server::new(&site, "store", &format!("{url}?size=1G"), &[])?;
    create(&site, &server.url(""))?;
    put(&site.path("tank").join("a"), &noise(2, 2 * MIB))?;
    site.ok("zpool export tank")?;
    server.end()?;
    let copy = site.devices().join("copy.img").display().to_string();
    site.ok(&format!("cenote cloud copy -q {url} {copy}"))?;
    import(&site, "", &[&copy])?;
    ensure!(fs::read(site.path("tank").join("a"))? == noise(2, 2 * MIB));
    site.ok("zpool export tank")?;
    site.judge()
}
