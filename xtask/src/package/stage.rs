//! The files of the packages, laid out as they are installed.

use super::common::{MAINTAINER, PACKAGES, Release, output};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The links of `install-links` that no package of OpenZFS has.
const OWN_LINKS: [&str; 1] = ["mount.fuse.cenote"];

/// Where a shell looks for completions.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions", "@"),
    ("zsh", "usr/share/zsh/vendor-completions", "_@"),
    ("fish", "usr/share/fish/vendor_completions.d", "@.fish"),
];

/// Writes a file and the directories above it.
pub fn write(path: &Path, text: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// The trees of the packages, and the file with the symbols of the program.
pub fn lay_out(program: &Path, release: &Release) -> Result<(Vec<PathBuf>, PathBuf)> {
    let tree = |package: &&str| release.directory.join("tree").join(package);
    let trees: Vec<PathBuf> = PACKAGES.iter().map(tree).collect();
    for tree in &trees {
        if tree.exists() {
            fs::remove_dir_all(tree)?;
        }
        fs::create_dir_all(tree)?;
    }
    let (own, zfs) = (&trees[0], &trees[1]);
    let symbols = install_program(program, own, release)?;
    links(program, own, zfs)?;
    manual(program, own, zfs)?;
    completions(program, own, zfs)?;
    compatibility(program, zfs)?;
    units(own, zfs)?;
    documents(own, zfs, release)?;
    set_modes(own)?;
    set_modes(zfs)?;
    Ok((trees, symbols))
}

/// The program without symbols; these go into a file of their own, which debuggers find by its
/// name.
fn install_program(program: &Path, tree: &Path, release: &Release) -> Result<PathBuf> {
    let target = tree.join("usr/bin/cenote");
    write(&target, fs::read(program)?, 0o755)?;
    let name = format!("cenote-{}-{}.debug", release.version, release.architecture);
    let symbols = release.directory.join(name);
    let mut keep = Command::new("objcopy");
    keep.args(["--only-keep-debug", "--compress-debug-sections=zlib"]);
    output(keep.arg(program).arg(&symbols))?;
    output(Command::new("strip").arg(&target))?;
    let mut link = Command::new("objcopy");
    link.arg(format!("--add-gnu-debuglink={}", symbols.display()));
    output(link.arg(&target))?;
    Ok(symbols)
}

/// The names under which the program is called, as itself says.
fn links(program: &Path, own: &Path, zfs: &Path) -> Result<()> {
    let scratch = own.with_extension("links");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    output(Command::new(program).arg("install-links").arg(&scratch))?;
    for entry in fs::read_dir(&scratch)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy().into_owned();
        if text == "cenote" {
            continue;
        }
        let tree = if OWN_LINKS.contains(&text.as_str()) {
            own
        } else {
            zfs
        };
        let directory = tree.join("usr/sbin");
        fs::create_dir_all(&directory)?;
        symlink("../bin/cenote", directory.join(name))?;
    }
    fs::remove_dir_all(&scratch)?;
    Ok(())
}

/// Whether a page or a completion belongs to the package `cenote`.
fn is_own(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    name.starts_with("cenote") || OWN_LINKS.iter().any(|link| name.starts_with(link))
}

fn manual(program: &Path, own: &Path, zfs: &Path) -> Result<()> {
    let scratch = own.with_extension("man");
    output(Command::new(program).args(["man", "--to"]).arg(&scratch))?;
    for section in fs::read_dir(&scratch)? {
        let section = section?;
        for page in fs::read_dir(section.path())? {
            let page = page?.path();
            let name = page
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let tree = if is_own(&name) { own } else { zfs };
            let text = fs::read_to_string(&page)?;
            let below = tree.join("usr/share/man").join(section.file_name());
            match text.trim().strip_prefix(".so ") {
                // A page under another name is a link; its target may be in the other package.
                Some(other) if tree == zfs => {
                    fs::create_dir_all(&below)?;
                    let other = other.rsplit('/').next().unwrap_or(other);
                    symlink(format!("{other}.gz"), below.join(format!("{name}.gz")))?;
                }
                _ => {
                    let target = below.join(&name);
                    write(&target, text, 0o644)?;
                    output(Command::new("gzip").args(["-9n"]).arg(&target))?;
                }
            }
        }
    }
    fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn completions(program: &Path, own: &Path, zfs: &Path) -> Result<()> {
    for (shell, directory, pattern) in SHELLS {
        for name in ["cenote", "zpool", "zfs", "zstream", "zdb", "zed", "zinject"] {
            let mut command = Command::new(program);
            let script = output(command.args(["completions", shell, name]))?;
            let tree = if is_own(name) { own } else { zfs };
            let file = pattern.replace('@', name);
            write(&tree.join(directory).join(file), script, 0o644)?;
        }
    }
    Ok(())
}

/// The sets of features, where administrators and programs look for them.
fn compatibility(program: &Path, zfs: &Path) -> Result<()> {
    let directory = zfs.join("usr/share/zfs/compatibility.d");
    let mut command = Command::new(program);
    output(command.args(["compatibility", "--to"]).arg(&directory))?;
    for entry in fs::read_dir(&directory)? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o644))?;
    }
    // An administrator's own sets.
    fs::create_dir_all(zfs.join("etc/zfs/compatibility.d"))?;
    Ok(())
}

