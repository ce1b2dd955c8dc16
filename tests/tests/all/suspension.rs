//! A device that takes no more writes for a while: the daemon, its mounts and the commands.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::site::Site;
use cenote_tests::skip;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

const MIB: usize = 1 << 20;

/// A file system that can be too small for what its files promise, as thin volumes are.
struct ThinStore(PathBuf);

impl ThinStore {
    /// Returns `None`, with a notice, without the right to mount.
    fn new(directory: &Path, mebibytes: usize) -> Result<Option<Self>> {
        let options = format!("size={mebibytes}m");
        let words = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(directory).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            skip!("no tmpfs can be mounted here");
            return Ok(None);
        }
        Ok(Some(Self(directory.to_owned())))
    }

    fn grow(&self, mebibytes: usize) -> Result<()> {
        let options = format!("remount,size={mebibytes}m");
        let mut mount = Command::new("mount");
        let grown = mount.args(["-o", &options]).arg(&self.0).status()?;
        ensure!(grown.success(), "the store does not grow");
        Ok(())
    }
}

impl Drop for ThinStore {
    fn drop(&mut self) {
        // What is still in use goes with its last user.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A pool whose device is larger than the store that it is in; `None` where that cannot be made.
fn small_site() -> Result<Option<(Site, ThinStore)>> {
    if !pool::can_mount() {
        return Ok(None);
    }
    let site = Site::new("tank")?;
    let Some(store) = ThinStore::new(site.devices(), 64)? else {
        return Ok(None);
    };
    let device = site.devices().join("tank-00.img");
    File::create(&device)?.set_len(256 * MIB as u64)?;
    let (root, device) = (site.path(""), device.display());
    let root = root.display();
    site.ok(&format!(
        "zpool create -O compression=off -R {root} tank {device}"
    ))?;
    Ok(Some((site, store)))
}

fn bytes(number: usize) -> Vec<u8> {
    let mut word = number as u64 + 1;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    };
    (0..MIB).map(|_| next()).collect()
}

/// Waits until the pool is suspended and has said so.
fn until_suspended(site: &Site) -> Result<()> {
    wait_until("suspended", || {
        let health = site.ok("zpool list -Ho health tank")?;
        let events = site.ok("zpool events -H")?;
        Ok(health == "SUSPENDED\n" && events.contains("ereport.fs.zfs.io_failure\n"))
    })
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

#[test]
fn writers_wait_until_there_is_room_again() -> Result<()> {
    let Some((site, store)) = small_site()? else {
        return Ok(());
    };
    let file = site.path("tank").join("file");
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            let mut file = File::create(&file)?;
            for number in 0..100 {
                file.write_all(&bytes(number))?;
            }
            Ok(file.sync_all()?)
        });
        let looked = (|| {
            until_suspended(&site)?;
            ensure!(!writer.is_finished(), "the writer does not wait");
            let status = site.ok("zpool status tank")?;
            has(
                &status,
                " state: SUSPENDED\nstatus: One or more devices are faulted",
            )?;
            has(&status, "then run 'zpool clear'.\n   see: https")?;
            has(&status, "/ZFS-8000-HC\n")?;
            // Nothing that would change the pool waits with the writer.
            has(&site.fails("zfs create tank/more")?.stderr, "suspended")?;
            has(&site.fails("zpool sync tank")?.stderr, "suspended")?;
            has(&site.fails("zpool export tank")?.stderr, "suspended")?;
            has(&site.fails("zpool destroy tank")?.stderr, "suspended")?;
            let unknown = site.fails("zpool clear tank nothing")?;
            has(
                &unknown.stderr,
                "cannot clear errors for nothing: no such device in pool\n",
            )?;
            ensure!(!writer.is_finished(), "the writer does not wait");
            // There is no more room yet: the command reports that, and only the writer waits.
            let still_full = site.fails("zpool clear tank")?;
            has(
                &still_full.stderr,
                "cannot clear errors for tank: the pool waits again: ",
            )?;
            ensure!(site.ok("zpool list -Ho health tank")? == "SUSPENDED\n");
            store.grow(320)?;
            site.ok("zpool clear tank")
        })();
        if looked.is_err() {
            // The writer would wait forever.
            let _ = site.ok("zpool export -f tank");
        }
        let written = writer.join().ok().context("the writer failed")?;
        looked.and(written)
    });
    written?;
    ensure!(site.ok("zpool list -Ho health tank")? == "ONLINE\n");
    has(&site.ok("zpool history tank")?, "zpool clear tank\n")?;
    site.reopen(&["tank"])?;
    let contents = fs::read(&file)?;
    for (number, found) in contents.chunks(MIB).enumerate() {
        ensure!(found == bytes(number), "MiB {number} is another");
    }
    ensure!(contents.len() == 100 * MIB);
    site.finish()
}

#[test]
fn writers_are_told_if_they_are_not_to_wait() -> Result<()> {
    let Some((site, store)) = small_site()? else {
        return Ok(());
    };
    let before = site.path("tank").join("before");
    fs::write(&before, "before")?;
    site.export()?;
    let devices = site.devices().display();
    let refused = site.fails(&format!("zpool import -o failmode=never -d {devices} tank"))?;
    has(&refused.stderr, "'failmode' must be one of")?;
    site.import("-o failmode=continue")?;
    ensure!(site.ok("zpool get -Ho value failmode tank")? == "continue\n");
    let file = site.path("tank").join("file");
    let mut output = File::create(&file)?;
    let failed = (0..400).find_map(|number| output.write_all(&bytes(number)).err());
    let failed = failed.context("all was taken")?;
    ensure!(failed.raw_os_error() == Some(5), "{failed}");
    until_suspended(&site)?;
    has(&site.ok("zpool status tank")?, "/ZFS-8000-JQ\n")?;
    ensure!(fs::read_to_string(&before)? == "before");
    // It waited for the group, which waits for room.
    let synced = output.sync_all().err().context("nothing is on disk")?;
    ensure!(synced.raw_os_error() == Some(5), "{synced}");
    drop(output);
    site.ok("zpool export -f tank")?;
    store.grow(320)?;
    site.import("")?;
    ensure!(fs::read_to_string(&before)? == "before");
    site.finish()
}
