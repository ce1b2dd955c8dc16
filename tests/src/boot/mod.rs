//! Tests in a booting guest: the packages in a Debian with systemd, on virtual disks.
//!
//! It is an unattended machine: the packages are installed, a pool is created, and from then on
//! everything must come back by itself. The guest is rebooted; its daemon is killed during an
//! rsync; its power is cut under load; it is rebooted once more; finally it boots without one of
//! its disks. The pool is what the handbook recommends: a mirror with a log device, a spare and a
//! cache device, encrypted datasets, a volume and a site, with as many transaction groups as in an
//! hour. Each time everything confirmed by `fsync` must be there, and so must all mounts: ordinary
//! ones, encrypted ones with a key in a file or in a credential of systemd, and those of
//! `/etc/fstab`. Without the disk the spare takes over, and `cenote health` reports the missing
//! disk. At the end OpenZFS checks the disks.
//!
//! The power cut is QEMU's: data that the guest's kernel had not written is lost, data that it had
//! handed to a disk is not. The simulation covers disks with volatile caches.

use crate::guest::{self, Guest, Options, tail};
use crate::nbd::run as run_program;
use crate::referee;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the guest does.
const TRIAL: &str = include_str!("trial.sh");

/// Starts it at the end of each start of the machine.
const UNIT: &str = "[Unit]\n\
    Description=Trial\n\
    After=zfs.target zfs-mount.service remote-fs.target\n\
    [Service]\n\
    ExecStart=/usr/local/sbin/trial\n\
    [Install]\n\
    WantedBy=multi-user.target\n";

/// What the guest needs beside the kernel.
const PACKAGES: &str = "systemd-sysv,udev,kmod,fuse3,rsync,procps,curl";

/// Files that are confirmed before the power goes.
const CONFIRMED: usize = 60;

/// The pool's disks: a mirror of two, a log device, a spare and a cache device.
const POOL_DISKS: [(&str, &str); 5] = [
    ("d1", "2G"),
    ("d2", "2G"),
    ("d3", "512M"),
    ("d4", "2G"),
    ("d5", "512M"),
];

/// The guest's system disk and those of the pool.
struct Disks {
    system: PathBuf,
    pool: Vec<PathBuf>,
}

impl Disks {
    /// The system with the packages beside it, and two empty disks.
    fn make(tree: &Path, packages: &Path, directory: &Path) -> Result<Self> {
        let root = directory.join("root");
        if root.exists() {
            std::fs::remove_dir_all(&root)?;
        }
        let text = |path: &Path| path.display().to_string();
        run_program("cp", &["-a", "--reflink=auto", &text(tree), &text(&root)])?;
        let to = root.join("packages");
        std::fs::create_dir_all(&to)?;
        let mut count = 0;
        for entry in std::fs::read_dir(packages)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
                count += 1;
            }
        }
        ensure!(count == 2, "{} has {count} packages", packages.display());
        let trial = root.join("usr/local/sbin/trial");
        std::fs::write(&trial, TRIAL)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&trial, mode)?;
        let units = root.join("etc/systemd/system");
        std::fs::create_dir_all(units.join("multi-user.target.wants"))?;
        std::fs::write(units.join("trial.service"), UNIT)?;
        let link = units.join("multi-user.target.wants/trial.service");
        std::os::unix::fs::symlink("/etc/systemd/system/trial.service", link)?;
        // A prompt for logins would hang up what else is open on the console, and the guest has no
        // network to wait for.
        for unit in [
            "serial-getty@ttyS0.service",
            "systemd-networkd-wait-online.service",
        ] {
            std::os::unix::fs::symlink("/dev/null", units.join(unit))?;
        }
        // The name of a machine that has none is made at its first start.
        std::fs::write(root.join("etc/machine-id"), "uninitialized\n")?;
        let disk = |name: &str, size: &str| -> Result<PathBuf> {
            let path = directory.join(name);
            if path.exists() {
                std::fs::remove_file(&path)?;
            }
            run_program("truncate", &["-s", size, &text(&path)])?;
            Ok(path)
        };
        let system = disk("system.img", "3G")?;
        let source = text(&root);
        run_program(
            "mke2fs",
            &["-q", "-F", "-t", "ext4", "-d", &source, &text(&system)],
        )?;
        std::fs::remove_dir_all(&root)?;
        // Only what is to be judged lies in the directory of the pool.
        std::fs::create_dir_all(directory.join("pool"))?;
        let pool = POOL_DISKS
            .iter()
            .map(|(name, size)| disk(&format!("pool/{name}.img"), size))
            .collect::<Result<_>>()?;
        Ok(Self { system, pool })
    }

    /// QEMU's arguments; `without` is the number of a disk that is not there.
    fn arguments(&self, without: Option<usize>) -> Vec<String> {
        let mut arguments = Vec::new();
        let paths = std::iter::once(&self.system).chain(&self.pool);
        for (index, path) in paths.enumerate() {
            if without == Some(index) {
                continue;
            }
            arguments.push("-drive".to_owned());
            arguments.push(format!(
                "file={},format=raw,if=none,id=d{index},discard=unmap",
                path.display()
            ));
            arguments.push("-device".to_owned());
            arguments.push(format!("virtio-blk-pci,drive=d{index},serial=d{index}"));
        }
        // Encryption needs randomness at the first start.
        arguments.extend(["-device", "virtio-rng-pci"].map(str::to_owned));
        arguments
    }
}

