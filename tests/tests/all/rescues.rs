//! Saving files from a pool that is damaged, foreign or in use.
//!
//! Looking must not change anything, and a refusal must say what to do.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::pool;
use cenote_tests::program::Cenote;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where a vdev's space begins on its device, behind the labels and the boot area.
const SPACE_START: u64 = 4 << 20;

/// A copy of a golden pool that may be changed.
struct Setup {
    cenote: Cenote,
    pool: String,
    images: Vec<PathBuf>,
    place: String,
}

impl Setup {
    fn new(kind: &str) -> Result<Self> {
        let golden = Golden::find(kind)?.context("the repository carries this pool")?;
        let cenote = Cenote::new()?;
        let devices = cenote.subdirectory("devices")?;
        Ok(Self {
            images: golden.copy_to(&devices)?,
            pool: golden.manifest.pool.clone(),
            place: devices.display().to_string(),
            cenote,
        })
    }

    /// Runs `zpool import` with options and operands behind `-d`; what it says and its exit code.
    fn import(&self, words: &str) -> Result<(String, Option<i32>)> {
        let mut arguments = vec!["import", "-d", &self.place];
        arguments.extend(words.split_whitespace());
        let outcome = self.cenote.run("zpool", &arguments)?;
        let text = outcome.text() + &outcome.stderr;
        Ok((text, outcome.code))
    }

    fn contents(&self) -> Result<Vec<Vec<u8>>> {
        let read = self.images.iter().map(fs::read);
        Ok(read.collect::<Result<_, _>>()?)
    }
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// Overwrites the newest uberblock's root, in all its copies.
fn damage_newest_state(setup: &Setup) -> Result<()> {
    let image = setup.images[0].to_str().context("a path in UTF-8")?;
    let list = setup
        .cenote
        .ok(&format!("cenote inspect uberblocks --json {image}"))?;
    let newest = list.lines().next().context("an uberblock")?;
    let newest: Value = serde_json::from_str(newest)?;
    let root = newest["root"].as_str().context("a pointer")?;
    let device = OpenOptions::new().write(true).open(image)?;
    for copy in root.split("DVA=<").skip(1) {
        let offset = copy.split(':').nth(1).context("an offset")?;
        let offset = u64::from_str_radix(offset, 16)?;
        device.write_all_at(&[0xff; 512], offset + SPACE_START)?;
    }
    Ok(())
}

/// `-n` asks whether a rewind would work. It used to import for writing, without an export: the
/// labels said that the pool was in use, and data promised by logs was lost.
#[test]
fn a_dry_run_writes_nothing() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let before = setup.contents()?;
    let (text, code) = setup.import(&format!("-F -n {}", setup.pool))?;
    ensure!(code == Some(0), "{text}");
    let after = setup.contents()?;
    ensure!(before == after, "the devices were written to");
    Ok(())
}

/// The name given with `-t` used to be written to the devices.
#[test]
fn a_temporary_name_stays_off_the_devices() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let (text, code) = setup.import(&format!("-N -t {} other", setup.pool))?;
    ensure!(code == Some(0), "{text}");
    setup.cenote.ok("zpool set comment=seen other")?;
    setup.cenote.ok("zpool export other")?;
    let (listed, _) = setup.import("")?;
    has(&listed, &format!("pool: {}\n", setup.pool))?;
    let (text, code) = setup.import(&format!("-N {} raidz", setup.pool))?;
    ensure!(code == Some(1), "{text}");
    has(&text, "name is reserved")
}

/// Of a pool of which only the newest state is damaged the listing said that it was fine, and the
/// import that it should be destroyed.
#[test]
fn a_damaged_state_leads_to_an_older_one() -> Result<()> {
    let setup = Setup::new("quotas")?;
    let pool = &setup.pool;
    damage_newest_state(&setup)?;
    let (listed, _) = setup.import("")?;
    has(&listed, "state: FAULTED")?;
    has(&listed, "status: The pool metadata is corrupted.")?;
    let (text, code) = setup.import(&format!("-N {pool}"))?;
    ensure!(code == Some(1), "{text}");
    has(&text, "can be read; the newest is")?;
    has(&text, "'zpool import -FX -o readonly=on'")?;
    ensure!(!text.contains("Destroy"), "{text}");
    let (text, code) = setup.import(&format!("-N -FX -o readonly=on {pool}"))?;
    ensure!(code == Some(0), "{text}");
    has(&text, "returned to its state as of")?;
    setup.cenote.ok(&format!("zpool export {pool}"))?;
    // For good, too, it says what it did.
    let (text, code) = setup.import(&format!("-N -FX {pool}"))?;
    ensure!(code == Some(0), "{text}");
    has(&text, "returned to its state as of")?;
    setup.cenote.ok(&format!("zpool export {pool}"))?;
    Ok(())
}

