//! The commands that change datasets, as a person types them.
//!
//! Each test ends with an export, and OpenZFS's judgement of the pool where it is installed.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::site::Site;
use std::fs;
use std::path::Path;

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// A property's exact value and its source.
fn get(site: &Site, property: &str, dataset: &str) -> Result<(String, String)> {
    let line = site.ok(&format!("zfs get -Hpo value,source {property} {dataset}"))?;
    let (value, source) = line.trim_end().split_once('\t').context("two columns")?;
    Ok((value.to_owned(), source.to_owned()))
}

fn is(site: &Site, property: &str, dataset: &str, value: &str, source: &str) -> Result<()> {
    let found = get(site, property, dataset)?;
    let expected = (value.to_owned(), source.to_owned());
    ensure!(
        found == expected,
        "{property} of {dataset}: {found:?}, not {expected:?}"
    );
    Ok(())
}

/// Property, default, a value and how it reads exactly, and what is none of its values.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// What children inherit (format/3c 5).
const INHERITED: &[Row] = &[
    (
        "aclinherit",
        "restricted",
        "passthrough-x",
        "passthrough-x",
        "maybe",
    ),
    ("aclmode", "discard", "groupmask", "groupmask", "1"),
    ("acltype", "off", "posixacl", "posix", "ntfs"),
    ("atime", "on", "off", "off", "yes"),
    ("checksum", "on", "sha512", "sha512", "crc32"),
    (
        "compression",
        "on",
        "zstd-fast-10",
        "zstd-fast-10",
        "zstd-20",
    ),
    ("copies", "1", "3", "3", "4"),
    (
        "dedup",
        "off",
        "sha256,verify",
        "sha256,verify",
        "fletcher4",
    ),
    ("devices", "on", "off", "off", "0"),
    ("direct", "standard", "always", "always", "on"),
    ("dnodesize", "legacy", "2k", "2k", "3k"),
    ("exec", "on", "off", "off", "no"),
    ("logbias", "latency", "throughput", "throughput", "off"),
    ("longname", "off", "on", "on", "maybe"),
    ("nbmand", "off", "on", "on", "2"),
    ("overlay", "on", "off", "off", "2"),
    ("prefetch", "all", "metadata", "metadata", "off"),
    ("primarycache", "all", "none", "none", "on"),
    ("readonly", "off", "on", "on", "ro"),
    ("recordsize", "131072", "1M", "1048576", "96K"),
    ("redundant_metadata", "all", "some", "some", "few"),
    ("relatime", "on", "off", "off", "2"),
    ("secondarycache", "all", "metadata", "metadata", "on"),
    ("setuid", "on", "off", "off", "2"),
    ("snapdev", "hidden", "visible", "visible", "on"),
    ("snapdir", "hidden", "disabled", "disabled", "on"),
    ("special_small_blocks", "0", "64K", "65536", "32M"),
    ("sync", "standard", "disabled", "disabled", "off"),
    ("volmode", "default", "dev", "dev", "zvol"),
    ("vscan", "off", "on", "on", "2"),
    ("xattr", "on", "dir", "dir", "maybe"),
    ("zoned", "off", "on", "on", "2"),
];

/// What each dataset has for itself.
const OWN: &[Row] = &[
    ("canmount", "on", "noauto", "noauto", "yes"),
    ("filesystem_limit", "none", "10", "10", "few"),
    ("quota", "0", "50M", "52428800", "0"),
    ("refquota", "0", "40M", "41943040", "0"),
    ("refreservation", "0", "1M", "1048576", "1q"),
    ("reservation", "0", "2M", "2097152", "1T"),
    ("snapshot_limit", "none", "7", "7", "few"),
];

/// Values that are too new for old releases were sent as what those read.
fn newer_values_are_sent(site: &Site) -> Result<()> {
    let newer = [("snapdir", "disabled"), ("redundant_metadata", "some")];
    for (name, value) in newer {
        site.ok(&format!("zfs set {name}={value} tank/a"))?;
    }
    site.ok("zfs snapshot tank/a@sent")?;
    let sent = site.cenote().run("zfs", &["send", "-p", "tank/a@sent"])?;
    let words = ["receive", "-u", "tank/copy"];
    let received = site.cenote().run_with_input("zfs", &words, &sent.stdout)?;
    received.success()?;
    site.ok("zfs create tank/copy/below")?;
    for (name, value) in newer {
        is(site, name, "tank/copy", value, "received")?;
        is(
            site,
            name,
            "tank/copy/below",
            value,
            "inherited from tank/copy",
        )?;
    }
    Ok(())
}

