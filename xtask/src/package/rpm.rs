//! RPM packages, of the same trees.

use super::common::{Release, output};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether they can be made here.
pub fn is_there() -> bool {
    let found = Command::new("rpmbuild").arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// Where zsh looks for completions: Debian's directory, which the tree has, and that of other
/// distributions.
const ZSH: (&str, &str) = (
    "usr/share/zsh/vendor-completions",
    "usr/share/zsh/site-functions",
);

/// What rpm runs before and after it changes files.
fn scripts(package: &str) -> Result<String> {
    let packaging = workspace::root().join("packaging");
    let own = ["post", "preun", "postun"].map(|part| {
        let name = format!("rpm/{package}.{part}");
        (part, packaging.join(name))
    });
    let shared = ("pre", packaging.join(format!("debian/{package}.preinst")));
    let mut text = String::new();
    for (part, file) in own.into_iter().chain([shared]) {
        if file.exists() {
            let script = fs::read_to_string(&file)?;
            text.push_str(&format!("%{part}\n{script}\n"));
        }
    }
    Ok(text)
}

/// Whether a directory belongs to the packages, and not to the system.
fn is_own(name: &Path) -> bool {
    let names = ["cenote", "cenote-zfs", "zfs", "compatibility.d"];
    name.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| names.contains(&name))
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
    let scripts = scripts(package)?;
    let tree = tree.display();
    let (ours, theirs) = ZSH;
    Ok(format!(
        "%global debug_package %{{nil}}\n\
         %global __os_install_post %{{nil}}\n\
         Name: {package}\nVersion: {version}\nRelease: 1\nLicense: MIT OR Apache-2.0\n\
         Summary: {summary}\n{relations}\
         %description\nCenote opens OpenZFS pools without a kernel module and mounts their file\n\
         systems with FUSE.\n\
         %install\ncp -a {tree}/. %{{buildroot}}/\n\
         mv %{{buildroot}}/{ours} %{{buildroot}}/{theirs}\n\
         {scripts}%files\n{files}"
    ))
}

/// The files below a directory, as a specification has them.
fn list(tree: &Path, directory: &Path, files: &mut String) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let name = path.strip_prefix(tree)?;
        match entry.file_type()?.is_dir() {
            true => {
                if is_own(name) {
                    files.push_str(&format!("%dir \"/{}\"\n", name.display()));
                }
                list(tree, &path, files)?;
            }
            false => {
                let name = name.to_string_lossy().replace(ZSH.0, ZSH.1);
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
