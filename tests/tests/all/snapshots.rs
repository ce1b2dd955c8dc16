//! Snapshots, clones, holds and bookmarks by their commands, under mounts, with OpenZFS's judgement
//! of the pool that is left.

use anyhow::{Context, Result, ensure};
use cenote_tests::site::Site;
use std::fs;
use std::path::Path;

fn write(path: &Path, text: &str) -> Result<()> {
    Ok(fs::write(path, text)?)
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The value of a dataset's property.
fn value(site: &Site, property: &str, dataset: &str) -> Result<String> {
    let line = format!("zfs get -Hp -o value {property} {dataset}");
    Ok(site.ok(&line)?.trim().to_owned())
}

/// Everything that the commands can do, in a tree with children.
#[test]
fn commands_change_a_tree_under_its_mounts() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("raidz1", 256, "")?;
    site.ok("zfs create tank/a")?;
    site.ok("zfs create tank/a/b")?;
    let (root, below) = (site.path("tank/a"), site.path("tank/a/b"));
    write(&root.join("file"), "first")?;
    write(&below.join("inner"), "first")?;
    site.ok("zfs snapshot -r -o my:note=early tank/a@one")?;
    write(&root.join("file"), "second")?;
    made_and_seen(&site, &root, &below)?;
    states_are_told_apart(&site, &root)?;
    read_without_a_mount(&site, &root)?;
    held_and_destroyed(&site, &root)?;
    cloned_and_promoted(&site)?;
    rolled_back(&site, &root)?;
    rolled_back_under_open_files(&site)?;
    refused_destruction_loses_nothing(&site, &root)?;
    told_space_comes_back(&site)?;
    changed_as_directories(&site, &root)?;
    changed_by_programs(&site, &root)?;
    site.ok("zfs destroy -R tank/a")?;
    ensure!(site.ok("zfs list -H -t all -o name")?.trim() == "tank");
    site.finish()
}

/// Files of snapshots had the inode numbers of today's: `cp` took both for one file, and `tar`
/// stored the second as a hard link to the first, with the wrong contents.
fn states_are_told_apart(site: &Site, root: &Path) -> Result<()> {
    let below = "one turn3 turn7 turn19".split(' ');
    let states: Vec<String> = below.map(|name| format!(".zfs/snapshot/{name}")).collect();
    fs::hard_link(root.join("file"), root.join("link"))?;
    let (archive, out) = (root.join("tar"), site.cenote().subdirectory("states")?);
    let tar = |words: &[&str], paths: &[String]| -> Result<()> {
        let mut command = std::process::Command::new("tar");
        command.arg("-C").args(words).args(paths);
        ensure!(command.status()?.success(), "tar {words:?}");
        Ok(())
    };
    let text = |path: &Path| path.display().to_string();
    let now = ["file", "link"].map(str::to_owned);
    let of_states = states.iter().map(|state| format!("{state}/file"));
    let all: Vec<String> = now.into_iter().chain(of_states).collect();
    tar(&[&text(root), "-cf", &text(&archive)], &all)?;
    tar(&[&text(&out), "-xf", &text(&archive)], &[])?;
    for name in &all {
        ensure!(
            fs::read(out.join(name))? == fs::read(root.join(name))?,
            "{name}"
        );
    }
    walked_by_programs(root, &out)?;
    let copied = std::process::Command::new("cp")
        .args([root.join(&states[0]).join("file"), root.join("file")])
        .status()?;
    ensure!(copied.success() && fs::read_to_string(root.join("file"))? == "first");
    for name in ["link", "tar"] {
        fs::remove_file(root.join(name))?;
    }
    write(&root.join("file"), "turn 19")
}