#[test]
fn each_property_has_its_default_its_values_and_its_heirs() -> Result<()> {
    let site = Site::create("single", 192, "-O mountpoint=none")?;
    site.ok("zfs create tank/a")?;
    site.ok("zfs create tank/a/b")?;
    for (name, default, value, exact, wrong) in INHERITED {
        is(&site, name, "tank/a", default, "default")?;
        site.ok(&format!("zfs set {name}={value} tank/a"))?;
        is(&site, name, "tank/a", exact, "local")?;
        is(&site, name, "tank/a/b", exact, "inherited from tank/a")?;
        if !wrong.is_empty() {
            let refused = site.fails(&format!("zfs set {name}={wrong} tank/a"))?;
            ensure!(refused.code == Some(255), "{}", refused.report());
            has(&refused.stderr, "cannot set property for 'tank/a': ")?;
        }
        site.ok(&format!("zfs set {name}={value} tank/a/b"))?;
        site.ok(&format!("zfs inherit -r {name} tank/a"))?;
        is(&site, name, "tank/a/b", default, "default")?;
    }
    for (name, default, value, exact, wrong) in OWN {
        is(&site, name, "tank/a", default, "default")?;
        site.ok(&format!("zfs set {name}={value} tank/a"))?;
        is(&site, name, "tank/a", exact, "local")?;
        is(&site, name, "tank/a/b", default, "default")?;
        site.fails(&format!("zfs set {name}={wrong} tank/a"))?;
        let refused = site.fails(&format!("zfs inherit {name} tank/a"))?;
        has(
            &refused.stderr,
            &format!("'{name}' property cannot be inherited"),
        )?;
    }
    for name in [
        "used",
        "origin",
        "createtxg",
        "casesensitivity",
        "encryption",
    ] {
        site.fails(&format!("zfs set {name}=1 tank/a"))?;
    }
    has(
        &site.fails("zfs set nonsense=1 tank/a")?.stderr,
        "invalid property 'nonsense'",
    )?;
    site.ok("zfs set org.example:note=text tank/a")?;
    is(
        &site,
        "org.example:note",
        "tank/a/b",
        "text",
        "inherited from tank/a",
    )?;
    site.export()?;
    site.import("")?;
    is(
        &site,
        "org.example:note",
        "tank/a/b",
        "text",
        "inherited from tank/a",
    )?;
    is(&site, "refquota", "tank/a", "41943040", "local")?;
    newer_values_are_sent(&site)?;
    site.finish()
}

