//! Channel programs on a pool in use: their changes, what they see, and a daemon that dies in one.

use anyhow::{Context, Result, ensure};
use cenote_tests::site::Site;
use std::fs;
use std::path::Path;

fn write(path: &Path, text: &str) -> Result<()> {
    Ok(fs::write(path, text)?)
}

/// The value of a dataset's property.
fn value(site: &Site, property: &str, dataset: &str) -> Result<String> {
    let line = format!("zfs get -Hp -o value {property} {dataset}");
    Ok(site.ok(&line)?.trim().to_owned())
}

#[test]
fn programs_change_a_tree_under_its_mounts() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "")?;
    site.ok("zfs create -p tank/a/b")?;
    changed_by_programs(&site, &site.path("tank/a"))?;
    site.finish()
}

/// Runs a channel program; what it returned.
fn program(site: &Site, options: &str, source: &str) -> Result<serde_json::Value> {
    let file = site.cenote().directory().join("program.lua");
    write(&file, source)?;
    let line = format!("zfs program -j {options} tank {}", file.display());
    let mut value: serde_json::Value = serde_json::from_str(&site.ok(&line)?)?;
    Ok(value["return"].take())
}

/// What a program changes is in one group, and includes what was just written.
fn changed_by_programs(site: &Site, root: &Path) -> Result<()> {
    site.ok("zfs create tank/a/mounted")?;
    site.ok("zfs create -u tank/a/idle")?;
    site.ok("zfs create -V 8M tank/a/disk")?;
    write(&root.join("fresh"), "just now")?;
    let source = r#"
        local function snapshot(dataset, name)
            assert(zfs.sync.snapshot(dataset .. "@" .. name) == 0)
            local count = 1
            for child in zfs.list.children(dataset) do
                count = count + snapshot(child, name)
            end
            return count
        end
        local count = snapshot("tank/a", "p1")
        local again = zfs.sync.snapshot("tank/a@p2")
        assert(zfs.sync.bookmark("tank/a@p1", "tank/a#p1") == 0)
        assert(zfs.sync.set_prop("tank/a/idle", "my:note", "seen") == 0)
        assert(zfs.sync.rename_snapshot("tank/a/idle", "p1", "p3") == 0)
        assert(zfs.sync.destroy("tank/a/idle@p3") == 0)
        assert(zfs.sync.snapshot("tank/a/idle@p4") == 0)
        local acting = zfs.sync.set_prop("tank/a/disk", "cenote:nbd", "on")
        local busy = {
            zfs.sync.destroy("tank/a/mounted"), zfs.sync.rollback("tank/a"),
            zfs.sync.destroy("tank/a/nothing"), zfs.check.destroy("tank/a/idle"),
        }
        return {count, again, table.concat(busy, " "), acting}"#;
    let value = program(site, "", source)?;
    ensure!(value["1"].as_u64() >= Some(5), "{value}");
    ensure!(
        value["2"] == 11 && value["3"] == "16 16 2 16" && value["4"] == 1,
        "{value}"
    );
    ensure!(fs::read_to_string(root.join(".zfs/snapshot/p1/fresh"))? == "just now");
    let groups = site.ok("zfs list -H -t snapshot -o name,createtxg")?;
    let groups = groups
        .lines()
        .filter(|line| line.contains("@p1") || line.contains("@p4"));
    let mut groups: Vec<_> = groups.map(|line| line.split('\t').next_back()).collect();
    ensure!(groups.len() >= 5);
    groups.dedup();
    ensure!(groups.len() == 1, "{groups:?}");
    read_by_programs(site)?;
    cut_off_in_a_program(site)?;
    // What a program did before it failed stays, and the pool's history has it.
    let endless = "zfs.sync.snapshot('tank/a/idle@p5') while true do end";
    write(&site.cenote().directory().join("program.lua"), endless)?;
    let file = site.cenote().directory().join("program.lua");
    let ended = site.fails(&format!("zfs program -t 50000 tank {}", file.display()))?;
    let told = ended.stderr;
    ensure!(told.contains("Channel program timed out"), "{told}");
    let cut = "
        assert(zfs.sync.destroy('tank/a/idle@p4') == EBUSY)
        return zfs.exists('tank/a/idle@p5')";
    site.ok("zfs hold keep tank/a/idle@p4")?;
    ensure!(program(site, "", cut)? == true);
    site.ok("zfs release keep tank/a/idle@p4")?;
    let gone = "
        for snapshot in zfs.list.snapshots('tank/a/idle') do
            assert(zfs.sync.destroy(snapshot) == 0)
        end
        return zfs.sync.destroy('tank/a/idle') == 0 and not zfs.exists('tank/a/idle')";
    ensure!(program(site, "", gone)? == true);
    ensure!(
        site.ok("zpool history tank")?
            .contains("zfs program -j tank ")
    );
    Ok(())
}