/// A place that could not be searched was skipped silently.
#[test]
fn places_that_cannot_be_searched_are_named() -> Result<()> {
    let cenote = Cenote::new()?;
    for arguments in [
        &["import", "-d", "/no/such/place"][..],
        &["import", "-d", "/no/such/place", "p"],
    ] {
        let outcome = cenote.run("zpool", arguments)?;
        has(
            &outcome.stderr,
            "warning: /no/such/place: cannot open: No such file",
        )?;
    }
    Ok(())
}

/// A pool in an image cannot be written to; the refusal used to advise to destroy it.
#[test]
fn what_can_only_be_read_says_so() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let offset = 1 << 20;
    for (index, image) in setup.images.iter().enumerate() {
        let mut bytes = vec![0; offset];
        bytes.extend(fs::read(image)?);
        fs::write(image, bytes).with_context(|| format!("image {index}"))?;
    }
    let words = format!("-N -o cenote:offset=1M {}", setup.pool);
    let (text, code) = setup.import(&words)?;
    ensure!(code == Some(1), "{text}");
    has(&text, "the pool can only be imported read-only: ")?;
    has(&text, "use 'zpool import -o readonly=on'")?;
    let (text, code) = setup.import(&format!("-o readonly=on {words}"))?;
    ensure!(code == Some(0), "{text}");
    Ok(())
}

/// If a device ends before the pool's space, the rest can be read. An import for writing waited
/// forever.
#[test]
fn a_device_that_became_smaller_can_be_read() -> Result<()> {
    let cenote = Cenote::new()?;
    let devices = cenote.subdirectory("devices")?;
    let (path, place) = (devices.join("disk"), devices.display());
    let device = fs::File::create(&path)?;
    device.set_len(256 << 20)?;
    let path = path.display();
    cenote.ok(&format!("zpool create -O mountpoint=none tank {path}"))?;
    cenote.ok("zpool export tank")?;
    let size = 200 << 20;
    device.set_len(size)?;
    let place = place.to_string();
    let words = ["import", "-N", "-d", &place, "tank"];
    let outcome = cenote.run("zpool", &words)?;
    ensure!(outcome.code == Some(1), "{}", outcome.report());
    has(&outcome.stderr, "the pool can only be imported read-only: ")?;
    let reason = format!("{path} has {size} bytes, less than the pool has on it");
    has(&outcome.stderr, &reason)?;
    cenote.ok(&format!("zpool import -N -o readonly=on -d {place} tank"))?;
    Ok(())
}

/// Commands that change a pool. `destroy` used to forget the pool and to report success, `set` to
/// speak of a suspended pool.
#[test]
fn a_pool_that_is_only_read_is_not_changed() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let (pool, before) = (&setup.pool, setup.contents()?);
    let (text, code) = setup.import(&format!("-N -o readonly=on {pool}"))?;
    ensure!(code == Some(0), "{text}");
    for command in [
        format!("zpool set comment=x {pool}"),
        format!("zpool set autotrim=on {pool}"),
        format!("zpool set feature@longname=enabled {pool}"),
        format!("zpool upgrade {pool}"),
        format!("zpool reguid {pool}"),
        format!("zpool trim {pool}"),
        format!("zpool initialize {pool}"),
        format!("zpool add -f {pool} /dev/null"),
        format!("zfs create {pool}/x"),
        format!("zfs destroy -r {pool}/data"),
        format!("zfs rename {pool}/data {pool}/x"),
        format!("zfs set compression=off {pool}"),
        format!("zfs inherit -r compression {pool}"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let outcome = setup.cenote.run(words[0], &words[1..])?;
        ensure!(outcome.code != Some(0), "{command} is done");
        has(&outcome.stderr, "pool is read-only")?;
    }
    // As with OpenZFS, it is released, and can be imported again.
    setup.cenote.ok(&format!("zpool destroy {pool}"))?;
    ensure!(before == setup.contents()?, "the devices were written to");
    Ok(())
}

