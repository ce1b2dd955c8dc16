//! Pools in object stores, through the commands; a directory serves as the store.
//!
//! Each site is a machine of its own: it has a daemon and a local side that others do not see.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::referee;
use cenote_tests::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;

const MIB: usize = 1 << 20;

/// A directory as a store, beside the machines that use it.
struct Store {
    directory: tempfile::TempDir,
}

impl Store {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    /// OpenZFS checks the pool in these stores.
    fn judge(&self, site: &Site, names: &[&str]) -> Result<()> {
        let images = self.path("images");
        fs::create_dir_all(&images)?;
        for name in names {
            let image = images.join(format!("{name}.img"));
            let (url, image) = (self.url(name), image.display());
            site.ok(&format!("cenote cloud copy -q {url} {image}"))?;
            site.ok(&format!("cenote cloud verify -q {url}"))?;
        }
        referee::judge(&images, "tank");
        Ok(())
    }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Writes a file and waits until it is durable.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// A machine with a new pool on these devices.
fn site_with(devices: &str) -> Result<Site> {
    let site = Site::new("tank")?;
    let root = site.path("").display().to_string();
    site.ok(&format!("zpool create -R {root} tank {devices}"))?;
    Ok(site)
}

fn import(site: &Site, options: &str, places: &[&str]) -> Result<String> {
    let root = site.path("").display().to_string();
    let places: String = places.iter().map(|place| format!(" -d {place}")).collect();
    site.ok(&import_line(&root, options, &places))
}

fn import_line(root: &str, options: &str, places: &str) -> String {
    format!("zpool import -R {root} {options}{places} tank")
}

fn refused_import(site: &Site, options: &str, place: &str) -> Result<String> {
    let root = site.path("").display().to_string();
    let line = import_line(&root, options, &format!(" -d {place}"));
    Ok(site.fails(&line)?.stderr)
}

#[test]
fn a_pool_in_a_directory_goes_from_machine_to_machine() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let missing = Site::new("tank")?;
    has(&refused_import(&missing, "", &url)?, "there is no device")?;
    ensure!(!store.path("a").exists(), "looking makes no store");

    let here = site_with(&format!("{url}?size=1T&log=16M"))?;
    has(&here.ok("zpool get -Ho value autotrim tank")?, "on")?;
    has(&here.ok("zfs get -Ho value compression tank")?, "zstd")?;
    let kept = noise(1, 3 * MIB);
    put(&here.path("tank").join("kept"), &kept)?;
    let status = here.ok("zpool status tank")?;
    has(&status, &format!("\t  {url}  ONLINE"))?;
    has(&status, "wait to be uploaded, the oldest for")?;
    has(&status, "cache=writeback")?;
    has(&here.ok("zpool status -j tank")?, "\"pending_bytes\":")?;

    // What was durable is in the local log, and the store has an older state.
    here.crash()?;
    import(&here, "", &[&url])?;
    ensure!(fs::read(here.path("tank").join("kept"))? == kept);
    here.ok("zpool export -n tank")?;

    let there = missing;
    let held = refused_import(&there, "", &url)?;
    has(&held, "in use by host '")?;
    has(&held, "-f takes it over")?;
    import(&there, "-o readonly=on", &[&url])?;
    ensure!(
        !there.path("tank").join("kept").exists(),
        "it is not in the store"
    );
    there.ok("zpool export tank")?;

    import(&here, "", &[&url])?;
    here.ok("cenote cloud sync tank")?;
    has(&here.ok("zpool status tank")?, "everything is uploaded")?;
    import(&there, "-o readonly=on", &[&url])?;
    ensure!(fs::read(there.path("tank").join("kept"))? == kept);
    there.ok("zpool export tank")?;
    here.ok("zpool export tank")?;

    let file = store.path("zpool.cache").display().to_string();
    import(&there, &format!("-o cachefile={file}"), &[&url])?;
    ensure!(fs::read(there.path("tank").join("kept"))? == kept);
    there.crash()?;
    let root = there.path("").display().to_string();
    there.ok(&format!("zpool import -R {root} -c {file} tank"))?;
    ensure!(fs::read(there.path("tank").join("kept"))? == kept);
    there.ok("zpool export tank")?;
    store.judge(&there, &["a"])
}

#[test]
fn without_the_local_side_the_store_is_as_of_an_upload() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let site = site_with(&format!("{url}?size=1G&log=16M"))?;
    let first = noise(2, 2 * MIB);
    put(&site.path("tank").join("first"), &first)?;
    site.ok("cenote cloud sync tank")?;
    put(&site.path("tank").join("second"), &noise(3, 2 * MIB))?;
    site.kill()?;
    fs::remove_dir_all(site.cenote().directory().join("state/cloud"))?;
    site.start()?;
    has(&refused_import(&site, "", &url)?, "-f takes it over")?;
    import(&site, "-f", &[&url])?;
    ensure!(fs::read(site.path("tank").join("first"))? == first);
    ensure!(!site.path("tank").join("second").exists());
    put(&site.path("tank").join("third"), &first)?;
    site.ok("zpool export tank")?;
    store.judge(&site, &["a"])
}

