//! Blocks that several files share: on pools of OpenZFS and our own, deduplicated and encrypted
//! ones, and over the death of a daemon; with OpenZFS's judgement of the counts.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::path::Path;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Only blocks of transaction groups on disk can be shared.
fn sync(site: &Site) -> Result<()> {
    site.ok("zpool sync").map(drop)
}

/// Bytes that the pool's clones save.
fn saved(site: &Site, pool: &str) -> Result<u64> {
    let value = site.ok(&format!("zpool get -Hp -o value bclonesaved {pool}"))?;
    Ok(value.trim().parse()?)
}

/// Clones of clones, of what a snapshot holds, and freeing in any order.
#[test]
fn tables_of_openzfs_are_kept_right() -> Result<()> {
    let Some(golden) = Golden::find("block-cloning")? else {
        return Ok(());
    };
    if !pool::can_mount() {
        return Ok(());
    }
    let name = golden.manifest.pool.clone();
    let site = Site::new(&name)?;
    golden.copy_to(site.devices())?;
    site.import("-N")?;
    let dataset = format!("{name}/data");
    let root = pool::mount(site.cenote(), &dataset)?;
    let before = saved(&site, &name)?;
    ensure!(before > 0, "the sample has clones");
    let snapshot = root.join(".zfs/snapshot/s");
    fs::copy(root.join("ref0"), root.join("more"))?;
    fs::copy(snapshot.join("src"), root.join("back"))?;
    sync(&site)?;
    let after = saved(&site, &name)?;
    ensure!(after >= before + 500_000, "{before} became {after}");
    ensure!(fs::read(root.join("back"))? == fs::read(snapshot.join("src"))?);
    fs::remove_file(root.join("ref1"))?;
    fs::remove_file(root.join("text"))?;
    fs::write(root.join("more"), "short")?;
    drop(snapshot);
    pool::unmount(site.cenote(), &root)?;
    site.export()?;
    site.judge()?;
    site.import("-N")?;
    let root = pool::mount(site.cenote(), &dataset)?;
    for entry in fs::read_dir(&root)? {
        fs::remove_file(entry?.path())?;
    }
    pool::unmount(site.cenote(), &root)?;
    site.finish()
}

/// Makes clones, changes and removes some; returns what must be there.
fn churn(site: &Site, root: &Path, seed: u64) -> Result<Vec<(String, Vec<u8>)>> {
    const BLOCK: usize = 128 << 10;
    let mut random = Random::new(seed);
    let original = noise(seed, 9 * BLOCK + 5000);
    fs::write(root.join("0"), &original)?;
    sync(site)?;
    let mut files = vec![("0".to_string(), original)];
    for number in 1..12 {
        let from = random.below(files.len() as u64) as usize;
        let name = number.to_string();
        let (source, contents) = files[from].clone();
        fs::copy(root.join(source), root.join(&name))?;
        files.push((name, contents));
        match random.below(4) {
            0 => {
                let (name, contents) = files.last_mut().context("some")?;
                let place = random.below(8) as usize * BLOCK + 77;
                contents[place..place + 9].copy_from_slice(b"something");
                let file = File::options().write(true).open(root.join(name))?;
                std::os::unix::fs::FileExt::write_all_at(&file, b"something", place as u64)?;
            }
            1 if files.len() > 3 => {
                let (name, _) = files.remove(random.below(files.len() as u64) as usize);
                fs::remove_file(root.join(name))?;
            }
            2 => sync(site)?,
            _ => {}
        }
    }
    Ok(files)
}

fn expect(root: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    for (name, contents) in files {
        let found = fs::read(root.join(name)).with_context(|| name.clone())?;
        ensure!(found == *contents, "{name} has other contents");
    }
    Ok(())
}

fn clones_of(options: &str, is_counted: bool) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, [7; 32])?;
    let options = options.replace("KEY", &key.display().to_string());
    site.ok(&format!("zfs create {options} tank/a"))?;
    let root = site.path("tank/a");
    let files = churn(&site, &root, 3)?;
    sync(&site)?;
    expect(&root, &files)?;
    ensure!(
        (saved(&site, "tank")? > 0) == is_counted,
        "clones that are not counted"
    );
    // A killed daemon leaves the previous group, and reference counts continue from there.
    fs::copy(root.join(&files[0].0), root.join("lost"))?;
    site.crash()?;
    site.import("-f -l")?;
    expect(&root, &files)?;
    fs::copy(root.join(&files[0].0), root.join("again"))?;
    site.export()?;
    site.judge()?;
    site.import("-l")?;
    expect(&root, &files)?;
    for (name, _) in &files {
        fs::remove_file(root.join(name))?;
    }
    ensure!(
        fs::read(root.join("again"))? == files[0].1,
        "the last reference"
    );
    fs::remove_file(root.join("again"))?;
    let _ = fs::remove_file(root.join("lost"));
    sync(&site)?;
    ensure!(saved(&site, "tank")? == 0, "counts without clones");
    site.finish()
}

#[test]
fn clones_are_counted() -> Result<()> {
    clones_of("-o compression=lz4", true)
}

/// Clones of encrypted blocks keep their parameters, and are read with the same key.
#[test]
fn encrypted_clones_are_counted() -> Result<()> {
    let options = "-o encryption=aes-256-gcm -o keyformat=raw -o keylocation=file://KEY";
    clones_of(options, true)
}

/// What is deduplicated is counted where its other references are.
#[test]
fn clones_of_deduplicated_blocks_are_counted_with_them() -> Result<()> {
    clones_of("-o dedup=on", false)
}