/// What walks by device and inode finds each file of each snapshot, once.
fn walked_by_programs(root: &Path, out: &Path) -> Result<()> {
    let snapshots = root.join(".zfs/snapshot");
    let run = |line: &[&str]| -> Result<String> {
        let mut command = std::process::Command::new(line[0]);
        let done = command.args(&line[1..]).current_dir(&snapshots).output()?;
        ensure!(done.status.success(), "{line:?}: {done:?}");
        Ok(String::from_utf8(done.stdout)?)
    };
    let ids = run(&[
        "find", "..", "../..", "-xdev", "-type", "f", "-printf", "%D:%i\n",
    ])?;
    let mut ids: Vec<&str> = ids.lines().collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    // The file and its link are one.
    ensure!(count == names(&snapshots)?.len() + 3 && ids.len() == count - 1);
    let copies = ["cp", "rsync"].map(|name| out.join(name).display().to_string());
    run(&["cp", "-a", ".", &copies[0]])?;
    run(&["rsync", "-axH", "./", &copies[1]])?;
    for name in names(&snapshots)? {
        let before = fs::read(snapshots.join(&name).join("file"))?;
        for copy in &copies {
            let copied = fs::read(Path::new(copy).join(&name).join("file"))?;
            ensure!(copied == before, "{copy}: {name}");
        }
    }
    let sizes = run(&["du", "-x", "--apparent-size", "--block-size=1", "."])?;
    ensure!(sizes.lines().count() > names(&snapshots)?.len(), "{sizes}");
    Ok(())
}

/// What was written a moment ago was not found by commands that read the disks.
fn read_without_a_mount(site: &Site, root: &Path) -> Result<()> {
    write(&root.join("fresh"), "just now")?;
    ensure!(site.ok("cenote cat tank/a:/fresh")? == "just now");
    fs::remove_file(root.join("fresh"))?;
    Ok(())
}

/// A snapshot is under `.zfs/snapshot` at once, and what it holds does not change.
fn made_and_seen(site: &Site, root: &Path, below: &Path) -> Result<()> {
    let snapshots = root.join(".zfs/snapshot");
    ensure!(names(&snapshots)? == ["one"]);
    ensure!(fs::read_to_string(snapshots.join("one/file"))? == "first");
    ensure!(fs::read_to_string(root.join("file"))? == "second");
    ensure!(fs::read_to_string(below.join(".zfs/snapshot/one/inner"))? == "first");
    ensure!(value(site, "my:note", "tank/a/b@one")? == "early");
    // What was written just before a snapshot is in it, however busy the pool is.
    for number in 0..20 {
        write(&root.join("file"), &format!("turn {number}"))?;
        site.ok(&format!("zfs snapshot tank/a@turn{number}"))?;
    }
    for number in 0..20 {
        let path = snapshots.join(format!("turn{number}/file"));
        ensure!(fs::read_to_string(path)? == format!("turn {number}"));
    }
    // A change of a moment ago was only in memory, and was no difference.
    for number in 0..20 {
        write(&root.join(format!("new{number}")), "")?;
        let changed = site.ok("zfs diff tank/a@turn19")?;
        ensure!(changed.contains(&format!("/new{number}\n")), "{changed}");
        fs::remove_file(root.join(format!("new{number}")))?;
    }
    // The message used to say that the dataset does not exist.
    let unknown = site.fails("zfs diff tank/a@nosuch")?.stderr;
    let said = "cannot open 'tank/a@nosuch': snapshot does not exist\n";
    ensure!(unknown == said, "{unknown}");
    let again = site.fails("zfs snapshot tank/a@one tank/a/b@new")?;
    let text = again.stderr;
    ensure!(
        text.contains("cannot create snapshot 'tank/a@one': dataset already exists"),
        "{text}"
    );
    ensure!(text.contains("no snapshots were created"), "{text}");
    Ok(())
}