#[test]
fn of_two_who_have_a_pool_one_writes() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let old = site_with(&format!("{url}?size=1G&log=16M"))?;
    put(&old.path("tank").join("shared"), b"shared")?;
    old.ok("cenote cloud sync tank")?;
    put(&old.path("tank").join("lost"), b"never uploaded")?;
    let new = Site::new("tank")?;
    import(&new, "-f", &[&url])?;
    put(&new.path("tank").join("new"), b"new")?;
    has(
        &old.fails("cenote cloud sync tank")?.stderr,
        "taken over by host",
    )?;
    has(
        &old.ok("zpool status tank")?,
        "failed: taken over by host '",
    )?;
    let health = old.fails("cenote health tank")?;
    ensure!(health.code == Some(2), "{}", health.report());
    has(&health.text(), "failed: taken over by host '")?;
    let writer = old.path("tank").join("late");
    thread::scope(|scope| -> Result<()> {
        let late = scope.spawn(|| put(&writer, b"too late"));
        wait_until("suspended", || {
            Ok(old.ok("zpool list -Ho health tank")? == "SUSPENDED\n")
        })?;
        ensure!(fs::read(old.path("tank").join("shared"))? == b"shared");
        old.ok("zpool export -f tank")?;
        ensure!(
            late.join().ok().context("it panicked")?.is_err(),
            "the pool is not in use"
        );
        Ok(())
    })?;
    ensure!(fs::read(new.path("tank").join("new"))? == b"new");
    new.ok("zpool export tank")?;

    // What it had is kept, and said.
    import(&old, "", &[&url])?;
    ensure!(!old.path("tank").join("lost").exists());
    ensure!(fs::read(old.path("tank").join("new"))? == b"new");
    has(
        &old.ok("zpool status tank")?,
        "another host took over without this host's log",
    )?;
    old.ok("zpool export tank")?;
    store.judge(&old, &["a"])
}

#[test]
fn work_goes_on_while_the_store_is_away() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let site = Site::new("tank")?;
    site.ok("cenote settings set cloud_commit_seconds=1")?;
    let root = site.path("").display().to_string();
    let device = format!("{url}?size=1G&log=16M");
    site.ok(&format!(
        "zpool create -R {root} -O compression=off tank {device}"
    ))?;
    let before = noise(4, MIB);
    put(&site.path("tank").join("before"), &before)?;
    site.ok("cenote cloud sync tank")?;

    fs::rename(store.path("a"), store.path("away"))?;
    let contents: Vec<Vec<u8>> = (0..40).map(|number| noise(100 + number, MIB)).collect();
    let file = site.path("tank").join("file");
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            let mut file = File::create(&file)?;
            for part in &contents {
                file.write_all(part)?;
                file.sync_all()?;
            }
            Ok(())
        });
        let looked = (|| {
            wait_until("told", || {
                let status = site.ok("zpool status tank")?;
                Ok(status.contains("the store has not answered for"))
            })?;
            ensure!(fs::read(site.path("tank").join("before"))? == before);
            wait_until("full", || {
                let status = site.ok("zpool status -j tank")?;
                let used = number_of(&status, "log_used")?;
                Ok(used > 14 << 20)
            })?;
            ensure!(!writer.is_finished(), "the writer does not wait");
            Ok(())
        })();
        fs::rename(store.path("away"), store.path("a"))?;
        let written = writer.join().ok().context("the writer failed")?;
        looked.and(written)
    })?;
    site.crash()?;
    import(&site, "", &[&url])?;
    ensure!(fs::read(&file)? == contents.concat());
    site.ok("zpool export tank")?;
    store.judge(&site, &["a"])
}

