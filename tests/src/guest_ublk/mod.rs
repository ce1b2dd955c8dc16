//! A guest whose kernel has the driver `ublk_drv`: volumes as its disks, and everything that may
//! happen to them.
//!
//! The guest runs the programs of this build. First a file is served, without a pool: what a
//! program has open or has mounted is not stopped, requests that hang can be given up, a process
//! that is killed is followed by another one. Then the daemon serves volumes of a pool: ext4 and
//! XFS on them, fio that verifies what it wrote while the daemon is killed in the middle, trims,
//! flushes. At last the guest goes down, and OpenZFS judges the pool.
//!
//! What is measured in an emulated processor says something about ratios only.

use crate::guest::{self, Guest, Options, tail};
use crate::nbd::run as run_program;
use crate::program;
use crate::referee;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The guest's first program: mounts what every system has, and runs the trial.
const INIT: &str = "#!/bin/sh\n\
    export PATH=/mnt/trial:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8\n\
    mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null\n\
    mount -t tmpfs run /run; mount -t tmpfs tmp /tmp\n\
    mount /dev/vdb /mnt/trial && sh /mnt/trial/trial.sh 2>&1\n\
    sync; echo o > /proc/sysrq-trigger; sleep 60\n";

/// What the guest does.
const TRIAL: &str = include_str!("trial.sh");

/// What the guest needs beside the kernel.
const PACKAGES: &str = "mount,e2fsprogs,xfsprogs,fio,nbd-client,kmod";

/// The guest's disks: its system, the programs and the trial, and the pool's.
struct Disks([PathBuf; 3]);

impl Disks {
    fn make(tree: &Path, scratch: &Path) -> Result<Self> {
        let text = |path: &Path| path.display().to_string();
        let init = tree.join("guest-init");
        std::fs::write(&init, INIT)?;
        std::fs::set_permissions(&init, PermissionsExt::from_mode(0o755))?;
        std::fs::create_dir_all(tree.join("mnt/trial"))?;
        let trial = scratch.join("trial");
        std::fs::create_dir_all(&trial)?;
        std::fs::write(trial.join("trial.sh"), TRIAL)?;
        let cenote = program::cenote_path();
        let serve = cenote.with_file_name("cenote-ublk-serve");
        for program in [&cenote, &serve] {
            let name = program.file_name().unwrap_or_default();
            let to = trial.join(name);
            // Without symbols they are read sooner.
            run_program("strip", &["-o", &text(&to), &text(program)])
                .with_context(|| format!("{} must be built", program.display()))?;
        }
        for name in ["zpool", "zfs"] {
            std::os::unix::fs::symlink("cenote", trial.join(name))?;
        }
        let disk = |name: &str, size: &str, source: Option<&Path>| -> Result<PathBuf> {
            let path = scratch.join(name);
            run_program("truncate", &["-s", size, &text(&path)])?;
            if let Some(source) = source {
                let arguments = ["-q", "-F", "-t", "ext4", "-d", &text(source), &text(&path)];
                run_program("mke2fs", &arguments)?;
            }
            Ok(path)
        };
        // Only what is to be judged lies in the directory of the pool.
        std::fs::create_dir_all(scratch.join("pool"))?;
        Ok(Self([
            disk("system.img", "3G", Some(tree))?,
            disk("trial.img", "512M", Some(&trial))?,
            disk("pool/d1.img", "3G", None)?,
        ]))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (index, path) in self.0.iter().enumerate() {
            arguments.push("-drive".to_owned());
            arguments.push(format!(
                "file={},format=raw,if=none,id=d{index},discard=unmap",
                path.display()
            ));
            arguments.push("-device".to_owned());
            arguments.push(format!("virtio-blk-pci,drive=d{index}"));
        }
        arguments.extend(["-device", "virtio-rng-pci"].map(str::to_owned));
        arguments
    }
}

/// Boots the guest, has it serve devices to itself, and judges the pool that it leaves.
///
/// # Errors
/// Anything is not as it has to be; the message has the end of the guest's console.
pub fn run(options: &Options) -> Result<()> {
    let tree = guest::tree(&options.directory, "tree-ublk", "trixie", PACKAGES)?;
    let scratch = options.directory.join("ublk");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    let disks = Disks::make(&tree, &scratch)?;
    let words = "root=/dev/vda rw init=/guest-init loglevel=3";
    let guest = Guest::start(options, &tree, "1536", words, &disks.arguments())?;
    let begun = std::time::Instant::now();
    let said = guest.end()?;
    for line in said.lines().filter(|line| line.starts_with("trial: ")) {
        println!("{line}");
    }
    ensure!(
        said.contains("] all is well"),
        "the guest failed:\n{}",
        tail(&said)
    );
    println!("the guest ran for {:.0} s", begun.elapsed().as_secs_f64());
    match referee::path() {
        Some(_) => referee::judge(&scratch.join("pool"), "tank"),
        None => println!("OpenZFS is not installed here, and does not judge the pool"),
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}