/// Holds keep snapshots; ranges are destroyed at once, and destroyed snapshots cannot be read.
fn held_and_destroyed(site: &Site, root: &Path) -> Result<()> {
    let snapshots = root.join(".zfs/snapshot");
    site.ok("zfs hold -r keep tank/a@one")?;
    ensure!(site.ok("zfs holds -rH tank/a@one")?.lines().count() == 2);
    site.fails("zfs destroy tank/a@one")?;
    site.ok("zfs destroy -d tank/a@one")?;
    ensure!(value(site, "defer_destroy", "tank/a@one")? == "on");
    site.ok("zfs release -r keep tank/a@one")?;
    site.fails("zfs list tank/a@one")?;
    ensure!(!snapshots.join("one").exists());
    let open = fs::File::open(snapshots.join("turn3/file"))?;
    site.ok("zfs destroy tank/a@turn3%turn7,turn9,%turn1")?;
    drop(open);
    ensure!(
        !names(&snapshots)?
            .iter()
            .any(|name| name == "turn3" || name == "turn0")
    );
    ensure!(fs::read(snapshots.join("turn5/file")).is_err());
    ensure!(names(&snapshots)?.len() == 12);
    site.ok("zfs rename -r tank/a@turn19 last")?;
    ensure!(fs::read_to_string(snapshots.join("last/file"))? == "turn 19");
    ensure!(!snapshots.join("turn19").exists());
    Ok(())
}

/// A clone begins as its snapshot, and the two can change their places.
fn cloned_and_promoted(site: &Site) -> Result<()> {
    site.ok("zfs clone tank/a@last tank/c")?;
    let clone = site.path("tank/c");
    ensure!(fs::read_to_string(clone.join("file"))? == "turn 19");
    write(&clone.join("file"), "of the clone")?;
    ensure!(value(site, "origin", "tank/c")? == "tank/a@last");
    ensure!(value(site, "clones", "tank/a@last")? == "tank/c");
    site.fails("zfs destroy tank/a@last")?;
    site.ok("zfs promote tank/c")?;
    ensure!(value(site, "origin", "tank/a")? == "tank/c@last");
    ensure!(fs::read_to_string(clone.join(".zfs/snapshot/turn10/file"))? == "turn 10");
    site.ok("zfs promote tank/a")?;
    ensure!(value(site, "origin", "tank/c")? == "tank/a@last");
    ensure!(fs::read_to_string(clone.join("file"))? == "of the clone");
    Ok(())
}

/// A recursive destruction that is refused, because a child's file is open or a snapshot is held,
/// must change nothing. It once continued with the other datasets, and destroyed snapshots before
/// it found the mount in use.
fn refused_destruction_loses_nothing(site: &Site, root: &Path) -> Result<()> {
    site.ok("zfs create tank/e")?;
    site.ok("zfs create tank/e/x")?;
    site.ok("zfs create tank/e/y")?;
    site.ok("zfs snapshot -r tank/e@s")?;
    site.ok("zfs snapshot -r tank/e@t")?;
    let list = || site.ok("zfs list -H -t all -o name -r tank/e");
    let before = list()?;
    let open = fs::File::create(site.path("tank/e/y").join("open"))?;
    site.fails("zfs destroy -r tank/e")?;
    ensure!(list()? == before, "{}", list()?);
    drop(open);
    site.ok("zfs hold keep tank/e/y@t")?;
    site.fails("zfs destroy -r tank/e")?;
    ensure!(list()? == before, "{}", list()?);
    site.ok("zfs release keep tank/e/y@t")?;
    // Children went before a snapshot of their parent was found to be held.
    site.ok("zfs hold keep tank/e@t")?;
    site.fails("zfs destroy -r tank/e")?;
    ensure!(list()? == before, "{}", list()?);
    site.ok("zfs release keep tank/e@t")?;
    // A clone beside its origin goes before it, though its name comes first.
    site.ok("zfs clone tank/e/y@s tank/e/a")?;
    site.ok("zfs destroy -r tank/e")?;
    ensure!(root.join("file").exists());
    // What is below its own clone can go neither before it nor after.
    site.ok("zfs create tank/e")?;
    site.ok("zfs snapshot tank/e@s")?;
    site.ok("zfs clone tank/e@s tank/e/c")?;
    site.ok("zfs create tank/e/d")?;
    site.ok("zfs promote tank/e/c")?;
    let before = list()?;
    site.fails("zfs destroy -r tank/e")?;
    ensure!(list()? == before, "{}", list()?);
    site.ok("zfs promote tank/e")?;
    site.ok("zfs destroy -r tank/e")?;
    Ok(())
}

