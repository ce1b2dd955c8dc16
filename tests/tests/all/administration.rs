//! What an administrator meets beside the ordinary: pools for other software, devices that are in
//! use, histories, previews.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::program::Cenote;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::process::Command;

/// A file for a device.
fn device(site: &Site, name: &str) -> Result<String> {
    let path = site.devices().join(name);
    File::create(&path)?.set_len(128 << 20)?;
    Ok(path.display().to_string())
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// A pool property's value.
fn value(site: &Site, property: &str) -> Result<String> {
    let line = site.ok(&format!("zpool get -Hpo value {property} tank"))?;
    Ok(line.trim_end().to_owned())
}

/// The commands in the pool's history, without their times.
fn history(site: &Site) -> Result<Vec<String>> {
    let text = site.ok("zpool history tank")?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(_, command)| command.to_owned()).collect())
}

#[test]
fn sets_of_features_are_known_by_name() -> Result<()> {
    let site = Site::new("tank")?;
    let a = device(&site, "a")?;
    let nosuch = site.fails(&format!("zpool create -o compatibility=nosuch tank {a}"))?;
    let reason = "Error: could not read/parse feature file(s): nosuch\n";
    ensure!(nosuch.stderr == reason, "{}", nosuch.report());
    site.ok(&format!(
        "zpool create -O mountpoint=none -o compatibility=openzfs-2.1-linux tank {a}"
    ))?;
    for (feature, state) in [("draid", "enabled"), ("blake3", "disabled")] {
        let found = value(&site, &format!("feature@{feature}"))?;
        ensure!(found == state, "{feature} is {found}");
    }
    // All requested changes were made.
    let status = site.ok("zpool status tank")?;
    ensure!(!status.contains("status:"), "{status}");
    has(&site.ok("zpool upgrade tank")?, "already has all supported")?;
    site.ok("zpool set compatibility=openzfs-2.2 tank")?;
    has(&site.ok("zpool status tank")?, "features are not enabled")?;
    has(&site.ok("zpool upgrade tank")?, "\n  blake3\n")?;
    let fewer = site
        .cenote()
        .run("zpool", &["set", "compatibility=openzfs-2.0-linux", "tank"])?;
    has(
        &fewer.success()?.stderr,
        "are not present in this compatibility set.",
    )?;
    has(&site.ok("zpool status tank")?, "despite not being")?;
    site.fails("zpool set compatibility=nosuch tank")?;
    // A set that could be read when it was asked for, and that cannot be read any more.
    let set = site.cenote().directory().join("gone");
    fs::write(&set, "async_destroy\n")?;
    site.ok(&format!("zpool set compatibility={} tank", set.display()))?;
    fs::remove_file(&set)?;
    let refused = site.fails("zpool upgrade tank")?;
    has(&refused.stderr, "could not read/parse feature file(s)")?;
    ensure!(refused.stdout.is_empty(), "{}", refused.report());
    site.ok("zpool set compatibility=openzfs-2.0-linux tank")?;
    ensure!(value(&site, "compatibility")? == "openzfs-2.0-linux");
    site.ok("zpool set compatibility=legacy tank")?;
    let refused = site.fails("zpool set feature@fast_dedup=enabled tank")?;
    has(&refused.stderr, "'compatibility' property is 'legacy'")?;
    site.ok("zpool set compatibility=off tank")?;
    site.ok("zpool set feature@fast_dedup=enabled tank")?;
    site.finish()
}

/// Once destruction asked for the feature of the queue of blocks, which a pool of version 28
/// cannot get.
#[test]
fn datasets_go_at_once_where_there_is_no_queue() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 192, "-d")?;
    let used = || site.ok("zfs list -Hpo used tank");
    let before: u64 = used()?.trim().parse()?;
    site.ok("zfs create -o recordsize=4K -o compression=off tank/doomed")?;
    let root = site.path("tank/doomed");
    for number in 0..50 {
        let bytes = vec![number; 300_000];
        fs::write(root.join(format!("file{number}")), bytes)?;
    }
    site.ok("zpool sync tank")?;
    site.ok("zfs create -V 8M tank/volume")?;
    let full: u64 = used()?.trim().parse()?;
    ensure!(full > before + (14 << 20), "{full} of {before}");
    site.ok("zfs destroy tank/volume")?;
    site.ok("zfs destroy tank/doomed")?;
    let after: u64 = used()?.trim().parse()?;
    ensure!(after < before + (1 << 20), "{after} of {before}");
    ensure!(value(&site, "freeing")? == "0", "nothing waits");
    site.finish()
}

