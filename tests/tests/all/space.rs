//! What `stat` and `du` say of the space that files take.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A file's space is known once its contents are on disk. Earlier values used to stay in the
/// kernel's cache.
#[test]
fn space_is_that_of_what_is_on_disk() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O compression=off")?;
    let root = site.path("tank");
    let path = root.join("file");
    let blocks = || -> Result<u64> { Ok(fs::metadata(&path)?.blocks()) };
    fs::write(&path, noise(1, 400_000))?;
    ensure!(fs::metadata(&path)?.len() == 400_000);
    blocks()?;
    site.ok("zpool sync tank")?;
    let written = blocks()?;
    ensure!(written >= 400_000 / 512, "{written} blocks");
    File::options().write(true).open(&path)?.set_len(1000)?;
    blocks()?;
    site.ok("zpool sync tank")?;
    let cut = blocks()?;
    ensure!(cut < written && cut > 1, "{cut} blocks of {written}");
    fs::write(&path, "")?;
    blocks()?;
    site.ok("zpool sync tank")?;
    ensure!(blocks()? < cut, "{} blocks are left", blocks()?);
    // Of a listing, too, and of a directory soon.
    for number in 0..400 {
        fs::write(
            root.join(format!("a longer name of a file {number}")),
            noise(number, 9000),
        )?;
    }
    let of_directory = || -> Result<u64> { Ok(fs::metadata(&root)?.blocks()) };
    let (before, _) = (of_directory()?, files_blocks(&root)?);
    site.ok("zpool sync tank")?;
    let all = files_blocks(&root)?;
    ensure!(all >= 400 * 9000 / 512, "{all} blocks of 400 files");
    thread::sleep(Duration::from_millis(1100));
    ensure!(of_directory()? > before, "{before} blocks of a directory");
    site.finish()
}

/// Blocks of all files in a directory.
fn files_blocks(root: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(root)? {
        sum += entry?.metadata()?.blocks();
    }
    Ok(sum)
}