/// The numbers behind a word at the beginnings of lines.
fn numbers(said: &str, word: &str) -> BTreeSet<u64> {
    let lines = said.lines().filter_map(|line| line.strip_prefix(word));
    lines.filter_map(|rest| rest.trim().parse().ok()).collect()
}

/// Prints what the guest said for people.
fn report(phase: &str, said: &str, seconds: f64) {
    println!("{phase}: {seconds:.0} s");
    for line in said.lines() {
        if line.starts_with("trial: ") || line.starts_with("status: ") {
            println!("    {line}");
        }
    }
}

/// Installs the packages in a guest, and has it start, crash and start again.
///
/// # Errors
/// Anything is not as it has to be; the message has the end of the guest's console.
pub fn run(options: &Options, release: &str, packages: &Path) -> Result<()> {
    let tree = guest::tree(&options.directory, release, release, PACKAGES)?;
    let scratch = options.directory.join("boot");
    std::fs::create_dir_all(&scratch)?;
    let disks = Disks::make(&tree, packages, &scratch)?;
    let start = |phase: &str, without: Option<usize>| {
        let words = format!("root=/dev/vda rw quiet systemd.show_status=0 trial={phase}");
        Guest::start(options, &tree, "1024", &words, &disks.arguments(without))
    };
    let whole = |phase: &str, without: Option<usize>| -> Result<String> {
        let begun = std::time::Instant::now();
        let said = start(phase, without)?.end()?;
        report(phase, &said, begun.elapsed().as_secs_f64());
        let is_whole = said.contains(&format!("trial: {phase} is whole"));
        ensure!(is_whole, "{phase} failed:\n{}", tail(&said));
        Ok(said)
    };
    whole("make", None)?;
    let guest = start("again", None)?;
    let begun = std::time::Instant::now();
    let said = guest
        .cut(|said| numbers(said, "cut ").len() >= CONFIRMED || said.contains("trial: failed"));
    let said = said.context("in the start that ends with a power cut")?;
    report("again", &said, begun.elapsed().as_secs_f64());
    ensure!(
        !said.contains("trial: failed"),
        "again failed:\n{}",
        tail(&said)
    );
    let confirmed = numbers(&said, "cut ");
    let there = numbers(&whole("after", None)?, "has ");
    let lost: Vec<&u64> = confirmed.difference(&there).collect();
    ensure!(
        lost.is_empty(),
        "confirmed before the power cut and lost: {lost:?}"
    );
    println!(
        "{} files were confirmed before the power cut, and all are there",
        confirmed.len()
    );
    whole("lost", Some(2))?;
    match referee::path() {
        Some(_) => referee::judge(&scratch.join("pool"), "tank"),
        None => println!("OpenZFS is not installed here, and does not judge the pool"),
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_word() {
        let said = "cut 1\nhas 2\nno cut 3\ncut 4\ncut x\n";
        assert_eq!(numbers(said, "cut "), BTreeSet::from([1, 4]));
    }
}