fn units(own: &Path, zfs: &Path) -> Result<()> {
    let source = workspace::root().join("contrib/systemd");
    let unit = |from: &Path, to: PathBuf| -> Result<()> {
        let text = fs::read_to_string(from)?;
        // The packages know where the programs are.
        let text = text.replace("=cenote ", "=/usr/bin/cenote ");
        let text = text.replace("=-cenote ", "=-/usr/bin/cenote ");
        let text = text.replace("=zpool ", "=/usr/sbin/zpool ");
        let text = text.replace("=-zpool ", "=-/usr/sbin/zpool ");
        let text = text.replace("=zfs ", "=/usr/sbin/zfs ");
        write(&to, text.replace("=-zfs ", "=-/usr/sbin/zfs "), 0o644)
    };
    for name in ["cenote.service", "cenote-pools.service"] {
        unit(
            &source.join(name),
            own.join("usr/lib/systemd/system").join(name),
        )?;
        unit(
            &source.join("user").join(name),
            own.join("usr/lib/systemd/user").join(name),
        )?;
    }
    let mut count = 0;
    for entry in fs::read_dir(source.join("zfs"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match name.as_str() {
            "cenote-mount-generator" => {
                let to = zfs.join("usr/lib/systemd/system-generators").join(name);
                write(&to, fs::read(&path)?, 0o755)?;
            }
            "zfs-load-key" | "if-daemon-runs" | "for-pool" => {
                write(
                    &zfs.join("usr/lib/cenote").join(name),
                    fs::read(&path)?,
                    0o755,
                )?;
            }
            _ => unit(&path, zfs.join("usr/lib/systemd/system").join(name))?,
        }
        count += 1;
    }
    ensure!(count > 10, "contrib/systemd/zfs has only {count} files");
    let replace = workspace::root().join("packaging/replace-daemon");
    let replacing = own.join("usr/lib/cenote/replace-daemon");
    write(&replacing, fs::read(replace)?, 0o755)?;
    let defaults = workspace::root().join("packaging/default-cenote");
    write(&own.join("etc/default/cenote"), fs::read(defaults)?, 0o644)
}

/// The changelog in Debian's form: what changed in the package is what changed in the program.
fn changelog(package: &str, release: &Release) -> Result<String> {
    let date = output(Command::new("date").args(["-R", "--utc"]))?;
    let (version, date) = (&release.version, date.trim());
    Ok(format!(
        "{package} ({version}) unstable; urgency=medium\n\n  \
         * What changed is in /usr/share/doc/cenote/CHANGELOG.md.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    ))
}

fn documents(own: &Path, zfs: &Path, release: &Release) -> Result<()> {
    let root = workspace::root();
    let mit = fs::read_to_string(root.join("LICENSE-MIT"))?;
    let indented = |line: &str| match line.trim() {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    };
    let mit: String = mit.lines().map(indented).collect();
    let copyright = fs::read_to_string(root.join("packaging/debian/copyright"))?;
    let copyright = copyright.replace("@MIT@\n", &mit);
    for (package, tree) in PACKAGES.iter().zip([own, zfs]) {
        let directory = tree.join("usr/share/doc").join(package);
        write(&directory.join("copyright"), &copyright, 0o644)?;
        let changes = directory.join("changelog");
        write(&changes, changelog(package, release)?, 0o644)?;
        output(Command::new("gzip").arg("-9n").arg(&changes))?;
        let overrides = format!("packaging/debian/{package}.lintian-overrides");
        let target = tree.join("usr/share/lintian/overrides").join(package);
        write(&target, fs::read(root.join(overrides))?, 0o644)?;
    }
    let directory = own.join("usr/share/doc/cenote");
    for name in ["README.md", "CHANGELOG.md"] {
        write(&directory.join(name), fs::read(root.join(name))?, 0o644)?;
    }
    output(
        Command::new("gzip")
            .arg("-9n")
            .arg(directory.join("CHANGELOG.md")),
    )?;
    Ok(())
}

/// Every user can enter the directories, with any umask.
fn set_modes(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_modes(&entry.path())?;
        }
    }
    Ok(())
}
