//! `try-packages`: the packages in bare systems, from the installation to the removal.
//!
//! A bare Debian is made once for each release, by mmdebstrap, and kept. Each trial unpacks it into
//! a directory of its own and works there with its own mounts and processes, so that nothing is
//! left of it. There is no systemd in it: what its units do is not tried here.

use super::common::{output, version};
use super::making::make_debs;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The releases of Debian that packages are tried on.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

/// What is done there. It ends at the first line that fails.
const SCRIPT: &str = r#"#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "--- $*"; }
apt() {
    apt-get -qq -y --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
}
pid() { cenote daemon status | sed -n 's/.* as process \([0-9]*\) .*/\1/p'; }

say "cenote is installed and touches no command of OpenZFS"
before=$(date +%s%N)
apt install /packages/1/cenote_*.deb
echo "installed in $((($(date +%s%N) - before) / 1000000)) ms"
cenote version
if command -v zpool; then echo "zpool must not be there yet"; exit 1; fi
cenote zpool list

say "cenote-zfs is refused where the system is on a pool of the kernel module"
echo 'rpool/ROOT/debian / zfs rw 0 0' >/tmp/mounts
if MOUNTS=/tmp/mounts dpkg -i /packages/1/cenote-zfs_*.deb >/tmp/refused.log 2>&1; then
    echo "it was installed"; exit 1
fi
grep -q 'rpool/ROOT/debian' /tmp/refused.log || { cat /tmp/refused.log; exit 1; }

say "cenote-zfs brings the commands"
apt install /packages/1/cenote-zfs_*.deb
zpool version
test -e /usr/share/man/man8/zpool-create.8.gz
test -e /usr/share/man/man1/cenote-verify.1.gz
test -e /usr/share/bash-completion/completions/zfs
grep -q '^draid$' /usr/share/zfs/compatibility.d/openzfs-2.1-linux
command -v mount.zfs

say "a pool is made and used"
truncate -s 128M /var/tmp/disk
zpool create tank /var/tmp/disk
zfs create tank/home
echo text >/tank/home/file
zpool sync tank
# What only commands gave the daemon.
truncate -s 128M /var/tmp/other
zpool create -R /mnt other /var/tmp/other
zfs create -V 8M other/volume
cenote nbd serve --unix /run/volume.nbd other/volume