#[test]
fn owners_get_quotas() -> Result<()> {
    let site = Site::create("single", 192, "-O userquota@1002=7M -O projectquota@3=9M")?;
    is(&site, "userquota@1002", "tank", "7340032", "local")?;
    is(&site, "projectquota@3", "tank", "9437184", "local")?;
    site.ok("zfs snapshot tank@empty")?;
    site.ok("zfs clone -o userquota@1003=3M tank@empty tank/clone")?;
    is(&site, "userquota@1003", "tank/clone", "3145728", "local")?;
    site.fails("zfs clone -o userquota@no.such.user=3M tank@empty tank/none")?;
    site.fails("zfs list tank/none")?;
    is(&site, "groupused@", "tank", "-", "-")?;
    has(&site.ok("zfs userspace -i tank")?, "POSIX User")?;
    has(&site.ok("zfs groupspace -i tank")?, "POSIX Group")?;
    site.ok("zfs create -o userquota@1001=1M tank/files")?;
    is(&site, "userquota@1001", "tank/files", "1048576", "local")?;
    site.ok("zfs set userquota@root=2M groupobjquota@5=9 projectquota@7=3M tank/files")?;
    is(&site, "userquota@0", "tank/files", "2097152", "local")?;
    is(&site, "groupobjquota@5", "tank/files", "9", "local")?;
    is(&site, "projectquota@7", "tank/files", "3145728", "local")?;
    site.ok("zfs unmount tank/files")?;
    site.ok("zfs set userquota@1001=none tank/files")?;
    is(&site, "userquota@1001", "tank/files", "0", "local")?;
    for wrong in [
        "userquota@no.such.user=1",
        "userused@0=1",
        "projectquota@0=1",
    ] {
        site.fails(&format!("zfs set {wrong} tank/files"))?;
    }
    site.ok("zfs set defaultuserquota=4M tank/files")?;
    is(&site, "defaultuserquota", "tank/files", "4194304", "-")?;
    site.export()?;
    site.import("")?;
    has(
        &site.ok("zfs userspace -Hpn -o name,quota tank/files")?,
        "0\t2097152",
    )?;
    site.ok("zfs set defaultuserquota=none tank/files")?;
    if pool::can_mount() {
        let file = site.path("tank/files").join("large");
        let written = fs::write(&file, vec![1; 1 << 20]).and_then(|()| {
            site.ok("zpool sync tank").map_err(std::io::Error::other)?;
            site.ok("zfs set compression=off userquota@0=1M tank/files")
                .map_err(std::io::Error::other)?;
            fs::write(&file, vec![1; 2 << 20])?;
            site.ok("zpool sync tank").map_err(std::io::Error::other)?;
            fs::write(file.with_extension("more"), "more")
        });
        let error = written.err().context("the quota is not obeyed")?;
        ensure!(error.raw_os_error() == Some(122), "{error}");
    }
    site.finish()
}

#[test]
fn volumes_grow_and_shrink_with_their_reservation() -> Result<()> {
    let site = Site::create("raidz1", 128, "-O mountpoint=none")?;
    site.ok("zfs create -b 8K -V 30M tank/full")?;
    let reserved = |size: &str| -> Result<u64> {
        is(&site, "volsize", "tank/full", size, "local")?;
        Ok(get(&site, "refreservation", "tank/full")?.0.parse()?)
    };
    let first = reserved("31457280")?;
    ensure!(
        first > 31_457_280,
        "metadata and parity are reserved for: {first}"
    );
    site.ok("zfs set volsize=40M tank/full")?;
    let larger = reserved("41943040")?;
    ensure!(larger > first, "{first} became {larger}");
    site.ok("zfs set volsize=8M tank/full")?;
    ensure!(reserved("8388608")? < first, "a smaller volume needs less");
    let refused = site.fails("zfs set volsize=9999 tank/full")?;
    has(
        &refused.stderr,
        "'volsize' must be a multiple of volume block size (8K)",
    )?;
    let refused = site.fails("zfs set volsize=1T tank/full")?;
    has(&refused.stderr, "size is greater than available space")?;
    reserved("8388608")?;
    site.ok("zfs set refreservation=none tank/full")?;
    site.ok("zfs set volsize=16M tank/full")?;
    ensure!(reserved("16777216")? == 0, "nothing is reserved any more");
    site.ok("zfs set refreservation=auto tank/full")?;
    ensure!(reserved("16777216")? > 16 << 20, "all is reserved");
    let full = get(&site, "refreservation", "tank/full")?.0;
    site.ok("zfs snapshot tank/full@all")?;
    site.ok("zfs clone -o refreservation=auto tank/full@all tank/clone")?;
    is(&site, "refreservation", "tank/clone", &full, "local")?;
    site.ok("zfs create -s -V 1000000 tank/thin")?;
    is(&site, "volsize", "tank/thin", "1015808", "local")?;
    is(&site, "refreservation", "tank/thin", "0", "default")?;
    site.fails("zfs set quota=1G tank/thin")?;
    site.finish()
}

fn is_mounted(path: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let path = path.display().to_string();
    Ok(mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(&path)))
}

