//! What is sent: large files and many small ones, and what changes of them between snapshots.

use super::options::Options;
use crate::read::product::Mounted;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
/// Large files, and small ones in a directory.
const LARGE_FILES: usize = 4;
const FILES_TOGETHER: u64 = 1000;

/// Bytes of which half can be guessed: LZ4 makes about half of them.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for line in bytes.chunks_mut(64) {
        for (index, byte) in line.iter_mut().enumerate() {
            if index < 28 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            } else {
                *byte = b'a';
            }
        }
    }
}

/// The words of a line, as arguments.
pub(super) fn words(line: &str) -> Vec<&OsStr> {
    line.split_whitespace().map(OsStr::new).collect()
}

/// Makes a pool on one file of so many MiB in `directory`; its root is the daemon's mount.
pub(super) fn create(
    daemon: &Mounted,
    directory: &Path,
    (pool, mebibytes): (&str, usize),
) -> Result<()> {
    fs::create_dir_all(directory)?;
    let device = directory.join("d0.img");
    File::create(&device)?.set_len((mebibytes * MIB) as u64)?;
    let root = daemon.path();
    let mut all = words("zpool create -f -o ashift=12 -O compression=lz4 -O atime=off -R");
    all.extend([root.as_os_str(), OsStr::new(pool), device.as_os_str()]);
    daemon.run(&all).map(drop)
}

/// Imports the pool in `directory`.
pub(super) fn import(daemon: &Mounted, directory: &Path, pool: &str) -> Result<()> {
    let root = daemon.path();
    let mut all = words("zpool import -f -N -R");
    all.extend([root.as_os_str(), OsStr::new("-d"), directory.as_os_str()]);
    all.push(OsStr::new(pool));
    daemon.run(&all).map(drop)
}

/// The directory of the pool that is sent, which is made once.
pub(super) fn source(options: &Options) -> Result<PathBuf> {
    let name = format!("send-{}-{}", options.mebibytes, options.files);
    let directory = options.directory.join(name);
    let done = directory.join("made");
    if done.exists() {
        return Ok(directory);
    }
    println!(
        "  (making a pool with large files and {} small ones)",
        options.files
    );
    let daemon = Mounted::start("1G")?;
    let small = usize::try_from(options.files / 100).context("too many files")?;
    let size = options.mebibytes * 3 / 2 + small * 2 + 512;
    create(&daemon, &directory, ("src", size))?;
    for name in ["large", "small"] {
        daemon.run(&words(&format!("zfs create src/{name}")))?;
    }
    let root = daemon.path().join("src");
    large(&root.join("large"), options.mebibytes, false)?;
    make_small(&root.join("small"), options.files)?;
    daemon.run(&words("zfs snapshot -r src@a"))?;
    large(&root.join("large"), options.mebibytes, true)?;
    change_small(&root.join("small"), options.files)?;
    daemon.run(&words("zfs snapshot -r src@b"))?;
    daemon.run(&words("zpool export src"))?;
    File::create(done)?;
    Ok(directory)
}

/// Writes large files, or rewrites one MiB of ten in them.
fn large(root: &Path, mebibytes: usize, is_change: bool) -> Result<()> {
    let mut bytes = vec![0; MIB];
    for number in 0..LARGE_FILES {
        let path = root.join(number.to_string());
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        let step = if is_change { 10 } else { 1 };
        for index in (0..mebibytes / LARGE_FILES).step_by(step) {
            let seed = (number * mebibytes + index) * 2 + usize::from(is_change);
            fill(&mut bytes, seed as u64);
            file.write_all_at(&bytes, (index * MIB) as u64)?;
        }
    }
    Ok(())
}

fn small_path(root: &Path, number: u64) -> PathBuf {
    let directory = (number / FILES_TOGETHER).to_string();
    root.join(directory).join(number.to_string())
}

/// Files of 1 to 10 KiB.
fn make_small(root: &Path, files: u64) -> Result<()> {
    let mut bytes = vec![0; 10 << 10];
    for number in 0..files {
        if number % FILES_TOGETHER == 0 {
            fs::create_dir(root.join((number / FILES_TOGETHER).to_string()))?;
        }
        write_small(root, number, number, &mut bytes)?;
    }
    Ok(())
}

fn write_small(root: &Path, number: u64, seed: u64, bytes: &mut [u8]) -> Result<()> {
    let length = 1024 + (seed.wrapping_mul(2_654_435_761) % 9216) as usize;
    fill(&mut bytes[..length], seed + 1);
    let mut file = File::create(small_path(root, number))?;
    Ok(file.write_all(&bytes[..length])?)
}

/// Rewrites one file of ten, removes one of twenty, and adds as many.
fn change_small(root: &Path, files: u64) -> Result<()> {
    let mut bytes = vec![0; 10 << 10];
    for number in (0..files).step_by(10) {
        write_small(root, number, number + files, &mut bytes)?;
    }
    for number in (5..files).step_by(20) {
        fs::remove_file(small_path(root, number))?;
    }
    let come = files..files + files / 20;
    for number in come {
        let directory = small_path(root, number);
        if let Some(parent) = directory.parent().filter(|parent| !parent.exists()) {
            fs::create_dir(parent)?;
        }
        write_small(root, number, number, &mut bytes)?;
    }
    Ok(())
}
