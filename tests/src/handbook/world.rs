//! The machine that a page is run on.
//!
//! A reader types `zpool create tank mirror /dev/sdb /dev/sdc`, and so does the test: without
//! variables, and without paths that only it has. So each page gets namespaces of its own (mounts,
//! processes, network, names) and a root that lies over the machine's own: what is written there is
//! gone afterwards, `/dev` has only the usual files, `/run` and `/tmp` are empty, the network has
//! only the loopback, and `cenote` is what was built. Disks are files in `/dev`, which pages make
//! in their `setup`; pools that OpenZFS made are in `/srv/source/tests/data`. All processes
//! end with the first one, the daemon of the page too.

use super::page::Page;
use crate::golden;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// How long a page may take, in seconds: far more than it needs on a busy machine.
const TIME: &str = "300";

/// Makes the root and enters it. `$1` is a directory for it, `$2` the program, `$3` what is run,
/// `$4` the workspace.
const ENTER: &str = r#"
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755,size=4g world "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
root=$1/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755,size=4g dev "$root/dev"
for name in null zero full random urandom tty fuse; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for place in run tmp mnt media srv home; do
    mount -t tmpfs -o mode=755 "$place" "$root/$place"
done
chmod 1777 "$root/tmp"
mkdir "$root/handbook" "$root/me" "$root/srv/source"
mount --bind "$4" "$root/srv/source"
mount --bind "$3" "$root/handbook"
rm -rf "$root/etc/zfs" "$root/etc/cenote" "$root/var/lib/cenote" "$root/var/log/cenote"
rm -f "$root/usr/bin/cenote" "$root/usr/local/sbin/cenote"
mkdir "$root/etc/zfs"
: >"$root/usr/bin/cenote"
mount --bind "$2" "$root/usr/bin/cenote"
for link in zpool zfs zstream zdb zed zinject arcstat arc_summary; do
    ln -sf /usr/bin/cenote "$root/usr/local/sbin/$link"
done
for link in mount.zfs mount.fuse.cenote; do ln -sf /usr/bin/cenote "$root/usr/sbin/$link"; done
ip link set lo up
hostname nas
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/me \
    USER=root LC_ALL=C.UTF-8 TZ=UTC TERM=dumb chroot "$root" /bin/bash /handbook/page
"#;

/// How steps are run: each in the same shell, those of the test in one of their own.
const STEPS: &str = r#"
cd "$HOME"
end() {
    echo "$1" >"/handbook/$2.code"
    if [ "$1" != "$3" ]; then exit 0; fi
}
"#;

/// What a step left.
#[derive(Debug)]
pub struct Ran {
    /// What it printed, on either output.
    pub output: String,
    /// How it ended, if it did.
    pub code: Option<i32>,
}

/// What pages use beside the programs of any system.
const PROGRAMS: [&str; 4] = ["ip", "hostname", "rsync", "curl"];

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Why pages cannot be run on this machine, if they cannot.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("the handbook's commands need root, for a root directory of their own".into());
    }
    let wanted = PROGRAMS.iter().find(|program| !is_there(program));
    if let Some(program) = wanted {
        return Some(format!("the handbook's commands need {program}"));
    }
    let overlay = "ip link set lo up && mount -t tmpfs none /mnt && mkdir /mnt/a /mnt/b /mnt/c && \
                   mount -t overlay -o lowerdir=/,upperdir=/mnt/a,workdir=/mnt/b overlay /mnt/c";
    let tried = Command::new("unshare")
        .args(["--mount", "--net", "--uts", "sh", "-c", overlay])
        .output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(format!("no root directory for the handbook: {said}"))
        }
        Err(error) => Some(format!("cannot run unshare: {error}")),
    }
}

/// The script that runs the steps, whose commands it writes beside it.
fn script(page: &Page, directory: &Path) -> Result<String> {
    let mut script = String::from(STEPS);
    for (index, step) in page.steps.iter().enumerate() {
        fs::write(directory.join(format!("{index}.sh")), &step.command)?;
        let run = match step.is_setup {
            true => format!("bash -eu /handbook/{index}.sh"),
            false => format!("eval \"$(</handbook/{index}.sh)\""),
        };
        let code = step.code;
        writeln!(
            script,
            "{run} >/handbook/{index}.out 2>&1 </dev/null; end $? {index} {code}"
        )?;
    }
    Ok(script)
}

/// Runs the steps of a page up to the first that does not end as it has to.
///
/// # Errors
/// The world cannot be made.
pub fn run(page: &Page, program: &Path) -> Result<Vec<Ran>> {
    let scratch = tempfile::tempdir()?;
    let (root, handbook) = (scratch.path().join("root"), scratch.path().join("handbook"));
    fs::create_dir(&root)?;
    fs::create_dir(&handbook)?;
    fs::write(handbook.join("page"), script(page, &handbook)?)?;
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        TIME,
        "unshare",
        "--mount",
        "--pid",
        "--net",
    ]);
    command.args([
        "--uts",
        "--fork",
        "--kill-child",
        "bash",
        "-c",
        ENTER,
        "bash",
    ]);
    command
        .arg(&root)
        .arg(program)
        .arg(&handbook)
        .arg(golden::workspace_root());
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot run timeout")?;
    let mut results = Vec::new();
    for index in 0..page.steps.len() {
        let path = handbook.join(format!("{index}.out"));
        let Ok(bytes) = fs::read(&path) else { break };
        let code = fs::read_to_string(path.with_extension("code"));
        results.push(Ran {
            output: String::from_utf8_lossy(&bytes).into_owned(),
            code: code.ok().and_then(|code| code.trim().parse().ok()),
        });
    }
    if results.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{}: the world cannot be made: {said}", page.name);
    }
    Ok(results)
}