/// `zfs destroy -r` destroyed the siblings of a file system that is used before it met that.
fn one_that_is_used_keeps_its_siblings(site: &Site) -> Result<()> {
    site.ok("zfs create tank/x/y/b")?;
    site.ok("zfs create -V 4M tank/x/y/c")?;
    let used = std::fs::File::create(site.path("tank/x/y/a").join("used"))?;
    let busy = site.fails("zfs destroy -r tank/x")?.report();
    ensure!(busy.contains("busy"), "{busy}");
    site.ok("zfs list tank/x/y/b tank/x/y/c")?;
    ensure!(
        is_mounted(&site.path("tank/x/y/b"))?,
        "it is not mounted again"
    );
    drop(used);
    for doomed in ["b", "c"] {
        site.ok(&format!("zfs destroy tank/x/y/{doomed}"))?;
    }
    Ok(())
}

/// `zfs mount -R` takes any number of file systems, and mounts no others.
fn trees_are_mounted_by_name(site: &Site, other: &Path) -> Result<()> {
    site.ok("zfs create -p tank/c/d")?;
    site.ok("zfs create tank/e")?;
    let (c, e) = (site.path("tank/c"), site.path("tank/e"));
    site.ok("zfs unmount -a")?;
    site.ok("zfs mount -R tank/c tank/e")?;
    ensure!(is_mounted(&c.join("d"))? && is_mounted(&e)? && !is_mounted(other)?);
    site.ok("zfs destroy -r tank/c")?;
    site.ok("zfs destroy tank/e")?;
    site.ok("zfs mount -a")?;
    Ok(())
}

#[test]
fn mounts_follow_their_properties() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let (a, moved) = (site.path("tank/a"), site.path("elsewhere"));
    site.ok("zfs create -p tank/a/b")?;
    ensure!(
        is_mounted(&a)? && is_mounted(&a.join("b"))?,
        "mounted when made"
    );
    site.ok("zfs set mountpoint=/elsewhere tank/a")?;
    ensure!(
        is_mounted(&moved)? && is_mounted(&moved.join("b"))?,
        "moved with its child"
    );
    ensure!(!is_mounted(&a)?, "still at the old place");
    site.ok("zfs set -u mountpoint=/tank/a tank/a")?;
    ensure!(is_mounted(&moved)?, "-u leaves it where it is");
    site.ok("zfs set canmount=noauto tank/a/b")?;
    ensure!(
        is_mounted(&site.path("elsewhere/b"))?,
        "noauto unmounts nothing"
    );
    site.ok("zfs unmount -a")?;
    site.ok("zfs mount -a")?;
    ensure!(
        is_mounted(&a)? && !is_mounted(&a.join("b"))?,
        "noauto is mounted by name only"
    );
    trees_are_mounted_by_name(&site, &a)?;
    site.ok("zfs mount -o ro tank/a/b")?;
    is(&site, "readonly", "tank/a/b", "on", "temporary")?;
    is(&site, "readonly", "tank/a", "off", "default")?;
    let refused = fs::write(a.join("b/file"), "x").err().context("-o ro")?;
    ensure!(refused.raw_os_error() == Some(30), "{refused}");
    site.ok("zfs set canmount=off tank/a/b")?;
    let off = site.fails("zfs mount tank/a/b")?;
    has(&off.stderr, "'canmount' property is set to 'off'")?;
    site.ok("zfs set mountpoint=legacy tank/a")?;
    ensure!(!is_mounted(&a)?, "legacy is not mounted by itself");
    has(&site.fails("zfs mount tank/a")?.stderr, "legacy mountpoint")?;
    site.ok("zfs inherit mountpoint tank/a")?;
    ensure!(is_mounted(&a)?, "back at its own place");
    site.ok("zfs rename -p tank/a tank/x/y/a")?;
    ensure!(
        is_mounted(&site.path("tank/x/y/a"))? && !is_mounted(&a)?,
        "moved by its name"
    );
    one_that_is_used_keeps_its_siblings(&site)?;
    site.ok("zfs rename -u tank/x/y/a tank/a")?;
    ensure!(
        is_mounted(&site.path("tank/x/y/a"))?,
        "-u leaves it where it was"
    );
    let preview = site.ok("zfs destroy -rnv tank/x")?;
    has(&preview, "would destroy tank/x/y\nwould destroy tank/x\n")?;
    has(
        &site.ok("zfs create -nv -o atime=off tank/new")?,
        "would create tank/new\n\tatime=off",
    )?;
    site.fails("zfs list tank/new")?;
    site.finish()
}