/// What `cenote space` and `zfs destroy -nv` say of snapshots is what destroying them gives back,
/// to the byte, however they share their blocks; what stays is not in it.
fn told_space_comes_back(site: &Site) -> Result<()> {
    site.ok("zfs create -o compression=off tank/s")?;
    let root = site.path("tank/s");
    // Each snapshot has a file of its own, one of its own and the next's, and one of all.
    fs::write(root.join("of all"), vec![1; 300_000])?;
    for number in 0..6_usize {
        fs::write(root.join("own"), vec![2; 100_000 * (number + 1)])?;
        fs::write(root.join(format!("shared{}", number % 2)), vec![3; 200_000])?;
        site.ok(&format!("zfs snapshot tank/s@n{number}"))?;
    }
    fs::remove_file(root.join("of all"))?;
    site.ok("zpool sync tank")?;
    let number = |text: &str| text.trim().parse::<u64>().context("a number");
    let told = |line: &str| -> Result<u64> {
        let text = site.ok(line)?;
        let line = text.lines().find_map(|line| line.strip_prefix("reclaim\t"));
        number(line.context("a sum")?)
    };
    let used = || number(&value(site, "used", "tank/s")?);
    let alone = number(&value(site, "used", "tank/s@n1")?)?;
    ensure!(told("cenote space -Hp tank/s@n1%n2")? > 2 * alone);
    let few = site.ok("cenote space -Hp --free 700K tank/s")?;
    let count = few
        .lines()
        .filter(|line| line.starts_with("tank/s@"))
        .count();
    let so_many = |last: usize| told(&format!("cenote space -Hp tank/s@%n{last}"));
    ensure!(
        so_many(count - 1)? >= 700 << 10 && so_many(count - 2)? < 700 << 10,
        "{few}"
    );
    site.fails("cenote space --free 1G tank/s")?;
    let list = format!("zfs destroy tank/s@n0%n{}\n", count - 1);
    let shown = site.ok("cenote space --free 700K tank/s")?;
    ensure!(shown.ends_with(&list), "{shown}");
    site.ok("zfs hold keep tank/s@n3")?;
    site.ok("zfs clone tank/s@n4 tank/sc")?;
    let all = site.ok("cenote space -s tank/s")?;
    ensure!(
        all.contains(" holds\n") && all.contains(" clones\n"),
        "{all}"
    );
    for list in ["n1%n2", "n0,n5", "n3"] {
        let expected = told(&format!("cenote space -Hp tank/s@{list}"))?;
        ensure!(told(&format!("zfs destroy -nvp tank/s@{list}"))? == expected);
        if list == "n3" {
            ensure!(expected == 0, "it is held");
            site.ok("zfs release keep tank/s@n3")?;
            continue;
        }
        let before = used()?;
        let said = site.ok(&format!("zfs destroy -v tank/s@{list}"))?;
        ensure!(said.contains("will reclaim "), "{said}");
        let freed = before - used()?;
        ensure!(
            freed == expected && freed > 0,
            "{list}: {freed}, not {expected}"
        );
    }
    let text = site.ok("cenote space -j tank")?;
    ensure!(text.contains("\"older_than\":0,\"count\":"), "{text}");
    site.ok("zfs destroy -R tank/s")?;
    Ok(())
}

