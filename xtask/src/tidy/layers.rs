//! Layers: a crate uses only crates below it, and forbids `unsafe` unless it is one that may.

use super::problem::{Problem, TextFile};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The layers from the bottom up (STYLE.md); a package may depend on those that stand before it.
///
/// Commands stand as low as what they see: those of `zpool` and `zfs` see the protocol, tables of
/// the format, system calls about files and web servers that have keys. They are compiled beside
/// the crates that open pools.
const LAYERS: [&str; 49] = [
    "base",
    "delegation",
    "control",
    "advisor",
    "alarms",
    "ondisk",
    "ledger",
    "program",
    "codec",
    "device",
    "http_client",
    "commands/words",
    "commands/zed",
    "commands/zinject",
    "commands/zfs",
    "commands/zpool",
    "frontends/http",
    "commands/watch",
    "frontends/fuse",
    "commands/connect",
    "nbd_client",
    "s3",
    "cloud",
    "injection",
    "vdev",
    "io",
    "cache",
    "dmu",
    "intent_log",
    "dsl",
    "history",
    "redaction",
    "dataset",
    "pool",
    "stream",
    "volume",
    "posix",
    "frontends/files",
    "frontends/nbd",
    "commands/own",
    "commands/zdb",
    "registry",
    "channel",
    "drills",
    "engine",
    "frontends/ublk",
    "serve",
    "daemon",
    "tools/cenote",
];

/// Where commands are: only commands and programs use a package there.
const COMMANDS: &str = "commands/";

/// The daemon, which is the command `cenote daemon`, too.
const DAEMON: &str = "daemon";

/// Where programs are.
const PROGRAMS: &str = "tools/";

/// Packages for developers: they may use everything, and no layer may use them.
const DEVELOPMENT: [&str; 5] = ["tests", "bench", "xtask", "sim", "fuzz"];

/// Crates that may hold `unsafe`.
const UNSAFE_CRATES: [&str; 3] = ["codec", "device", "frontends/fuse"];

/// A package of the workspace.
pub(super) struct Package {
    /// Its directory, from the root.
    pub directory: String,
    /// Its name.
    pub name: String,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// One dependency of a package.
pub(super) struct Dependency {
    /// The package's name.
    pub name: String,
    /// Whether it comes from outside the workspace.
    pub is_external: bool,
    /// Whether only tests use it.
    pub is_development: bool,
}

/// The packages of the workspace at `root`, as Cargo understands them.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    packages
        .iter()
        .map(|package| decode(root, package))
        .collect()
}

fn decode(root: &Path, package: &Value) -> Result<Package> {
    let manifest = Path::new(package["manifest_path"].as_str().context("manifest_path")?);
    let directory = manifest.parent().context("the package's directory")?;
    let directory = directory
        .strip_prefix(root.canonicalize()?)
        .unwrap_or(directory);
    let dependencies = package["dependencies"].as_array().context("dependencies")?;
    Ok(Package {
        directory: directory.to_string_lossy().into_owned(),
        name: package["name"].as_str().context("name")?.into(),
        dependencies: dependencies.iter().map(dependency).collect::<Result<_>>()?,
    })
}

fn dependency(value: &Value) -> Result<Dependency> {
    Ok(Dependency {
        name: value["name"].as_str().context("name")?.into(),
        is_external: !value["source"].is_null(),
        is_development: value["kind"].as_str() == Some("dev"),
    })
}

/// Checks that every dependency points down.
pub(super) fn check(packages: &[Package], problems: &mut Vec<Problem>) {
    for package in packages {
        let height = height(&package.directory);
        if height.is_none() && !DEVELOPMENT.contains(&package.directory.as_str()) {
            problems.push(problem(package, "is not in the list of layers".into()));
        }
        let inside = package
            .dependencies
            .iter()
            .filter(|dependency| !dependency.is_external);
        for dependency in inside.filter(|dependency| !dependency.is_development) {
            let Some(target) = packages.iter().find(|other| other.name == dependency.name) else {
                continue;
            };
            let below = match (height, self::height(&target.directory)) {
                (Some(own), Some(other)) => other < own,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if !below {
                let message = format!("depends on {}, which is not below it", target.directory);
                problems.push(problem(package, message));
            }
            let may_command = height.is_none()
                || [COMMANDS, DAEMON, PROGRAMS]
                    .iter()
                    .any(|place| package.directory.starts_with(place));
            if target.directory.starts_with(COMMANDS) && !may_command {
                let message = format!("depends on {}: a command", target.directory);
                problems.push(problem(package, message));
            }
        }
    }
}

fn height(directory: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == directory)
}

fn problem(package: &Package, message: String) -> Problem {
    Problem {
        path: format!("{}/Cargo.toml", package.directory),
        line: 0,
        message: format!("{} {message}", package.name),
    }
}

/// Checks that every crate forbids `unsafe`, except those that may have it.
pub(super) fn check_crate_attributes(
    packages: &[Package],
    files: &[TextFile],
    problems: &mut Vec<Problem>,
) {
    for package in packages {
        if UNSAFE_CRATES.contains(&package.directory.as_str()) {
            continue;
        }
        let roots =
            ["src/lib.rs", "src/main.rs"].map(|root| format!("{}/{root}", package.directory));
        for file in files.iter().filter(|file| roots.contains(&file.path)) {
            if !file.text.contains("#![forbid(unsafe_code)]") {
                problems.push(file.problem(0, "the crate does not say #![forbid(unsafe_code)]"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(directory: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| Dependency {
            name: name.to_string(),
            is_external: false,
            is_development: false,
        });
        Package {
            directory: directory.into(),
            name: directory.into(),
            dependencies: dependencies.collect(),
        }
    }

    #[test]
    fn dependencies_point_down() {
        let packages = [
            package("base", &[]),
            package("io", &["base"]),
            package("vdev", &["io"]),
            package("tests", &["io"]),
            package("dmu", &["tests"]),
            package("stray", &[]),
            package("commands/words", &["base"]),
            package("tools/cenote", &["commands/words"]),
            package("pool", &["commands/words"]),
        ];
        let mut problems = Vec::new();
        check(&packages, &mut problems);
        let paths: Vec<&str> = problems
            .iter()
            .map(|problem| problem.path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "vdev/Cargo.toml",
                "dmu/Cargo.toml",
                "stray/Cargo.toml",
                "pool/Cargo.toml"
            ]
        );
    }
}
