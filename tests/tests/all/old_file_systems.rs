//! File systems of versions 1 to 4, whose files have no system attributes, and pools of version
//! 28, which have no features: made, written to and upgraded. What is written here was read by
//! OpenZFS's kernel module, with the same results.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::site::Site;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const VERSIONS: [u32; 4] = [1, 2, 3, 4];

fn version_of(site: &Site, dataset: &str) -> Result<String> {
    let text = site.ok(&format!("zfs get -H -o value version {dataset}"))?;
    Ok(text.trim().to_owned())
}

fn set(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    Ok(rustix::fs::setxattr(
        path,
        name,
        value,
        XattrFlags::empty(),
    )?)
}

/// What needs a place of its own in a file: targets and values of all lengths, lists of
/// permissions that files inherit, modes whose list has the most entries, devices.
fn fill(root: &Path) -> Result<()> {
    let directory = root.join("directory");
    fs::create_dir(&directory)?;
    for length in [1, 55, 56, 57, 300, 4000] {
        symlink("t".repeat(length), root.join(format!("link{length}")))?;
    }
    let file = root.join("file");
    fs::write(&file, "contents")?;
    fs::hard_link(&file, directory.join("again"))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4707))?;
    for (name, length) in [("user.small", 1), ("user.large", 3000)] {
        set(&file, name, &vec![b'v'; length])?;
        set(&directory, name, &vec![b'd'; length])?;
    }
    // user::rwx, user:1234:rwx, group::r-x, mask::rwx, other::---, as they are stored.
    let entries: [(u16, u16, u32); 5] = [
        (1, 7, u32::MAX),
        (2, 7, 1234),
        (4, 5, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&permissions.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    set(&directory, "system.posix_acl_default", &list)?;
    fs::create_dir(directory.join("below"))?;
    fs::write(directory.join("below/heir"), "inherits")?;
    let heir = directory.join("below/heir");
    let mut inherited = [0; 100];
    let length = rustix::fs::getxattr(&heir, "system.posix_acl_access", &mut inherited)?;
    ensure!(length == list.len(), "the list is inherited");
    for number in 0..100 {
        fs::write(root.join(format!("many {number}")), number.to_string())?;
    }
    for number in (0..100).step_by(2) {
        fs::remove_file(root.join(format!("many {number}")))?;
    }
    Ok(())
}

#[test]
fn file_systems_of_old_versions_are_made_and_written_to() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "-O acltype=posix")?;
    let mut datasets: Vec<String> = Vec::new();
    for version in VERSIONS {
        for options in ["", "-o encryption=on -o keyformat=passphrase"] {
            let name = format!(
                "tank/v{version}{}",
                if options.is_empty() { "" } else { "e" }
            );
            let key = site.cenote().directory().join("key");
            fs::write(&key, "a passphrase")?;
            let key = match options.is_empty() {
                true => String::new(),
                false => format!("-o keylocation=file://{}", key.display()),
            };
            site.ok(&format!(
                "zfs create -o version={version} -o xattr=sa {options} {key} {name}"
            ))?;
            ensure!(version_of(&site, &name)? == version.to_string());
            fill(&site.path(&name))?;
            datasets.push(name);
        }
    }
    let datasets: Vec<&str> = datasets.iter().map(String::as_str).collect();
    let walk = |site: &Site| -> Result<Vec<_>> {
        datasets.iter().map(|dataset| site.walk(dataset)).collect()
    };
    let before = walk(&site)?;
    site.export()?;
    site.judge()?;
    site.import("-l")?;
    ensure!(walk(&site)? == before, "the files after an import");
    // Upgraded while they are in use; files that were there keep their form.
    site.ok("zfs upgrade -r tank")?;
    ensure!(walk(&site)? == before, "the files after the upgrade");
    for dataset in &datasets {
        ensure!(version_of(&site, dataset)? == "5");
        let root = site.path(dataset);
        fs::create_dir(root.join("new"))?;
        fill(&root.join("new"))?;
        let file = root.join("file");
        set(&file, "user.small", b"changed")?;
        fs::rename(&file, root.join("new/moved"))?;
        fs::set_permissions(root.join("directory"), fs::Permissions::from_mode(0o2750))?;
    }
    let before = walk(&site)?;
    site.export()?;
    site.judge()?;
    site.import("-l")?;
    ensure!(walk(&site)? == before, "old and new files after an import");
    site.finish()
}