/// `zfs bookmark -r` of a tree in which one dataset lacks the snapshot.
fn bookmarked_with_those_below(site: &Site) -> Result<()> {
    for name in ["tank/b", "tank/b/fs", "tank/bb"] {
        site.ok(&format!("zfs create {name}"))?;
    }
    site.ok("zfs create -V 8M tank/b/volume")?;
    site.ok("zfs snapshot -r tank/b@one")?;
    site.ok("zfs snapshot tank/bb@one")?;
    site.ok("zfs create tank/b/newer")?;
    site.ok("zfs bookmark -r tank/b@one #one")?;
    let marks = || site.ok("zfs list -H -t bookmark -o name -r tank/b tank/bb");
    let made = "tank/b#one\ntank/b/fs#one\ntank/b/volume#one\n";
    ensure!(marks()? == made, "{}", marks()?);
    // All or none: the one of the volume is there.
    site.ok("zfs destroy tank/b#one")?;
    site.ok("zfs destroy tank/b/fs#one")?;
    site.fails("zfs bookmark -r tank/b@one tank/b#one")?;
    ensure!(marks()? == "tank/b/volume#one\n", "{}", marks()?);
    for wrong in [
        "tank/b/volume#one #two",
        "tank/b@one tank/b/fs#two",
        "tank/b@no #two",
    ] {
        site.fails(&format!("zfs bookmark -r {wrong}"))?;
    }
    site.ok("zfs destroy -r tank/b")?;
    site.ok("zfs destroy -r tank/bb")?;
    Ok(())
}

/// Rolling back, past newer snapshots and bookmarks on request.
fn rolled_back(site: &Site, root: &Path) -> Result<()> {
    write(&root.join("file"), "too much")?;
    site.ok("zfs rollback tank/a@last")?;
    ensure!(fs::read_to_string(root.join("file"))? == "turn 19");
    write(&root.join("file"), "newer")?;
    site.ok("zfs snapshot tank/a@newer")?;
    site.ok("zfs bookmark tank/a@newer #mark")?;
    ensure!(site.ok("zfs list -H -t bookmark -o name -r tank/a")?.trim() == "tank/a#mark");
    bookmarked_with_those_below(site)?;
    let refused = site.fails("zfs rollback tank/a@last")?;
    let text = refused.stderr;
    ensure!(
        text.contains("more recent snapshots or bookmarks exist"),
        "{text}"
    );
    // In use, it is refused, and nothing is lost by that.
    let open = fs::File::open(root.join("file"))?;
    site.fails("zfs rollback -r tank/a@last")?;
    drop(open);
    site.ok("zfs list tank/a@newer")?;
    site.ok("zfs rollback -r tank/a@last")?;
    ensure!(fs::read_to_string(root.join("file"))? == "turn 19");
    let left = site.ok("zfs list -H -t snapshot,bookmark -o name -r tank/a")?;
    let newest = left.lines().rfind(|line| line.starts_with("tank/a@"));
    ensure!(newest.context("some are left")? == "tank/a@last", "{left}");
    Ok(())
}