/// A number in JSON.
fn number_of(text: &str, name: &str) -> Result<u64> {
    let (_, rest) = text
        .split_once(&format!("\"{name}\":"))
        .context("its name")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

#[test]
fn several_devices_are_written_through() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let (data, special) = (store.url("data"), store.url("special"));
    let site = Site::new("tank")?;
    let root = site.path("").display().to_string();
    let create = format!("zpool create -f -R {root} tank");
    let refused = site.fails(&format!(
        "{create} {data}?size=1G special {special}?size=1G"
    ))?;
    has(&refused.stderr, "needs ?cache=writethrough")?;
    has(&refused.stderr, "of two ages")?;
    ensure!(!store.path("data").exists(), "nothing was made");
    let through = "size=1G&log=16M&cache=writethrough";
    site.ok(&format!(
        "{create} {data}?{through} special {special}?{through}"
    ))?;
    has(&site.ok("zpool status tank")?, "cache=writethrough")?;
    let bytes = noise(5, MIB);
    put(&site.path("tank").join("file"), &bytes)?;

    // What was durable is in the stores, so the local side is not missed.
    site.kill()?;
    fs::remove_dir_all(site.cenote().directory().join("state/cloud"))?;
    site.start()?;
    let back = refused_import(&site, "-f", &format!("{data}?cache=writeback -d {special}"))?;
    has(&back, "no cache=writeback")?;
    import(&site, "-f", &[&data, &special])?;
    has(&site.ok("zpool status tank")?, "cache=writethrough")?;
    ensure!(fs::read(site.path("tank").join("file"))? == bytes);
    site.ok("zpool export tank")?;
    store.judge(&site, &["data", "special"])
}

#[test]
fn a_disk_is_mirrored_by_a_store_and_moves_there() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let disk = store.path("disk.img");
    File::create(&disk)?.set_len(256 << 20)?;
    let site = site_with(&disk.display().to_string())?;
    let bytes = noise(6, 4 * MIB);
    put(&site.path("tank").join("file"), &bytes)?;
    let refused = site.fails(&format!(
        "zpool attach tank {} {url}?size=256M",
        disk.display()
    ))?;
    has(&refused.stderr, "needs ?cache=writethrough")?;
    let new = format!("{url}?size=256M&log=16M&cache=writethrough");
    site.ok(&format!("zpool attach -w tank {} {new}", disk.display()))?;
    site.ok(&format!("zpool detach tank {}", disk.display()))?;
    site.ok("zpool export tank")?;
    fs::remove_file(&disk)?;
    import(&site, "", &[&url])?;
    ensure!(fs::read(site.path("tank").join("file"))? == bytes);
    has(&site.ok("zpool status tank")?, "cache=writeback")?;
    has(
        &site.ok(&format!("cenote cloud price {url}"))?,
        "to fetch everything once",
    )?;
    site.ok("cenote cloud compact tank")?;
    has(&site.ok("cenote cloud status tank")?, "put ")?;
    let another = store.path("other.img");
    File::create(&another)?.set_len(256 << 20)?;
    let other = another.display();
    let refused = site.fails(&format!("zpool attach tank {url} {other}"))?;
    has(&refused.stderr, "export the pool, and import it with -d")?;
    site.ok("zpool export tank")?;
    store.judge(&site, &["a"])
}

/// The newest data objects of a store.
fn newest(store: &Path, count: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store.join("data"))? {
        let entry = entry?;
        found.push((entry.metadata()?.modified()?, entry.path()));
    }
    found.sort();
    let paths = found.into_iter().rev().map(|(_, path)| path);
    Ok(paths.take(count).collect())
}

/// Objects were removed below a pool in use: a scrub read the read cache
/// and found no errors, health was well, and with the local side all that only it had was lost.
#[test]
fn what_a_store_loses_below_a_pool_in_use_is_put_again() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let site = site_with(&format!("{url}?size=1G&log=32M"))?;
    let files = |first: u64| (first..first + 4).map(|seed| (seed, noise(seed, 400_000)));
    let write = |first: u64| -> Result<()> {
        for (seed, bytes) in files(first) {
            fs::write(site.path(&format!("tank/f{seed}")), bytes)?;
        }
        site.ok("cenote cloud sync tank").map(drop)
    };
    write(0)?;
    for object in newest(&store.path("a"), 2)? {
        fs::remove_file(object)?;
    }
    has(&site.ok("zpool status -x")?, "all pools are healthy")?;
    site.ok("zpool scrub -w tank")?;
    let status = site.ok("zpool status tank")?;
    ensure!(!status.contains("repaired 0B"), "{status}");
    has(&status, "errors: No known data errors")?;
    site.fails("cenote health tank")?;
    has(&status, "it is missing")?;
    site.ok("cenote cloud sync tank")?;
    site.ok("cenote cloud verify -q tank")?;
    site.ok("zpool clear tank")?;

    // The same, found by a verification.
    write(4)?;
    for object in newest(&store.path("a"), 1)? {
        fs::remove_file(object)?;
    }
    has(
        &site.ok("cenote cloud verify -q tank")?,
        "put again from this machine",
    )?;

    for (seed, bytes) in [0, 4].into_iter().flat_map(files) {
        let found = fs::read(site.path(&format!("tank/f{seed}")))?;
        ensure!(found == bytes, "f{seed} is wrong");
    }
    site.ok("zpool export tank")?;
    store.judge(&site, &["a"])
}