#[test]
fn devices_of_imported_pools_are_not_taken_by_force() -> Result<()> {
    let site = Site::new("tank")?;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| device(&site, name));
    let (a, b, c, d) = (a?, b?, c?, d?);
    site.ok(&format!(
        "zpool create -O mountpoint=none tank {a} cache {b} spare {c}"
    ))?;
    site.ok(&format!("zpool create -O mountpoint=none other {d}"))?;
    // Snapshots of two pools were made one after the other, so that one could be missing.
    let refused = site.fails("zfs snapshot tank@one other@one")?;
    has(&refused.stderr, "must be in the same pool")?;
    ensure!(site.ok("zfs list -H -t snapshot")?.is_empty());
    site.ok("zpool export other")?;
    let places = site.devices().display();
    site.ok(&format!("zpool import -o readonly=on -d {places} other"))?;
    for (device, reason) in [
        (&a, "is part of active pool 'tank'"),
        (&b, "is part of active pool 'tank'"),
        (&c, "is reserved as a hot spare for pool 'tank'"),
        (&d, "is part of active pool 'other'"),
    ] {
        let refused = site.fails(&format!("zpool create -f third {device}"))?;
        has(&refused.stderr, "the following errors must be manually")?;
        has(&refused.stderr, reason)?;
    }
    ensure!(site.ok("zpool get -Hovalue readonly tank")?.trim() == "off");
    ensure!(site.ok("zpool get -Hovalue readonly other")?.trim() == "on");
    site.ok("zpool export other")?;
    site.ok(&format!("zpool labelclear -f {d}"))?;
    fs::remove_file(&d)?;
    site.finish()
}

#[test]
fn layouts_that_are_mistakes_are_refused() -> Result<()> {
    let site = Site::new("tank")?;
    let [a, b, c] = ["a", "b", "c"].map(|name| device(&site, name));
    let (a, b, c) = (a?, b?, c?);
    File::options().write(true).open(&b)?.set_len(160 << 20)?;
    let refused = site.fails(&format!("zpool create tank mirror {a} {b}"))?;
    has(
        &refused.stderr,
        "use '-f' to override the following errors:\n",
    )?;
    has(
        &refused.stderr,
        "mirror contains devices of different sizes",
    )?;
    let refused = site.fails(&format!("zpool create tank {a} log {b} log {c}"))?;
    has(&refused.stderr, "'log' can be specified only once")?;
    site.ok(&format!(
        "zpool create -f -O mountpoint=none tank mirror {a} {b}"
    ))?;
    // Only file systems have something below them.
    site.ok("zfs create -s -V 1M tank/volume")?;
    site.ok("zfs create tank/files")?;
    let refused = site.fails("zfs create tank/volume/x")?;
    has(
        &refused.stderr,
        "cannot create 'tank/volume/x': parent is not a filesystem",
    )?;
    let refused = site.fails("zfs rename tank/files tank/volume/files")?;
    has(&refused.stderr, "parent is not a filesystem")?;
    let refused = site.fails("zfs inherit quota tank/files")?;
    let advice = "'quota' property cannot be inherited\nuse 'zfs set quota=none' to clear\n";
    ensure!(refused.stderr.starts_with(advice), "{}", refused.report());
    let refused = site.fails("zfs set a:B=c tank/files")?;
    has(&refused.stderr, "invalid property 'a:B'")?;
    fs::remove_file(&c)?;
    site.finish()
}