#[test]
fn versions_are_raised_and_never_lowered() -> Result<()> {
    let site = Site::create("single", 128, "")?;
    for version in VERSIONS {
        site.ok(&format!(
            "zfs create -u -o version={version} tank/v{version}"
        ))?;
    }
    let text = site.ok("zfs upgrade")?;
    ensure!(
        text.ends_with(" 1   tank/v1\n 2   tank/v2\n 3   tank/v3\n 4   tank/v4\n"),
        "{text}"
    );
    let refused = |line: &str, text: &str| -> Result<()> {
        let outcome = site.fails(line)?;
        ensure!(
            outcome.stderr.contains(text),
            "{line}: {}",
            outcome.report()
        );
        Ok(())
    };
    refused(
        "zfs set version=3 tank/v4",
        "Can not downgrade; already at version 4",
    )?;
    refused(
        "zfs set version=6 tank/v4",
        "'version' must be one of '1 | 2 | 3 | 4 | 5 | current'",
    )?;
    refused(
        "zfs inherit version tank/v4",
        "'version' property cannot be inherited",
    )?;
    refused(
        "zfs upgrade -V 3 tank/v4",
        "tank/v4: can not be downgraded; it is already at",
    )?;
    refused(
        "zfs create -V 1M -o version=4 tank/v",
        "does not apply to datasets of this type",
    )?;
    refused(
        "zfs create -o version=2 -o normalization=formD tank/n",
        "cannot create 'tank/n': pool must be upgraded to set this property or value",
    )?;
    refused(
        "zfs set userquota@1=1M tank/v3",
        "must be upgraded to set this property",
    )?;
    site.ok("zfs set userquota@1=1M tank/v4")?;
    site.ok("zfs set version=3 tank/v2")?;
    ensure!(version_of(&site, "tank/v2")? == "3");
    ensure!(site.ok("zfs upgrade -V 4 tank/v3")? == "1 filesystems upgraded\n");
    // An upgraded file system without files: OpenZFS opens it too.
    let text = site.ok("zfs upgrade -a")?;
    let wanted = "4 filesystems upgraded\n1 filesystems already at this version\n";
    ensure!(text == wanted, "{text}");
    ensure!(
        site.ok("zfs upgrade")?
            .contains("All filesystems are formatted with the current")
    );
    site.finish()
}

#[test]
fn pools_of_version_28_are_made_and_upgraded() -> Result<()> {
    let site = Site::create("single", 128, "-o version=28 -O acltype=posix")?;
    let version = |site: &Site| site.ok("zpool get -H -o value version tank");
    ensure!(version(&site)? == "28\n");
    ensure!(version_of(&site, "tank")? == "5");
    site.ok("zfs create -o dedup=on tank/twice")?;
    site.ok("zfs create -o version=4 tank/old")?;
    site.ok("zfs create -V 8M tank/volume")?;
    site.fails("zfs set compression=lz4 tank/twice")?;
    site.fails("zfs set dnodesize=auto tank/twice")?;
    if pool::can_mount() {
        for dataset in ["tank", "tank/twice", "tank/old"] {
            fill(&site.path(dataset))?;
        }
        let contents = vec![7; 300_000];
        fs::write(site.path("tank/twice").join("one"), &contents)?;
        fs::write(site.path("tank/twice").join("two"), &contents)?;
        site.ok("zpool sync tank")?;
        let status = site.ok("zpool status -D tank")?;
        ensure!(status.contains("DDT entries"), "{status}");
    }
    let text = site.ok("zpool upgrade")?;
    ensure!(
        text.contains("VER  POOL\n---  ------------\n28   tank\n"),
        "{text}"
    );
    site.export()?;
    site.judge()?;
    site.import("")?;
    ensure!(version(&site)? == "28\n");
    site.ok("zpool upgrade tank")?;
    ensure!(version(&site)? == "-\n");
    site.finish()
}
