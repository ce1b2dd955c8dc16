//! Settings through the program: shown, set while a pool is in use, and read from files.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::program::Cenote;
use cenote_tests::site::Site;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

fn memory_used(site: &Site) -> Result<u64> {
    let status = site.ok("cenote daemon status --json")?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    status["memory_used"].as_u64().context("a number")
}

#[test]
fn the_cache_shrinks_at_once() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    let file = site.path("tank").join("file");
    fs::write(&file, vec![7; 48 << 20])?;
    site.ok("zpool sync tank")?;
    let before = memory_used(&site)?;
    ensure!(before > 40 << 20, "{before} bytes are cached");
    site.ok("cenote settings set zfs_arc_max=4M")?;
    let after = memory_used(&site)?;
    ensure!(after <= 6 << 20, "{after} bytes of {before} are still used");
    ensure!(fs::read(&file)? == vec![7; 48 << 20], "the file changed");
    site.ok("cenote settings set zfs_arc_max=default")?;
    site.finish()
}

#[test]
fn copies_share_blocks_unless_told_otherwise() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    let root = site.path("tank");
    fs::write(root.join("original"), vec![7; 8 << 20])?;
    site.ok("zpool sync tank")?;
    let copy = |name: &str| -> Result<u64> {
        // The standard library copies by `copy_file_range`.
        fs::copy(root.join("original"), root.join(name))?;
        site.ok("zpool sync tank")?;
        Ok(site
            .ok("zpool get -Hp -o value bcloneused tank")?
            .trim()
            .parse()?)
    };
    site.ok("cenote settings set zfs_bclone_enabled=0")?;
    ensure!(copy("whole")? == 0);
    site.ok("cenote settings set zfs_bclone_enabled=1")?;
    ensure!(copy("shared")? >= 8 << 20);
    site.finish()
}

/// What is overwritten with itself is not written, when its checksum proves that it is the same.
#[test]
fn what_changes_nothing_stays_where_it_is_unless_told_otherwise() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=lz4 -O checksum=sha256")?;
    let file = site.path("tank").join("file");
    let contents: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &contents)?;
    let number = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file)?);
    let first_block = || -> Result<String> {
        site.ok("zpool sync tank")?;
        let listed = site.ok(&format!("cenote inspect blocks tank {number}"))?;
        let line = listed.lines().find(|line| line.starts_with("L0"));
        Ok(line.context("a block of data")?.to_owned())
    };
    let again = || -> Result<()> {
        let opened = fs::OpenOptions::new().write(true).open(&file)?;
        std::os::unix::fs::FileExt::write_all_at(&opened, &contents, 0)?;
        Ok(())
    };
    let before = first_block()?;
    again()?;
    ensure!(first_block()? == before, "the block was written again");
    site.ok("cenote settings set zfs_nopwrite_enabled=0")?;
    again()?;
    ensure!(first_block()? != before, "the block was not written");
    site.finish()
}

#[test]
fn values_are_shown_and_set_and_faults_are_named() -> Result<()> {
    let site = Site::new("none")?;
    let shown = site.ok("cenote settings get -H zfs_txg_timeout")?;
    ensure!(shown == "zfs_txg_timeout\t5\n", "{shown}");
    site.ok("cenote settings set zfs_txg_timeout=0x1E zfs_arc_min=64M")?;
    let shown = site.ok("cenote settings list -H zfs_txg_timeout zfs_arc_min")?;
    let expected = "zfs_txg_timeout\t30\t5\ts\nzfs_arc_min\t67108864\t0\tbytes\n";
    ensure!(shown == expected, "{shown}");
    // One that cannot be set: none is.
    let refused = site.fails("cenote settings set zfs_arc_min=0 zfs_txg_timout=7")?;
    let nearest = "there is no setting 'zfs_txg_timout'; did you mean 'zfs_txg_timeout'?";
    ensure!(refused.stderr.contains(nearest), "{}", refused.stderr);
    ensure!(
        site.ok("cenote settings get -H zfs_arc_min")?
            .contains("67108864")
    );
    let range = site.fails("cenote settings set zfs_txg_timeout=0")?;
    ensure!(
        range.stderr.contains("0 is not between 1 and"),
        "{}",
        range.stderr
    );
    let noted = site
        .cenote()
        .run("cenote", &["settings", "set", "l2arc_write_max=1"])?;
    ensure!(noted.code == Some(0) && noted.stderr.contains("has no effect: Cache devices"));
    let all: serde_json::Value = serde_json::from_str(&site.ok("cenote settings list -a -j")?)?;
    ensure!(all["l2arc_write_max"]["value"] == "1" && all["zfs_txg_timeout"]["value"] == "30");
    Ok(())
}

#[test]
fn files_are_read_when_the_daemon_starts() -> Result<()> {
    let cenote = Cenote::new()?;
    let file = cenote.directory().join("zfs.conf");
    fs::write(
        &file,
        "# ours\noptions zfs zfs_txg_timeout=11 l2arc_headroom=4\noptions spl x=1\n",
    )?;
    let start = || {
        let words = [
            "daemon".as_ref(),
            "run".as_ref(),
            "--settings".as_ref(),
            file.as_os_str(),
        ];
        let mut command = cenote.command("cenote", &words);
        command.stderr(Stdio::piped()).spawn()
    };
    let daemon = start()?;
    while UnixStream::connect(cenote.socket()).is_err() {
        thread::sleep(Duration::from_millis(10));
    }
    let shown = cenote.ok("cenote settings get -H zfs_txg_timeout l2arc_headroom")?;
    ensure!(
        shown == "zfs_txg_timeout\t11\nl2arc_headroom\t4\n",
        "{shown}"
    );
    cenote.ok("cenote daemon stop")?;
    let said = String::from_utf8(daemon.wait_with_output()?.stderr)?;
    ensure!(
        said.contains("zfs.conf: l2arc_headroom has no effect: "),
        "{said}"
    );
    fs::write(&file, "options zfs zfs_txg_timeout=much\n")?;
    let refused = start()?.wait_with_output()?;
    let said = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1), "{said}");
    ensure!(
        said.contains("zfs.conf: line 1: zfs_txg_timeout: 'much' is not a number"),
        "{said}"
    );
    Ok(())
}