/// A daemon that dies in the middle of a program leaves nothing of it.
fn cut_off_in_a_program(site: &Site) -> Result<()> {
    let file = site.cenote().directory().join("program.lua");
    let source = "
        assert(zfs.sync.snapshot('tank/a@cut') == 0)
        zfs.debug('half done')
        for i = 1, 20000000 do end
        assert(zfs.sync.snapshot('tank/a/idle@cut') == 0)";
    write(&file, source)?;
    let file = file.display().to_string();
    let words = ["program", "-t", "100000000", "tank", &file];
    let mut program = site.cenote().command("zfs", &words);
    let mut program = program
        .stderr(std::process::Stdio::null())
        .spawn()
        .context("zfs program")?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    site.crash()?;
    site.ok("cenote daemon resume")?;
    ensure!(
        !program.wait()?.success(),
        "the program ended before the daemon"
    );
    let left = site.ok("zfs list -H -t snapshot -o name")?;
    ensure!(!left.contains("@cut"), "{left}");
    Ok(())
}

/// Programs see what `zfs get` shows.
fn read_by_programs(site: &Site) -> Result<()> {
    for (property, dataset) in [
        ("guid", "tank/a@p1"),
        ("used", "tank/a"),
        ("volsize", "tank/a/disk"),
        ("createtxg", "tank/a"),
        ("written", "tank/a/disk"),
    ] {
        let source = format!("return (zfs.get_prop('{dataset}', '{property}'))");
        let number = program(site, "-n", &source)?.as_i64();
        let number = number.map(|number| number.cast_unsigned().to_string());
        ensure!(
            number == Some(value(site, property, dataset)?),
            "{property}: {number:?}"
        );
    }
    let source = "
        local note, from = zfs.get_prop('tank/a/idle', 'my:note')
        local marks = {}
        for mark in zfs.list.bookmarks('tank/a') do marks[mark] = true end
        assert(marks['tank/a#p1'] and zfs.check.snapshot('tank/a@new') == 0)
        return {note, from, zfs.get_prop('tank/a', 'mountpoint')}";
    let seen = program(site, "-n", source)?;
    ensure!(seen["1"] == "seen" && seen["2"] == "tank/a/idle", "{seen}");
    ensure!(
        seen["3"] == value(site, "mountpoint", "tank/a")?.as_str(),
        "{seen}"
    );
    let file = site.cenote().directory().join("program.lua");
    for (source, told) in [
        ("return zfs.exists('rpool')", "not in the target pool"),
        ("zfs.sync.destroy('tank/a')", "requires passing sync=TRUE"),
        (
            "return 1 / 0",
            "1: attempt to divide by zero\nstack traceback:\n\t[string",
        ),
        (
            "zfs.get_prop('tank', 'nothing')",
            "property 'nothing' does not exist",
        ),
    ] {
        write(&file, source)?;
        let refused = site.fails(&format!("zfs program -n tank {}", file.display()))?;
        let why = refused.stderr;
        ensure!(
            why.starts_with("Channel program execution failed:\n"),
            "{why}"
        );
        ensure!(why.contains(told), "{why}");
    }
    Ok(())
}
