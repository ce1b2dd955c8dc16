//! A guest that lives on a volume: an image is made once, and each guest boots from a clone.
//!
//! Debian's own tools make the tree of files (it is kept, because that takes minutes) and put it
//! into a volume. The guest boots from a clone over NBD, writes, discards, and says a checksum.
//! Then the clone is changed again by a second boot, rolled back to what the first one left, and
//! looked at from outside.

use crate::guest::{self, Guest, Options, tail};
use crate::nbd::{AsFile, run as run_program};
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The clone that guests boot from.
const CLONE: &str = "tank/web";

/// The guest's first program. It reports its result on the console.
const INIT: &str = "#!/bin/sh\n\
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
    mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
    set -e\n\
    name=$(sed 's/.*guest=\\([a-z]*\\).*/\\1/' /proc/cmdline)\n\
    dd if=/dev/urandom of=/$name bs=1M count=48 conv=fsync 2>/dev/null\n\
    cp -a /usr/share /copy.$name; sync; rm -r /copy.$name; sync; fstrim /\n\
    echo \"guest says: $(sha256sum < /$name | cut -d' ' -f1) $(ls / | tr '\\n' ' ')\"\n\
    mount -o remount,ro / && echo 'guest ends'\n\
    echo o > /proc/sysrq-trigger; sleep 60\n";

/// The guest's files, with its first program.
fn tree(directory: &Path) -> Result<PathBuf> {
    let tree = guest::tree(directory, "tree", "bookworm", "mount")?;
    let init = tree.join("guest-init");
    std::fs::write(&init, INIT)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&init, mode)?;
    Ok(tree)
}

/// Boots the guest and waits until it ends; what it said.
fn boot(options: &Options, tree: &Path, socket: &str, name: &str) -> Result<String> {
    let drive = format!(
        "driver=raw,node-name=disk,discard=unmap,file.driver=nbd,file.export={CLONE},\
         file.server.type=unix,file.server.path={socket}"
    );
    let arguments = ["-blockdev", &drive, "-device", "virtio-blk-pci,drive=disk"];
    let arguments = arguments.map(str::to_owned);
    let words = format!("root=/dev/vda rw init=/guest-init guest={name}");
    let guest = Guest::start(options, tree, "512", &words, &arguments)?;
    let begun = std::time::Instant::now();
    let said = guest.end()?;
    ensure!(
        said.contains("guest ends"),
        "the guest failed:\n{}",
        tail(&said)
    );
    let line = said.lines().find(|line| line.contains("guest says:"));
    println!(
        "{name}: booted and ended in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(line.context("the guest said nothing")?.trim().to_owned())
}

/// Makes an image, boots guests from a clone of it, and checks the result.
///
/// # Errors
/// Anything is not as it has to be.
pub fn run(options: &Options) -> Result<()> {
    let tree = tree(&options.directory)?;
    let site = Site::create("single", 4096, "-O mountpoint=none -O cenote:nbd=on")?;
    let socket = format!("{}.nbd", site.cenote().socket().display());
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={socket}");
    let place = site.cenote().directory().join("as-file");
    let as_file = |name: &str| -> Result<AsFile> {
        AsFile::new(&uri(name), &place)?.context("nbdfuse cannot mount here")
    };
    site.ok("zfs create -s -V 2G tank/golden")?;
    let disk = as_file("tank/golden")?;
    let source = tree.display().to_string();
    run_program(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", "-d", &source, &disk.path()],
    )?;
    disk.end()?;
    site.ok("zfs snapshot tank/golden@v1")?;
    site.ok(&format!("zfs clone tank/golden@v1 {CLONE}"))?;
    let first = boot(options, &tree, &socket, "first")?;
    site.ok(&format!("zfs snapshot {CLONE}@first"))?;
    let second = boot(options, &tree, &socket, "second")?;
    ensure!(
        second.contains(" first "),
        "the second boot sees the first: {second}"
    );
    site.ok(&format!("zfs rollback {CLONE}@first"))?;
    let disk = as_file(CLONE)?;
    run_program("e2fsck", &["-fn", &disk.path()])?;
    let copy = site.cenote().directory().join("copy");
    let dump = format!("dump /first {}", copy.display());
    run_program("debugfs", &["-R", &dump, &disk.path()])?;
    let list = run_program("debugfs", &["-R", "ls -p /", &disk.path()])?;
    ensure!(
        !list.contains("/second/"),
        "a rollback takes the second boot back: {list}"
    );
    disk.end()?;
    let sum = run_program("sha256sum", &[&copy.display().to_string()])?;
    let sum = sum.split(' ').next().unwrap_or_default();
    ensure!(
        first.contains(sum),
        "the guest wrote {first}, and {sum} is there"
    );
    let disk = as_file("tank/golden")?;
    run_program("e2fsck", &["-fn", &disk.path()])?;
    disk.end()?;
    println!(
        "{}",
        site.ok("zfs list -t all -o name,used,refer,written -r tank")?
    );
    site.finish()
}
