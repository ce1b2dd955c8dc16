//! Making all packages of one program.

use super::common::{PACKAGES, Release, output, version};
use super::{deb, rpm, stage};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile of `Cargo.toml` that packages are built with.
const PROFILE: &str = "dist";

/// `package [--program PATH] [--to DIRECTORY] [--version VERSION]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let mut program = None;
    let mut directory = workspace::root().join("target/packages");
    let mut version = version().to_owned();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--program" => program = Some(PathBuf::from(value()?)),
            "--to" => directory = std::path::absolute(value()?)?,
            "--version" => version = value()?.clone(),
            other => bail!("'{other}' is not understood; 'cargo xtask help' has the options"),
        }
    }
    let program = match program {
        Some(program) => program,
        None => build()?,
    };
    make(&program, &directory, version)?;
    Ok(true)
}

/// Builds the program for packages: smaller than that of `./run`, and in several times the time.
pub fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "build",
        "--profile",
        PROFILE,
        "--locked",
        "--package",
        "cenote",
        "--features",
        "ublk",
    ]);
    ensure!(
        workspace::succeeds(&mut cargo)?,
        "the program was not built"
    );
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => workspace::root().join("target"),
    };
    Ok(target.join(PROFILE).join("cenote"))
}

/// Makes the Debian packages of a program: the trees, what was made, and of what.
pub fn make_debs(
    program: &Path,
    directory: &Path,
    version: String,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>, Release)> {
    ensure!(program.is_file(), "{} is no program", program.display());
    std::fs::create_dir_all(directory)?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let release = Release {
        version,
        architecture: architecture.trim().to_owned(),
        directory: directory.to_owned(),
    };
    let (trees, symbols) = stage::lay_out(program, &release)?;
    let mut made = vec![symbols];
    for (package, tree) in PACKAGES.iter().zip(&trees) {
        made.push(deb::build(package, tree, &release)?);
    }
    Ok((trees, made, release))
}

/// Makes all packages of a program.
pub fn make(program: &Path, directory: &Path, version: String) -> Result<Vec<PathBuf>> {
    let (trees, mut made, release) = make_debs(program, directory, version)?;
    match rpm::is_there() {
        true => {
            for (package, tree) in PACKAGES.iter().zip(&trees) {
                made.push(rpm::build(package, tree, &release)?);
            }
        }
        false => println!("no .rpm: rpmbuild is not installed"),
    }
    made.push(archive(&trees, &release)?);
    for scratch in ["tree", "rpm"] {
        let scratch = release.directory.join(scratch);
        if scratch.exists() {
            std::fs::remove_dir_all(scratch)?;
        }
    }
    for path in &made {
        let size = path.metadata()?.len();
        println!("{:>8.1} MB  {}", size as f64 / 1e6, path.display());
    }
    Ok(made)
}

/// The files of both packages for systems with other package managers.
fn archive(trees: &[PathBuf], release: &Release) -> Result<PathBuf> {
    let (version, machine) = (&release.version, std::env::consts::ARCH);
    let name = format!("cenote-{version}-linux-{machine}");
    let path = release.directory.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--xz").arg("--file").arg(&path);
    tar.args(["--owner=0", "--group=0", "--sort=name"]);
    tar.arg(format!("--transform=s,^\\.,{name},"));
    for tree in trees {
        tar.arg("--directory")
            .arg(tree)
            .arg("--exclude=./DEBIAN")
            .arg(".");
    }
    output(&mut tar)?;
    Ok(path)
}