/// A mount point with dots in it, or behind a symbolic link, is not followed out of the
/// alternative root.
#[test]
fn mounts_stay_below_the_alternative_root() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let cenote = Cenote::new()?;
    let (root, outside) = (
        cenote.subdirectory("root")?,
        cenote.subdirectory("outside")?,
    );
    let image = cenote.directory().join("image");
    fs::File::create(&image)?.set_len(96 << 20)?;
    std::os::unix::fs::symlink(&outside, root.join("link"))?;
    let (shown, image) = (root.display(), image.display());
    cenote.ok(&format!(
        "zpool create -R {shown} -O mountpoint=none p {image}"
    ))?;
    for place in ["/../outside", "/link/below", "/a/../../outside"] {
        let words = ["create", "-o", &format!("mountpoint={place}"), "p/a"];
        let outcome = cenote.run("zfs", &words)?;
        has(&outcome.stderr, "leads out of")?;
        ensure!(is_empty(&outside)?, "{place} was followed");
        cenote.ok("zfs destroy p/a")?;
    }
    cenote.ok("zpool export p")?;
    Ok(())
}

fn is_empty(directory: &Path) -> Result<bool> {
    Ok(fs::read_dir(directory)?.next().is_none())
}

/// A relative alternative root used to be taken from the daemon's directory, which is `/`, and
/// unknown mount options were passed over.
#[test]
fn what_cannot_be_obeyed_is_refused() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let pool = &setup.pool;
    for (options, reason) in [
        ("-R some/where", "bad alternate root 'some/where'"),
        ("-o altroot=where", "bad alternate root 'where'"),
        ("-o noext", "invalid mount option 'noext'"),
    ] {
        let (text, code) = setup.import(&format!("-o readonly=on {options} {pool}"))?;
        ensure!(code == Some(1), "{options}: {text}");
        has(&text, &format!("cannot import '{pool}': {reason}"))?;
    }
    let (text, code) = setup.import(&format!("-N -o readonly=on -o ro,noexec {pool}"))?;
    ensure!(code == Some(0), "{text}");
    let refused = setup.cenote.run("zfs", &["mount", "-o", "remount", pool])?;
    has(&refused.stderr, "not currently mounted")?;
    Ok(())
}

/// Directories made for mounts stayed when their datasets were gone. An export or a rename removes
/// them, as in OpenZFS. Directories that a user chose stay.
#[test]
fn mount_points_go_with_their_names() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let cenote = Cenote::new()?;
    let (root, own) = (cenote.subdirectory("root")?, cenote.subdirectory("own")?);
    let image = cenote.directory().join("image");
    fs::File::create(&image)?.set_len(96 << 20)?;
    let (shown, image) = (root.display(), image.display());
    cenote.ok(&format!("zpool create -R {shown} p {image}"))?;
    cenote.ok("zfs create p/a")?;
    cenote.ok("zfs create p/a/b")?;
    cenote.ok("zfs create -o mountpoint=/chosen p/c")?;
    cenote.ok(&format!("cenote mount p/a/b {}", own.display()))?;
    cenote.ok(&format!("cenote unmount {}", own.display()))?;
    cenote.ok("zfs rename p/a p/z")?;
    let there = |name: &str| root.join(name).exists();
    ensure!(!there("p/a") && there("p/z/b"), "the old place is left");
    cenote.ok("zpool export p")?;
    ensure!(!there("p"), "the pool's place is left");
    ensure!(
        there("chosen") && own.exists(),
        "places that were chosen are gone"
    );
    Ok(())
}

/// What a killed daemon left could not be unmounted before another daemon ran.
#[test]
fn what_a_killed_daemon_left_is_unmounted() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let setup = Setup::new("raidz1-3")?;
    let (text, code) = setup.import(&format!("-N -o readonly=on {}", setup.pool))?;
    ensure!(code == Some(0), "{text}");
    let directory = pool::mount(&setup.cenote, &format!("{}/data", setup.pool))?;
    let status = setup.cenote.ok("cenote daemon status --json")?;
    let status: Value = serde_json::from_str(&status)?;
    let process = status["pid"].as_u64().context("a process")?;
    let process = rustix::process::Pid::from_raw(i32::try_from(process)?).context("a process")?;
    rustix::process::kill_process(process, rustix::process::Signal::KILL)?;
    pool::unmount(&setup.cenote, &directory)?;
    ensure!(is_empty(&directory)?, "the directory is free again");
    Ok(())
}