#[test]
fn properties_of_pools_are_set_by_all_their_names() -> Result<()> {
    let site = Site::new("tank")?;
    let [a, b, c] = ["a", "b", "c"].map(|name| device(&site, name));
    let (a, b, c) = (a?, b?, c?);
    site.ok(&format!(
        "zpool create -O mountpoint=none -O compress=zstd -o ashift=13 tank {a}"
    ))?;
    site.ok("zpool set listsnaps=on tank")?;
    ensure!(value(&site, "listsnapshots")? == "on");
    ensure!(site.ok("zfs get -Hovalue compression tank")?.trim() == "zstd");
    site.ok("zfs create -o recsize=1M tank/boot")?;
    site.ok("zfs set compress=lz4 tank/boot")?;
    site.ok("zfs inherit compress tank/boot")?;
    ensure!(site.ok("zfs get -Hovalue recordsize tank/boot")?.trim() == "1M");
    ensure!(site.ok("zfs get -Hovalue compression tank/boot")?.trim() == "zstd");
    site.ok("zpool set bootfs=tank/boot tank")?;
    ensure!(value(&site, "bootfs")? == "tank/boot");
    let foreign = site.fails("zpool set bootfs=rpool tank")?;
    has(&foreign.stderr, "'rpool' is an invalid name")?;
    site.fails("zpool set bootfs=tank/nosuch tank")?;
    ensure!(value(&site, "bootfs")? == "tank/boot");
    // New vdevs are as those before, until the property says otherwise.
    site.ok(&format!("zpool add tank {b}"))?;
    ensure!(value(&site, "ashift")? == "13");
    site.ok("zpool set ashift=12 tank")?;
    site.ok(&format!("zpool add --allow-ashift-mismatch tank {c}"))?;
    for (path, shift) in [(&a, "13"), (&b, "13"), (&c, "12")] {
        let found = site.ok(&format!("zpool get -Hpo value ashift tank {path}"))?;
        ensure!(found.trim() == shift, "{path}: {found}");
    }
    site.ok("zfs destroy tank/boot")?;
    ensure!(value(&site, "bootfs")? == "-", "it is gone");
    site.finish()
}

#[test]
fn imports_exports_and_keys_are_in_the_history() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "a passphrase\n")?;
    let key = key.display();
    site.ok(&format!(
        "zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file://{key} tank/e"
    ))?;
    let cache = site.cenote().directory().join("zpool.cache");
    let cache = format!("zpool set cachefile={} tank", cache.display());
    let commands = [
        "zfs unload-key tank/e",
        "zfs load-key tank/e",
        cache.as_str(),
        "zpool set cachefile=none tank",
    ];
    for command in commands {
        site.ok(command)?;
    }
    site.fails("zfs load-key tank/e")?;
    site.ok("zpool export tank")?;
    site.import("-N")?;
    let found = history(&site)?;
    let count = |command: &str| found.iter().filter(|line| line.contains(command)).count();
    for command in commands {
        ensure!(count(command) == 1, "{command}: {found:#?}");
    }
    ensure!(count("zpool export tank") == 1, "{found:#?}");
    ensure!(count("zpool import -R") == 1, "{found:#?}");
    // A pool that was destroyed can be imported, and says then what was done to it.
    site.ok("zpool destroy tank")?;
    site.import("-D -N")?;
    let found = history(&site)?;
    ensure!(
        found.contains(&"zpool destroy tank".to_owned()),
        "{found:#?}"
    );
    let long = site.ok("zpool history -l tank")?;
    let is_whole = |line: &str| line.ends_with(":linux]");
    ensure!(
        long.lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .all(is_whole),
        "{long}"
    );
    // The longest value of a user property, as for datasets.
    let value = "x".repeat(8191);
    site.ok(&format!("zpool set long:value={value} tank"))?;
    let refused = site.fails(&format!("zpool set long:value={value}x tank"))?;
    has(&refused.stderr, "property value too long")?;
    site.export()?;
    site.import("-N")?;
    let found = site.ok("zpool get -H -o value long:value tank")?;
    ensure!(found.trim() == value, "{} bytes", found.len());
    site.finish()
}

/// The key used to be requested first, so a preview of an encrypted dataset failed without one.
#[test]
fn what_cannot_be_made_asks_for_no_key() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    let key = "-o keyformat=passphrase -o keylocation=file:///nowhere/key";
    let create = |options: &str| format!("zfs create -u {options} {key}");
    for (options, name, reason) in [
        ("", "tank/a", "Encryption must be turned on to set"),
        ("-o encryption=on", "tank/no/a", "parent does not exist"),
        ("-o encryption=on -o pbkdf2iters=5", "tank/a", "Minimum"),
        ("-o encryption=on", "tank/a", "key material file"),
    ] {
        let refused = site.fails(&format!("{} {name}", create(options)))?;
        has(&refused.stderr, reason)?;
    }
    let planned = site.ok(&format!("{} tank/a", create("-nv -o encryption=on")))?;
    has(&planned, "would create tank/a\n\tencryption=on\n")?;
    let device = device(&site, "b")?;
    let key = "-O encryption=on -O keyformat=hex -O keylocation=file:///nowhere/key";
    let pool = |options: &str| format!("zpool create -O mountpoint=none {options} other {device}");
    let refused = site.fails(&pool("-O keyformat=hex"))?;
    has(&refused.stderr, "Encryption must be turned on to set")?;
    has(&site.fails(&pool(key))?.stderr, "key material file")?;
    has(
        &site.ok(&pool(&format!("-n {key}")))?,
        "would create 'other'",
    )?;
    site.finish()
}