/// A device that is shown as a file until this goes away.
struct Shown(Child);

impl Shown {
    fn new(site: &Site, options: &str, url: &str, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let place = directory.display().to_string();
        let mut words = vec!["device", "export"];
        words.extend(options.split_whitespace());
        words.extend([url, place.as_str()]);
        let mut command = site.cenote().command("cenote", &words);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let shown = Self(quiet.spawn()?);
        wait_until("shown", || Ok(directory.join("disk").exists()))?;
        Ok(shown)
    }

    fn end(mut self) -> Result<()> {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(process.context("a process")?, Signal::INT)?;
        ensure!(self.0.wait()?.success(), "it did not end in order");
        Ok(())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // After a failure no process may be left.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_device_is_shown_as_a_file() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let site = Site::new("tank")?;
    let shown = Shown::new(&site, "", &format!("{url}?size=256M"), &store.path("shown"))?;
    let root = site.path("").display().to_string();
    let disk = store.path("shown/disk").display().to_string();
    site.ok(&format!("zpool create -R {root} tank {disk}"))?;
    let bytes = noise(7, 2 * MIB);
    put(&site.path("tank").join("file"), &bytes)?;
    site.ok("zpool export tank")?;
    shown.end()?;

    import(&site, "", &[&url])?;
    ensure!(fs::read(site.path("tank").join("file"))? == bytes);
    site.ok("zpool export tank")?;
    let shown = Shown::new(&site, "-r", &url, &store.path("shown"))?;
    import(&site, "-o readonly=on", &[&disk])?;
    ensure!(fs::read(site.path("tank").join("file"))? == bytes);
    site.ok("zpool export tank")?;
    shown.end()?;
    store.judge(&site, &["a"])
}

/// The largest data object of a store.
fn largest(store: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(store.join("data"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let size = |path: &PathBuf| path.metadata().map_or(0, |found| found.len());
    paths.into_iter().max_by_key(size).context("no data object")
}

/// A short object was taken for a store that does not answer: reads, scrubs and exports hung, in a
/// mirror with a healthy disk, too, and health said that all is well.
#[test]
fn a_short_object_is_damage_and_no_outage() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let store = Store::new()?;
    let url = store.url("a");
    let site = Site::new("tank")?;
    let disk = store.path("disk.img");
    File::create(&disk)?.set_len(256 << 20)?;
    let (root, disk) = (site.path("").display().to_string(), disk.display());
    let through = "size=256M&log=16M&cache=writethrough";
    site.ok(&format!(
        "zpool create -f -R {root} tank mirror {disk} {url}?{through}"
    ))?;
    let files: Vec<Vec<u8>> = (0..10).map(|seed| noise(seed, 200_000)).collect();
    for (number, bytes) in files.iter().enumerate() {
        // One by one they would be in commits, and in no data object.
        fs::write(site.path(&format!("tank/f{number}")), bytes)?;
    }
    site.ok("cenote cloud sync tank")?;
    site.ok("zpool export tank")?;
    let object = largest(&store.path("a"))?;
    let file = File::options().write(true).open(&object)?;
    file.set_len(file.metadata()?.len() / 2)?;
    let name = object.file_name().context("a name")?;
    let name = name.to_string_lossy().into_owned();
    let verify = format!("cenote cloud verify -q {url}");
    let told = |outcome: &[u8]| String::from_utf8_lossy(outcome).into_owned();
    has(&told(&site.fails(&verify)?.stdout), &name)?;

    // Another machine, with an empty cache.
    let there = Site::new("tank")?;
    import(&there, "", &[&disk.to_string(), &url])?;
    for (number, bytes) in files.iter().enumerate() {
        let found = fs::read(there.path(&format!("tank/f{number}")))?;
        ensure!(found == *bytes, "f{number} is wrong");
    }
    there.ok("zpool scrub -w tank")?;
    has(&there.ok("zpool status tank")?, &name)?;
    let health = told(&there.fails("cenote health tank")?.stdout);
    has(&health, &name)?;
    ensure!(!health.contains("0B were repaired"), "{health}");
    // What was repaired lies elsewhere: nothing that is needed is damaged.
    there.ok("cenote cloud sync tank")?;
    has(&there.ok(&verify)?, "what is needed of it is intact")?;
    there.ok("cenote cloud compact tank")?;
    wait_until("the damaged object is gone", || {
        Ok(!there.ok("zpool status tank")?.contains(&name))
    })?;
    there.ok("zpool clear tank")?;
    there.ok("zpool export tank")?;
    there.ok(&verify)?;
    Ok(())
}
