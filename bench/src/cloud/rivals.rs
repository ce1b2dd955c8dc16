//! Others on the same line: what they cost for the same files.
//!
//! *restic* and *rclone* copy files to a bucket and cannot be mounted and written to; *s3backer*
//! makes a block device of a bucket, here of 128 KiB blocks with a cache on disk, under ext4.
//! What is not installed is left out, and said.

use super::files::Files;
use super::line::{BUCKET, KEY, Line, SECRET};
use super::report::{Bar, Report};
use crate::read::machine::drop_caches;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn is_installed(name: &str) -> bool {
    let there = Command::new("which")
        .arg(name)
        .stdout(Stdio::null())
        .status();
    let is_there = there.is_ok_and(|status| status.success());
    if !is_there {
        println!("  ({name} is not installed)");
    }
    is_there
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        errors.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn measure(line: &Line, place: &Path, files: &Files, report: &mut Report) -> Result<()> {
    if is_installed("restic") {
        restic(line, place, files, report)?;
    }
    if is_installed("rclone") {
        rclone(line, place, files, report)?;
    }
    if is_installed("s3backer") {
        s3backer(line, place, files, report)?;
    }
    Ok(())
}

fn restic(line: &Line, place: &Path, files: &Files, report: &mut Report) -> Result<()> {
    report.part("restic");
    let cache = place.join("restic-cache");
    let command = |words: &str| {
        let mut command = Command::new("restic");
        command
            .args(["-r", &format!("s3:{}/{BUCKET}/restic", line.endpoint())])
            .arg("--cache-dir")
            .arg(&cache)
            .args(words.split(' '))
            .env("RESTIC_PASSWORD", "bench")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET);
        command
    };
    let mut put = |name: &str, command: &mut Command| -> Result<()> {
        let (cost, _) = line.measure(|| run(command))?;
        report.put(name, &cost, Bar::NONE);
        Ok(())
    };
    put("init", &mut command("init"))?;
    put("96.4 MB file, backup", command("backup").arg(&files.large))?;
    put("the tree, backup", command("backup").arg(&files.tree))?;
    put("the tree, backup again", command("backup").arg(&files.tree))?;
    put("ls -l, cache kept", &mut command("ls -l latest"))?;
    std::fs::remove_dir_all(&cache)?;
    put("ls -l, everything local lost", &mut command("ls -l latest"))
}

fn rclone(line: &Line, place: &Path, files: &Files, report: &mut Report) -> Result<()> {
    report.part("rclone");
    let target = |name: &str| {
        let endpoint = line.endpoint();
        format!(":s3,provider=Other,env_auth,endpoint=\"{endpoint}\":{BUCKET}/rclone/{name}")
    };
    let command = |from: &Path, to: &str| {
        let mut command = Command::new("rclone");
        command
            .args([
                "copy",
                "--transfers",
                "16",
                "--checkers",
                "16",
                "--s3-no-check-bucket",
            ])
            .arg("--config")
            .arg(place.join("rclone.conf"))
            .arg(from)
            .arg(target(to))
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            // Old ones end when it is set, even if they need no certificates.
            .env_remove("AWS_CA_BUNDLE");
        command
    };
    let mut put = |name: &str, command: &mut Command| -> Result<()> {
        let (cost, _) = line.measure(|| run(command))?;
        report.put(name, &cost, Bar::NONE);
        Ok(())
    };
    put("96.4 MB file, copy", &mut command(&files.large, "large"))?;
    put("the tree, copy", &mut command(&files.tree, "tree"))?;
    put("the tree, copy again", &mut command(&files.tree, "tree"))
}

/// A block device of s3backer's with ext4 on it, mounted.
struct Backed {
    process: Child,
    fuse: PathBuf,
    mount: PathBuf,
    device: String,
}