#[test]
fn previews_say_what_would_be_made_and_make_nothing() -> Result<()> {
    let site = Site::create("single", 192, "-O mountpoint=none")?;
    let preview = |options: &str, name: &str| site.ok(&format!("zfs create {options} {name}"));
    ensure!(preview("-n", "tank/a")?.is_empty());
    let above = "would create ancestors of tank/a/b/c\nwould create tank/a/b/c\n";
    ensure!(preview("-npv", "tank/a/b/c")? == above);
    let pairs = "-o compress=lz4 -o quota=1G -o a:b=c";
    let lines = "would create tank/a\n\tcompression=lz4\n\tquota=1G\n\ta:b=c\n";
    ensure!(preview(&format!("-nv {pairs}"), "tank/a")? == lines);
    let lines = "create\ttank/a\nproperty\tcompression\tlz4\nproperty\tquota\t1G\n\
                 property\ta:b\tc\n";
    ensure!(preview(&format!("-nP {pairs}"), "tank/a")? == lines);
    // Sizes are rounded to whole blocks, and what is reserved is OpenZFS's figure.
    let lines = "would create tank/v\n\tvolsize=100007936\n";
    ensure!(preview("-nv -s -V 100000001", "tank/v")? == lines);
    let lines =
        "create\ttank/v\nproperty\tvolsize\t104857600\nproperty\trefreservation\t108789760\n";
    let found = preview("-nP -V 100M", "tank/v")?;
    ensure!(found == lines, "{found}");
    let lines = "would create tank/v\n\tvolsize=104857600\n\trefreservation=50M\n";
    ensure!(preview("-nv -V 100M -o refreservation=50M", "tank/v")? == lines);
    site.fails("zfs create -n tank/nosuch/a")?;
    site.fails("zfs create -n nosuch/a")?;
    ensure!(
        site.ok("zfs list -Hro name tank")? == "tank\n",
        "something was made"
    );
    ensure!(preview("-vp", "tank/a/b")?.starts_with("create ancestors of tank/a/b\n"));
    ensure!(site.ok("zfs list -Hro name tank")? == "tank\ntank/a\ntank/a/b\n");
    site.finish()
}

#[test]
fn default_quotas_hold_for_everybody_without_an_own_one() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 192, "-O compression=off")?;
    let root = site.path("tank");
    let full = |name: &str| -> Result<()> {
        let error = fs::write(root.join(name), b"x").expect_err("beyond the quota");
        ensure!(error.raw_os_error() == Some(122), "{error}, not EDQUOT");
        Ok(())
    };
    let write = |name: &str, size: usize| -> Result<()> {
        fs::write(root.join(name), vec![7; size])?;
        site.ok("zpool sync tank")?;
        Ok(())
    };
    site.ok("zfs set defaultuserquota=2M tank")?;
    // What is in flight counts: it ends at the quota, and not a group behind it.
    let error = write("a", 6 << 20).expect_err("beyond the quota");
    ensure!(
        error.to_string().contains("os error 122"),
        "{error:#}, not EDQUOT"
    );
    let length = fs::metadata(root.join("a"))?.len();
    // The root directory, the dnodes and indirect blocks count as well.
    ensure!((31 << 16..4 << 20).contains(&length), "{length} bytes");
    site.ok("zpool sync tank")?;
    full("b")?;
    site.ok("zfs set userquota@root=20M tank")?;
    write("b", 1 << 20)?;
    site.ok("zfs set defaultuserquota=none userquota@root=none tank")?;
    // The root directory, both files, and two more.
    site.ok("zfs set defaultgroupobjquota=5 tank")?;
    write("c", 1)?;
    write("d", 1)?;
    full("e")?;
    site.export()?;
    site.import("")?;
    full("e")?;
    site.ok("zfs set groupobjquota@root=none defaultgroupobjquota=none tank")?;
    write("e", 1)?;
    site.finish()
}

