//! RPM packages, of the same trees.

use super::common::{Release, output};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether they can be made here.
pub fn is_there() -> bool {
    let found = Command::new("rpmbuild").arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

fn spec(package: &str, tree: &Path, release: &Release) -> Result<String> {
    let version = &release.version;
    let mut files = String::new();
    list(tree, tree, &mut files)?;
    let (summary, relations) = match package {
        "cenote" => ("ZFS pools in user space", "Recommends: fuse3\n".to_owned()),
        _ => (
            "ZFS pools in user space: commands under OpenZFS's names",
            format!("Requires: cenote >= {version}\nConflicts: zfs\nProvides: zfs = 2.3.2\n"),
        ),
    };
    let tree = tree.display();
    Ok(format!(
        "%global debug_package %{{nil}}\n\
         %global __os_install_post %{{nil}}\n\
         Name: {package}\nVersion: {version}\nRelease: 1\nLicense: MIT OR Apache-2.0\n\
         Summary: {summary}\n{relations}\
         %description\nCenote opens OpenZFS pools without a kernel module and mounts their file\n\
         systems with FUSE.\n\
         %install\ncp -a {tree}/. %{{buildroot}}/\n\
         %files\n{files}"
    ))
}

/// The files below a directory, as a specification has them.
fn list(tree: &Path, directory: &Path, files: &mut String) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        match entry.file_type()?.is_dir() {
            true => list(tree, &path, files)?,
            false => {
                let name = path.strip_prefix(tree)?.display();
                let kind = match path.starts_with(tree.join("etc")) {
                    true => "%config(noreplace) ",
                    false => "",
                };
                files.push_str(&format!("{kind}\"/{name}\"\n"));
            }
        }
    }
    Ok(())
}

/// Makes the package of a tree.
pub fn build(package: &str, tree: &Path, release: &Release) -> Result<PathBuf> {
    let directory = release.directory.join("rpm");
    fs::create_dir_all(&directory)?;
    let specification = directory.join(format!("{package}.spec"));
    fs::write(&specification, spec(package, tree, release)?)?;
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.arg("-bb").arg("--quiet");
    for (name, value) in [("_topdir", &directory), ("_rpmdir", &release.directory)] {
        rpmbuild
            .arg("--define")
            .arg(format!("{name} {}", value.display()));
    }
    rpmbuild.args([
        "--define",
        "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    ]);
    output(rpmbuild.arg(&specification))?;
    let start = format!("{package}-{}-1.", release.version);
    let mut found = fs::read_dir(&release.directory)?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_string_lossy().into_owned();
        (name.starts_with(&start) && name.ends_with(".rpm")).then_some(path)
    });
    found.next().context("rpmbuild made no package")
}