say "an upgrade while a file is open keeps the daemon"
first=$(pid)
exec 3</tank/home/file
dpkg -i /packages/2/*.deb >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; exit 1; }
grep -q 'still runs the old version' /tmp/upgrade.log || { cat /tmp/upgrade.log; exit 1; }
test "$(pid)" = "$first"
test "$(cat <&3)" = text
exec 3<&-

say "another upgrade replaces it, and the pool and its mounts are back"
dpkg -i /packages/2/*.deb >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; exit 1; }
grep -q 'runs the new version' /tmp/upgrade.log || { cat /tmp/upgrade.log; exit 1; }
test "$(pid)" != "$first"
test "$(cat /tank/home/file)" = text
test "$(zpool get -H -o value altroot other)" = /mnt
cenote nbd status | grep -q other/volume
zpool export other

say "a key that was typed keeps the daemon, too"
echo passphrase | zfs create -o encryption=on -o keyformat=passphrase tank/secret
first=$(pid)
dpkg -i /packages/2/cenote_*.deb >/tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; exit 1; }
grep -q 'zfs load-key tank/secret' /tmp/upgrade.log || { cat /tmp/upgrade.log; exit 1; }
test "$(pid)" = "$first"
zfs destroy tank/secret
zpool status -x | grep -q 'all pools are healthy'

say "a removal is refused while a file is open"
exec 3</tank/home/file
if apt-get -qq -y remove cenote >/tmp/remove.log 2>&1; then echo "it was removed"; exit 1; fi
# It removed cenote-zfs, and zpool with it, before it was refused.
grep -q "'cenote zpool export -a'" /tmp/remove.log || { cat /tmp/remove.log; exit 1; }
exec 3<&-
cenote zpool export -a

say "removed and installed again, it finds its pool"
apt remove cenote
if [ -e /usr/bin/cenote ]; then echo "it was not removed"; exit 1; fi
apt install /packages/2/*.deb
zpool import -d /var/tmp tank
test "$(cat /tank/home/file)" = text
zpool export tank

say "a purge leaves nothing"
apt purge cenote cenote-zfs
for path in /usr/bin/cenote /usr/sbin/zpool /var/lib/cenote /var/log/cenote /etc/default/cenote \
    /usr/lib/systemd/system/cenote.service; do
    if [ -e "$path" ]; then echo "$path is left"; exit 1; fi
done
say "done"
"#;

/// `try-packages [--program PATH] [--keep DIRECTORY] [RELEASE...]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let mut program = crate::workspace::root().join("target/release/cenote");
    let home = std::env::var_os("HOME").map_or_else(|| "/tmp".into(), PathBuf::from);
    let mut cache = home.join(".cache/cenote-package");
    let mut releases = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--program" => program = PathBuf::from(value()?),
            "--keep" => cache = std::path::absolute(value()?)?,
            release if RELEASES.contains(&release) => releases.push(release.to_owned()),
            other => bail!("'{other}' is no release of Debian: {}", RELEASES.join(", ")),
        }
    }
    if releases.is_empty() {
        releases = RELEASES.map(str::to_owned).to_vec();
    }
    let packages = cache.join("packages");
    make_debs(&program, &packages.join("1"), version().to_owned())?;
    // As the next release would be: the same program under a higher version.
    make_debs(&program, &packages.join("2"), format!("{}+1", version()))?;
    for release in &releases {
        let begun = Instant::now();
        let base = bare(release, &cache)?;
        let tried = try_on(&base, &packages, &cache.join(format!("trial-{release}")));
        tried.with_context(|| format!("on {release}"))?;
        println!("{release}: whole ({} s)", begun.elapsed().as_secs());
    }
    Ok(true)
}

/// A bare system, made once.
fn bare(release: &str, cache: &Path) -> Result<PathBuf> {
    let path = cache.join(format!("{release}.tar"));
    if !path.exists() {
        fs::create_dir_all(cache)?;
        println!("making {} (a minute)", path.display());
        let part = cache.join(format!("{release}.part.tar"));
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--variant=minbase", "--mode=root", "--format=tar", release]);
        output(mmdebstrap.arg(&part).stdin(Stdio::null()))?;
        fs::rename(part, &path)?;
    }
    Ok(path)
}

fn try_on(base: &Path, packages: &Path, root: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::create_dir_all(root)?;
    let mut tar = Command::new("tar");
    output(
        tar.arg("--extract")
            .arg("--file")
            .arg(base)
            .arg("--directory")
            .arg(root),
    )?;
    for version in ["1", "2"] {
        let to = root.join("packages").join(version);
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(packages.join(version))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
            }
        }
    }
    fs::write(root.join("trial.sh"), SCRIPT)?;
    // Mounts and processes are its own: all of them end with it.
    let enter = "mount --rbind /dev \"$0/dev\" && mount -t tmpfs run \"$0/run\" && \
                 exec chroot \"$0\" /bin/sh /trial.sh";
    let mut trial = Command::new("timeout");
    trial.args([
        "600",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
    trial.arg(format!("--mount-proc={}", root.join("proc").display()));
    trial.args(["sh", "-c", enter]).arg(root);
    for (name, _) in std::env::vars_os() {
        // The trial must not reach the machine's own daemon.
        if name.to_string_lossy().starts_with("CENOTE_") {
            trial.env_remove(name);
        }
    }
    let ended = trial
        .stdin(Stdio::null())
        .status()
        .context("cannot run unshare")?;
    ensure!(ended.success(), "the trial failed in {}", root.display());
    fs::remove_dir_all(root)?;
    Ok(())
}