#[test]
fn what_was_under_way_goes_on_after_a_crash() -> Result<()> {
    let site = Site::create("single", 400, "-O mountpoint=none")?;
    let percent = || -> Result<u64> {
        let status = site.ok("zpool status -i tank")?;
        let before = status.split("% initialized").next().unwrap_or_default();
        let digits = before.rsplit('(').next().unwrap_or_default();
        Ok(digits.parse()?)
    };
    site.ok("cenote settings set zfs_initialize_chunk_size=64K")?;
    site.ok("zpool initialize tank")?;
    site.ok("zpool trim -r 1M tank")?;
    // How far it is goes to disk when it stops.
    site.export()?;
    site.import("")?;
    let before = percent()?;
    site.crash()?;
    site.import("-f")?;
    ensure!(percent()? >= before, "it started over");
    has(&site.ok("zpool status -t tank")?, "% trimmed, started at")?;
    site.ok("zpool wait -t initialize tank")?;
    ensure!(percent()? == 100);
    // OpenZFS resumes the trim while it checks the pool.
    site.finish()
}

/// A daemon started by a command once discarded its messages.
#[test]
fn what_a_daemon_says_of_its_settings_is_passed_on() -> Result<()> {
    let cenote = Cenote::new()?;
    let file = cenote.directory().join("settings");
    fs::write(&file, "options zfs l2arc_headroom=8\n")?;
    let empty = cenote.subdirectory("empty")?;
    let empty = empty.display().to_string();
    let mut command = cenote.command("zpool", &["import", "-d", &empty]);
    command.env("CENOTE_SETTINGS", &file);
    let outcome = cenote_tests::program::run(command, b"", Default::default())?;
    has(&outcome.stderr, "l2arc_headroom has no effect")?;
    Ok(())
}

/// Files that were made before the pool had projects get them after `zpool upgrade`, at once, and
/// the objects of extended attributes are their file's: they were counted for the old project.
#[test]
fn attributes_belong_to_the_project_of_their_file() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = "-o feature@project_quota=disabled -O xattr=dir";
    let site = Site::create("single", 128, options)?;
    let root = site.path("tank");
    let chattr = |words: &[&str], name: &str| {
        let mut command = Command::new("chattr");
        command.args(words).arg(root.join(name)).output()
    };
    let set = |name: &str, attribute: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(root.join(name), attribute, b"value", flags)
    };
    // Objects by project. What an upgrade begins is counted in the background, and the kernel lets
    // go of a removed file on its own time.
    let counts = |expected: &str| -> Result<()> {
        let mut found = String::new();
        let came = wait_until(expected, || {
            site.ok("zpool sync tank")?;
            let rows = site.ok("zfs projectspace -Hp -o name,objused tank")?;
            let rows: Vec<&str> = rows.lines().filter(|row| !row.starts_with('0')).collect();
            found = rows.join(", ").replace('\t', ": ");
            Ok(found == expected)
        });
        came.with_context(|| format!("{found} instead of {expected}"))
    };
    fs::write(root.join("old"), "contents")?;
    set("old", "user.a")?;
    let Ok(refused) = chattr(&["-p", "5"], "old") else {
        cenote_tests::missing!("there is no chattr");
        return site.finish();
    };
    ensure!(!refused.status.success(), "a project without the feature");
    site.ok("zpool upgrade tank")?;
    let marked = chattr(&["-p", "5"], "old")?;
    ensure!(marked.status.success(), "{marked:?}");
    // The file, the directory of its attributes, and the attribute.
    counts("5: 3")?;
    set("old", "user.b")?;
    counts("5: 4")?;
    fs::create_dir(root.join("new"))?;
    let marked = chattr(&["-p", "7", "+P"], "new")?;
    ensure!(marked.status.success(), "{marked:?}");
    fs::write(root.join("new/file"), "contents")?;
    set("new/file", "user.a")?;
    counts("5: 4, 7: 4")?;
    let marked = chattr(&["-p", "7"], "old")?;
    ensure!(marked.status.success(), "{marked:?}");
    counts("7: 8")?;
    site.reopen(&["tank"])?;
    counts("7: 8")?;
    fs::remove_file(root.join("old"))?;
    fs::remove_dir_all(root.join("new"))?;
    counts("")?;
    site.finish()
}