impl Backed {
    fn start(line: &Line, place: &Path, is_new: bool) -> Result<Self> {
        let (fuse, mount) = (place.join("fuse"), place.join("mount"));
        std::fs::create_dir_all(&fuse)?;
        std::fs::create_dir_all(&mount)?;
        let log = std::fs::File::create(place.join("s3backer.log"))?;
        let process = Command::new("s3backer")
            .args([
                "-f",
                "--blockSize=128k",
                "--size=2g",
                "--listBlocks",
                "--directIO",
            ])
            .args([
                "--blockCacheSize=4096",
                "--blockCacheThreads=20",
                "--minWriteDelay=50",
            ])
            .arg("--blockCacheRecoverDirtyBlocks")
            .arg(format!(
                "--blockCacheFile={}",
                place.join("blocks").display()
            ))
            .arg(format!("--accessId={KEY}"))
            .arg(format!("--accessKey={SECRET}"))
            .arg(format!("--baseURL={}/", line.endpoint()))
            .arg("--prefix=s3backer/")
            .arg(BUCKET)
            .arg(&fuse)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut backed = Self {
            process,
            fuse,
            mount,
            device: String::new(),
        };
        let file = backed.fuse.join("file");
        let limit = Instant::now() + Duration::from_secs(60);
        while !file.exists() {
            ensure!(Instant::now() < limit, "s3backer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        backed.device = run(Command::new("losetup").args(["-f", "--show"]).arg(&file))?;
        if is_new {
            let make = ["-q", "-E", "nodiscard", &backed.device];
            run(Command::new("mkfs.ext4").args(make))?;
        }
        run(Command::new("mount").arg(&backed.device).arg(&backed.mount))?;
        Ok(backed)
    }

    /// Unmounts, and waits until everything is in the store.
    fn stop(mut self) -> Result<()> {
        run(Command::new("umount").arg(&self.mount))?;
        run(Command::new("losetup").args(["-d", &self.device]))?;
        self.device.clear();
        run(Command::new("fusermount3").arg("-u").arg(&self.fuse))?;
        self.process.wait().context("s3backer")?;
        Ok(())
    }
}

impl Drop for Backed {
    fn drop(&mut self) {
        if self.device.is_empty() {
            return;
        }
        // It failed on the way: nothing is to stay behind.
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.fuse).status();
    }
}

fn s3backer(line: &Line, place: &Path, files: &Files, report: &mut Report) -> Result<()> {
    report.part("s3backer, ext4");
    let (cost, backed) = line.measure(|| Backed::start(line, place, true))?;
    report.put("made and mounted", &cost, Bar::NONE);
    let (cost, ()) = line.measure(|| {
        run(Command::new("cp").arg(&files.large).arg(&backed.mount))?;
        backed.stop()
    })?;
    report.put("96.4 MB file, unmounted", &cost, Bar::NONE);
    let (cost, backed) = line.measure(|| Backed::start(line, place, false))?;
    report.put("mounted, cache kept", &cost, Bar::NONE);
    let tree = backed.mount.join("tree");
    let rsync = || {
        let from = format!("{}/", files.tree.display());
        run(Command::new("rsync").arg("-a").arg(from).arg(&tree))
    };
    let (cost, ()) = line.measure(|| {
        rsync()?;
        run(Command::new("sync").arg("-f").arg(&backed.mount)).map(drop)
    })?;
    report.put("rsync of the tree, returned", &cost, Bar::NONE);
    let (cost, _) = line.measure(rsync)?;
    report.put("rsync, unchanged", &cost, Bar::NONE);
    let (cost, ()) = line.measure(|| backed.stop())?;
    report.put("unmounted", &cost, Bar::NONE);
    std::fs::remove_file(place.join("blocks"))?;
    drop_caches()?;
    let (cost, backed) = line.measure(|| Backed::start(line, place, false))?;
    report.put("mounted, everything local lost", &cost, Bar::NONE);
    let (cost, _) = line.measure(|| run(Command::new("find").arg(&tree).arg("-ls")))?;
    report.put("find -ls, everything local lost", &cost, Bar::NONE);
    backed.stop()
}
