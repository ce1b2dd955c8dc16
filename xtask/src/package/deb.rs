//! Debian packages.

use super::common::{MAINTAINER, Release, output};
use super::stage::write;
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OWN: &str = "\
Recommends: fuse3
Suggests: smartmontools
Description: ZFS pools in user space
 Cenote opens OpenZFS pools without a kernel module and mounts their file
 systems with FUSE. Commands: cenote zpool, cenote zfs, and its own.
 .
 This package can be installed beside OpenZFS. The package cenote-zfs adds the
 commands zpool and zfs under their own names.
";

const ZFS: &str = "\
Provides: zfsutils-linux (= 2.3.2), zutils
Conflicts: zfsutils-linux, zutils, zfs-fuse, zfs-zed, zfs-test
Replaces: zfsutils-linux, zutils, zfs-fuse
Description: ZFS pools in user space - commands under OpenZFS's names
 The commands zpool, zfs, zstream, zdb, zed, zinject and mount.zfs, and the
 systemd units of OpenZFS, carried out by Cenote.
 .
 Cenote opens OpenZFS pools without a kernel module and mounts their file
 systems with FUSE.
";

/// The newest version of glibc's symbols that the program needs.
fn glibc(program: &Path) -> Result<String> {
    let symbols = output(Command::new("objdump").arg("-T").arg(program))?;
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let version = &rest[..end.unwrap_or(rest.len())];
        let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
        Some((numbers?, version.to_owned()))
    });
    let newest = versions.max().map(|(_, version)| version);
    newest.context("the program needs no version of glibc: it is no program of this system")
}

fn control(package: &str, tree: &Path, release: &Release) -> Result<String> {
    let version = &release.version;
    let size = output(
        Command::new("du")
            .args(["-sk", "--exclude=DEBIAN"])
            .arg(tree),
    )?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let (architecture, depends, rest) = match package {
        "cenote" => {
            let glibc = glibc(&tree.join("usr/bin/cenote"))?;
            let depends = format!("libc6 (>= {glibc}), libgcc-s1 (>= 4.2)");
            (release.architecture.as_str(), depends, OWN)
        }
        _ => ("all", format!("cenote (>= {version})"), ZFS),
    };
    Ok(format!(
        "Package: {package}\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {size}\n\
         Section: admin\n\
         Priority: optional\n\
         Depends: {depends}\n\
         {rest}"
    ))
}

/// The checksums of all files, as dpkg keeps them.
fn checksums(tree: &Path) -> Result<String> {
    let list =
        "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | sort -z | xargs -0 md5sum";
    output(Command::new("sh").args(["-c", list]).current_dir(tree))
}

/// The files that an administrator may change, a line for each: all files below `/etc`.
fn configuration_files(tree: &Path) -> Result<String> {
    if !tree.join("etc").exists() {
        return Ok(String::new());
    }
    let list = "find etc -type f -printf '/%p\\n' | sort";
    output(Command::new("sh").args(["-c", list]).current_dir(tree))
}

/// Makes the package of a tree.
pub fn build(package: &str, tree: &Path, release: &Release) -> Result<PathBuf> {
    let control_files = tree.join("DEBIAN");
    write(
        &control_files.join("control"),
        control(package, tree, release)?,
        0o644,
    )?;
    write(&control_files.join("md5sums"), checksums(tree)?, 0o644)?;
    let configuration = configuration_files(tree)?;
    if !configuration.is_empty() {
        write(&control_files.join("conffiles"), configuration, 0o644)?;
    }
    let scripts = workspace::root().join("packaging/debian");
    for name in ["preinst", "postinst", "prerm", "postrm"] {
        let script = scripts.join(format!("{package}.{name}"));
        if script.exists() {
            write(&control_files.join(name), fs::read(script)?, 0o755)?;
        }
    }
    let architecture = match package {
        "cenote" => release.architecture.as_str(),
        _ => "all",
    };
    let name = format!("{package}_{}_{architecture}.deb", release.version);
    let path = release.directory.join(name);
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]);
    output(dpkg.arg(tree).arg(&path))?;
    fs::remove_dir_all(&control_files)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cenote-zfs` has a directory below `/etc` and no file there. It got the other package's list
    /// of configuration files, and dpkg-deb refused to make it.
    #[test]
    fn only_files_are_configuration() {
        let tree = tempfile::tempdir().expect("a directory");
        let files = || configuration_files(tree.path()).expect("listed");
        assert_eq!(files(), "");
        fs::create_dir_all(tree.path().join("etc/zfs/compatibility.d")).expect("made");
        assert_eq!(files(), "");
        write(&tree.path().join("etc/default/cenote"), "", 0o644).expect("written");
        write(&tree.path().join("usr/bin/cenote"), "", 0o755).expect("written");
        assert_eq!(files(), "/etc/default/cenote\n");
    }
}