/// As in OpenZFS, the mount stays, and so do open files. They continue with the snapshot's
/// contents, and get `EIO` for files that the snapshot does not have.
fn rolled_back_under_open_files(site: &Site) -> Result<()> {
    use std::io::{Read, Seek, Write};
    site.ok("zfs create tank/solo")?;
    let root = site.path("tank/solo");
    let text = |name: &str| fs::read_to_string(root.join(name));
    write(&root.join("kept"), "as it was\n")?;
    write(&root.join("grown"), "one\n")?;
    fs::create_dir(root.join("inner"))?;
    site.ok("zfs snapshot tank/solo@then")?;
    let both = || fs::File::options().read(true).write(true).clone();
    let mut kept = both().open(root.join("kept"))?;
    let mut grown = fs::File::options().append(true).open(root.join("grown"))?;
    let inner = fs::File::open(root.join("inner"))?;
    kept.write_all(b"overwritten by more than it was\n")?;
    grown.write_all(b"two\n")?;
    fs::remove_dir(root.join("inner"))?;
    write(&root.join("new"), "not to be")?;
    let mut new = both().open(root.join("new"))?;
    let mut unnamed = both().open(root.join("new"))?;
    fs::create_dir(root.join("later"))?;
    ensure!(names(&root)?.len() == 4 && root.join("later").is_dir());
    let before = fs::read_to_string("/proc/self/mounts")?;

    site.ok("zfs snapshot tank/solo@newer")?;
    site.ok("zfs clone tank/solo@newer tank/branch")?;
    told_of_clones(site)?;
    site.ok("zfs rollback -R tank/solo@then")?;
    let after = fs::read_to_string("/proc/self/mounts")?;
    let is_same = mounts_but_the_clone(site, &after) == mounts_but_the_clone(site, &before);
    ensure!(is_same, "{before}\n{after}");
    ensure!(
        names(&root)? == ["grown", "inner", "kept"],
        "{:?}",
        names(&root)?
    );
    ensure!(text("kept")? == "as it was\n" && text("grown")? == "one\n");

    kept.rewind()?;
    ensure!(std::io::read_to_string(&kept)? == "as it was\n");
    ensure!(kept.metadata()?.len() == 10);
    grown.write_all(b"three\n")?;
    ensure!(text("grown")? == "one\nthree\n");
    let eio = Some(rustix::io::Errno::IO.raw_os_error());
    let mut bytes = [0; 4];
    new.rewind()?;
    let read = errno_of(new.read_exact(&mut bytes));
    let written = errno_of(unnamed.write_all(b"x"));
    ensure!(read == eio && written == eio, "{read:?} {written:?}");
    // Its number may be another file's now, which is none of its business.
    for number in 0..20 {
        write(&root.join(format!("fresh{number}")), "fresh")?;
    }
    new.rewind()?;
    let read = errno_of(new.read_exact(&mut bytes));
    ensure!(read == eio, "{read:?}");
    drop((new, unnamed, inner, kept, grown));
    for number in 0..20 {
        ensure!(text(&format!("fresh{number}"))? == "fresh");
    }
    site.reopen(&["tank/solo"])?;
    ensure!(text("grown")? == "one\nthree\n");
    destroyed_with_clones(site)
}

/// The lines of a mount table about this pool, which is not the only one in it.
fn mounts_but_the_clone(site: &Site, mounts: &str) -> Vec<String> {
    let own = site.path("tank").display().to_string();
    let lines = mounts.lines().filter(|line| line.contains(&own));
    let lines = lines.filter(|line| !line.contains("tank/branch"));
    lines.map(str::to_owned).collect()
}

/// What has clones is in the way of a rollback, and not destroyed without them.
fn told_of_clones(site: &Site) -> Result<()> {
    let refused = site.fails("zfs rollback -r tank/solo@then")?.stderr;
    let reason = "clones of previous snapshots exist\n";
    ensure!(refused.contains(reason), "{refused}");
    let refused = site.fails("zfs destroy -r tank/solo@newer")?.stderr;
    let advice = "cannot destroy 'tank/solo@newer': snapshot has dependent clones\n\
                  use '-R' to destroy the following datasets:\ntank/branch\n";
    ensure!(refused == advice, "{refused}");
    Ok(())
}

