//! What tests find: commands and disks.

use crate::site::Site;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each disk's size; it takes what is written only.
const DISK_BYTES: u64 = 4 << 30;
const DISKS: u32 = 3;
/// OpenZFS's `zdb` as a script. Tests name pools, which it looks for in a file that the kernel
/// module writes; here it finds them by their devices, as exported ones.
const ZDB: &str = "\
#!/bin/sh
case \"$*\" in *-l*) exec ZDB \"$@\";; esac
for directory in \"$FILEDIR\" \"$FILEDIR\"/*/; do
    set -- -p \"$directory\" \"$@\"
done
exec ZDB -e -p /dev \"$@\"
";

/// Where a program is: in the system's directories first, for what stands before them in a `PATH`
/// may be a script that needs more than tests have.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = system.into_iter().chain(std::env::split_paths(&path));
    let mut programs = directories.map(|directory| directory.join(name));
    programs.find(|program| program.is_file())
}

/// The names that the suite's list of commands has in lists with this prefix.
fn listed(commands: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for list in commands.split("export ").skip(1) {
        if let Some((name, rest)) = list.split_once("='")
            && name.starts_with(prefix)
            && let Some((words, _)) = rest.split_once('\'')
        {
            names.extend(words.split_whitespace().map(str::to_owned));
        }
    }
    names
}

/// A directory with the commands that tests may use, ours among them.
pub(super) fn tools(site: &Site, package: &Path) -> Result<PathBuf> {
    let tools = site.cenote().subdirectory("tools")?;
    let commands = package.join("zfs-tests/include/commands.cfg");
    let commands = fs::read_to_string(&commands).context("the suite's commands")?;
    let link = |name: &str, target: &Path| -> Result<()> {
        let at = tools.join(name);
        if at.symlink_metadata().is_err() {
            symlink(target, at)?;
        }
        Ok(())
    };
    for name in ["zpool", "zfs", "cenote"] {
        link(name, &crate::program::cenote_path())?;
    }
    for name in listed(&commands, "ZFSTEST_FILES") {
        let program = package.join("zfs-tests/bin").join(&name);
        if program.exists() {
            link(&name, &program)?;
        }
    }
    let system = ["SYSTEM_FILES_COMMON", "SYSTEM_FILES_LINUX"];
    let system = system.iter().flat_map(|prefix| listed(&commands, prefix));
    for name in system {
        if let Some(program) = find(&name) {
            link(&name, &program)?;
        }
    }
    let zdb = find("zdb").context("zdb")?;
    let script = tools.join("zdb");
    fs::write(&script, ZDB.replace("ZDB", &zdb.display().to_string()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    // The suite's names for these on any system.
    for (name, program) in [("compress", "gzip"), ("uncompress", "gunzip")] {
        link(name, &find(program).context(program)?)?;
    }
    Ok(tools)
}

/// Loop devices on files, until it goes out of scope.
pub(super) struct Disks(Vec<String>);

impl Disks {
    pub fn attach(files: &Path) -> Result<Self> {
        let mut disks = Self(Vec::new());
        for number in 0..DISKS {
            let file = files.join(format!("file-vdev{number}"));
            File::create(&file)?.set_len(DISK_BYTES)?;
            let attached = Command::new("losetup")
                .args(["--find", "--show"])
                .arg(&file)
                .output()?;
            if !attached.status.success() {
                bail!("losetup: {}", String::from_utf8_lossy(&attached.stderr));
            }
            let device = String::from_utf8(attached.stdout)?.trim().to_owned();
            ensure!(device.starts_with("/dev/"), "losetup said {device}");
            disks.0.push(device);
        }
        Ok(disks)
    }

    /// Their names as tests want them.
    pub fn names(&self) -> String {
        let name = |device: &String| device.replace("/dev/", "");
        self.0.iter().map(name).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for device in &self.0 {
            let done = Command::new("losetup").arg("-d").arg(device).status();
            if !done.is_ok_and(|status| status.success()) {
                eprintln!("{device} is left behind");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn lists_of_commands_are_read() {
        let text = "# a\nexport SYSTEM_FILES_COMMON='awk\n    bc'\nexport ZFS_FILES='zdb'\n";
        assert_eq!(listed(text, "SYSTEM_FILES_COMMON"), ["awk", "bc"]);
        assert_eq!(listed(text, "ZFS_FILES"), ["zdb"]);
    }
}
