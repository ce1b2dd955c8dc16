//! Keys in the daemon's memory: what was unloaded is not there any more.

use anyhow::{Context, Result, ensure};
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How much of a process's memory is searched at once.
const PIECE: usize = 1 << 20;

/// How often one of `needles` is in the memory of a process; two that overlap count once.
fn count(pid: u64, needles: &[&[u8]]) -> Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().context("a range")?;
        let (start, end) = range.split_once('-').context("a range")?;
        let (start, end) = (
            u64::from_str_radix(start, 16)?,
            u64::from_str_radix(end, 16)?,
        );
        let mut piece = vec![0; PIECE + 64];
        for at in (start..end).step_by(PIECE) {
            let length = piece.len().min((end - at) as usize);
            // What is not mapped any more holds no key.
            let Ok(length) = memory.read_at(&mut piece[..length], at) else {
                continue;
            };
            let piece = &piece[..length];
            for needle in needles {
                count += memchr::memmem::find_iter(piece, needle).count();
            }
        }
    }
    Ok(count)
}

/// Waits until no copy of a key is left: threads that used it may still run.
fn is_forgotten(pid: u64, needles: &[&[u8]]) -> Result<bool> {
    let start = Instant::now();
    while count(pid, needles)? > 0 {
        if start.elapsed() > Duration::from_secs(5) {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(true)
}

fn key_file(home: &Path, name: &str, first: u8) -> Result<(String, Vec<u8>)> {
    let key: Vec<u8> = (0_u8..32)
        .map(|at| first.wrapping_add(at.wrapping_mul(37)) | 1)
        .collect();
    let path = home.join(name);
    fs::write(&path, &key)?;
    Ok((path.display().to_string(), key))
}

#[test]
fn unloaded_keys_are_nowhere() -> Result<()> {
    let site = Site::create("single", 128, "")?;
    let status: serde_json::Value = serde_json::from_str(&site.ok("cenote daemon status -j")?)?;
    let pid = status["pid"].as_u64().context("a process")?;
    let home = tempfile::tempdir()?;
    let (first, one) = key_file(home.path(), "first", 129)?;
    let (second, two) = key_file(home.path(), "second", 66)?;
    let hex = |key: &[u8]| {
        key.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let (one_hex, two_hex) = (hex(&one), hex(&two));
    // Half of a key is enough to be called a copy.
    let of_one: [&[u8]; 3] = [&one[..16], &one[16..], &one_hex.as_bytes()[..32]];
    let of_two: [&[u8]; 3] = [&two[..16], &two[16..], &two_hex.as_bytes()[..32]];
    site.ok(&format!(
        "zfs create -o encryption=on -o keyformat=raw -o keylocation=file://{first} tank/e"
    ))?;
    ensure!(
        count(pid, &of_one)? > 0,
        "the key is loaded, and is not found"
    );
    site.ok("zfs unload-key tank/e").or_else(|_| {
        site.ok("zfs unmount tank/e")?;
        site.ok("zfs unload-key tank/e")
    })?;
    ensure!(is_forgotten(pid, &of_one)?, "after it was made");
    site.ok("zfs load-key tank/e")?;
    ensure!(
        count(pid, &of_one)? > 0,
        "the key is loaded, and is not found"
    );
    site.ok(&format!(
        "zfs change-key -o keylocation=file://{second} tank/e"
    ))?;
    ensure!(is_forgotten(pid, &of_one)?, "after it was changed");
    site.ok("zfs unload-key tank/e")?;
    ensure!(is_forgotten(pid, &of_two)?, "after it was loaded");

    // A pipe without a writer must not block forever; one with a writer is read like a file.
    let made = Command::new("mkfifo")
        .arg(home.path().join("pipe"))
        .status()?;
    ensure!(made.success());
    let pipe = home.path().join("pipe");
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, two)
    });
    site.ok(&format!("zfs load-key -L file://{} tank/e", pipe.display()))?;
    writer.join().expect("no panic")?;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let cores = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let cores = cores.context("a limit")?;
    ensure!(cores.split_whitespace().nth(4) == Some("0"), "{cores}");
    Ok(())
}