/// `zfs destroy -R` of a snapshot takes its clones.
fn destroyed_with_clones(site: &Site) -> Result<()> {
    site.ok("zfs clone tank/solo@then tank/branch")?;
    site.ok("zfs snapshot tank/branch@b")?;
    let told = site.ok("zfs destroy -nvR tank/solo@then")?;
    let going =
        "would destroy tank/branch@b\nwould destroy tank/branch\nwould destroy tank/solo@then\n";
    ensure!(told.starts_with(going), "{told}");
    site.ok("zfs destroy -R tank/solo@then")?;
    site.fails("zfs list tank/branch")?;
    site.ok("zfs destroy -r tank/solo")?;
    Ok(())
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

fn errno_of(done: std::io::Result<()>) -> Option<i32> {
    done.err().and_then(|error| error.raw_os_error())
}

/// `mkdir`, `mv` and `rmdir` in `.zfs/snapshot` make, rename and destroy snapshots.
fn changed_as_directories(site: &Site, root: &Path) -> Result<()> {
    use rustix::io::Errno;
    let errno = |errno: Errno| Some(errno.raw_os_error());
    let snapshots = root.join(".zfs/snapshot");
    let listed = |name: &str| -> Result<bool> {
        let all = site.ok("zfs list -H -t snapshot -o name tank/a")?;
        Ok(all.lines().any(|line| line == format!("tank/a@{name}")))
    };
    write(&root.join("file"), "by hand")?;
    fs::create_dir(snapshots.join("hand"))?;
    write(&root.join("file"), "later")?;
    ensure!(fs::read_to_string(snapshots.join("hand/file"))? == "by hand" && listed("hand")?);
    let again = errno_of(fs::create_dir(snapshots.join("hand")));
    ensure!(again == errno(Errno::EXIST), "{again:?}");
    let odd = errno_of(fs::create_dir(snapshots.join("a b@c")));
    ensure!(odd == errno(Errno::INVAL), "{odd:?}");
    let inside = errno_of(fs::create_dir(snapshots.join("hand/new")));
    ensure!(inside == errno(Errno::ROFS), "{inside:?}");
    site.ok("cenote settings set zfs_admin_snapshot=0")?;
    let forbidden = errno_of(fs::remove_dir(snapshots.join("hand")));
    ensure!(forbidden == errno(Errno::ACCESS), "{forbidden:?}");
    site.ok("cenote settings set zfs_admin_snapshot=1")?;

    let open = fs::File::open(snapshots.join("hand/file"))?;
    fs::rename(snapshots.join("hand"), snapshots.join("moved"))?;
    ensure!(listed("moved")? && !listed("hand")? && !snapshots.join("hand").exists());
    ensure!(fs::read_to_string(snapshots.join("moved/file"))? == "by hand");
    ensure!(std::io::read_to_string(&open)? == "by hand");
    let out = errno_of(fs::rename(snapshots.join("moved"), root.join("out")));
    ensure!(out == errno(Errno::INVAL), "{out:?}");

    site.ok("zfs hold keep tank/a@moved")?;
    let held = errno_of(fs::remove_dir(snapshots.join("moved")));
    ensure!(held == errno(Errno::BUSY), "{held:?}");
    site.ok("zfs release keep tank/a@moved")?;
    site.ok("zfs clone tank/a@moved tank/clone")?;
    let cloned = errno_of(fs::remove_dir(snapshots.join("moved")));
    ensure!(cloned == errno(Errno::BUSY), "{cloned:?}");
    site.ok("zfs destroy tank/clone")?;
    fs::remove_dir(snapshots.join("moved"))?;
    ensure!(!listed("moved")? && !snapshots.join("moved").exists());
    let gone = errno_of(fs::remove_dir(snapshots.join("moved")));
    ensure!(gone == errno(Errno::NOENT), "{gone:?}");
    // The name is free for another one.
    fs::create_dir(snapshots.join("moved"))?;
    ensure!(fs::read_to_string(snapshots.join("moved/file"))? == "later");
    fs::remove_dir(snapshots.join("moved"))?;
    the_directory_has_the_time_of_its_list(site, root)
}

/// The directory of the snapshots was always as new as its root's last change.
fn the_directory_has_the_time_of_its_list(site: &Site, root: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is_time_of = |dataset: &str, place: &Path| -> Result<()> {
        let shown = fs::metadata(place.join(".zfs/snapshot"))?.mtime();
        let changed = site.ok(&format!("zfs get -Hpo value snapshots_changed {dataset}"))?;
        let changed: i64 = changed.trim().parse().unwrap_or(0);
        ensure!(shown == changed, "{dataset}: {shown}, not {changed}");
        Ok(())
    };
    is_time_of("tank/a", root)?;
    site.ok("zfs create tank/a/new")?;
    let new = root.join("new");
    ensure!(fs::metadata(new.join(".zfs/snapshot"))?.mtime() == 0);
    site.ok("zfs snapshot tank/a/new@one")?;
    is_time_of("tank/a/new", &new)?;
    ensure!(fs::metadata(new.join(".zfs/snapshot"))?.mtime() != 0);
    site.ok("zfs destroy -r tank/a/new").map(drop)
}
