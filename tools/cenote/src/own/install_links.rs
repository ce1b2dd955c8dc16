//! `cenote install-links`: all links or none, and away with them again.
//!
//! What is in the way is found before anything is changed. Each link is made beside its place and
//! moved there, so that a command of that name is there at any time; a failure takes back what was
//! made. Only links that point to this program are ever removed.

use std::fs;
use std::path::{Path, PathBuf};

use super::Command;
use super::arguments::{Arguments, flag};
use crate::context::{Context, Outcome, failed, usage};
use crate::mount_helper;
use crate::zstream;

/// The command.
pub const COMMAND: Command = Command {
    name: "install-links",
    summary: "Make links called cenote, zpool, zfs, zstream, mount.* to this program",
    synopsis: "[--force | --remove] DIRECTORY",
    about: "Put DIRECTORY before others in PATH, and whatever calls zpool or zfs (or\n\
            zstream) calls Cenote.\n\
            mount(8) looks in /sbin only: for mount.zfs, which 'mount -t zfs' and /etc/fstab\n\
            need, and for mount.fuse.cenote, which 'mount -o remount' needs.\n\
            All links are made or none. What --force replaces is lost.",
    flags: &[
        flag(Some('f'), "force", "replace what is there"),
        flag(Some('r'), "remove", "remove the links to this program"),
    ],
    opens_pools: false,
    run,
};

/// The names by which the program is called.
const NAMES: [&str; 7] = [
    "cenote",
    "zpool",
    "zfs",
    zstream::NAME,
    zstream::DUMP_NAME,
    mount_helper::NAME,
    mount_helper::NAME_BY_TYPE,
];

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [directory] = arguments.operands.as_slice() else {
        return usage("");
    };
    if arguments.has("force") && arguments.has("remove") {
        return usage("--force and --remove exclude each other");
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let directory = context.directory.join(PathBuf::from(directory));
    let done = match arguments.has("remove") {
        true => remove(&directory, &program),
        false => install(&directory, &program, arguments.has("force")),
    };
    match done {
        Ok(lines) => {
            lines.iter().for_each(|line| context.line(line));
            Ok(0)
        }
        Err(message) => failed(message),
    }
}

fn is_ours(link: &Path, program: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target == program)
}

/// Makes all links, or none; returns what was made.
fn install(directory: &Path, program: &Path, force: bool) -> Result<Vec<String>, String> {
    let links = NAMES.iter().map(|name| directory.join(name));
    let missing: Vec<PathBuf> = links
        .filter(|link| !is_ours(link, program) && link != program)
        .collect();
    let is_there = |link: &&PathBuf| fs::symlink_metadata(link).is_ok();
    let in_the_way: Vec<String> = missing
        .iter()
        .filter(is_there)
        .map(|link| link.display().to_string())
        .collect();
    let is_folder = |link: &PathBuf| fs::symlink_metadata(link).is_ok_and(|found| found.is_dir());
    if let Some(folder) = missing.iter().find(|link| is_folder(link)) {
        let folder = folder.display();
        return Err(format!(
            "cannot replace {folder}: it is a directory; no link was made"
        ));
    }
    if !force && !in_the_way.is_empty() {
        return Err(format!(
            "{} exists already; no link was made. Give --force to replace it, or choose another \
             directory and put it first in PATH",
            in_the_way.join(", ")
        ));
    }
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    // All are made beside their places first: that fails where the directory cannot be written.
    let mut made: Vec<(PathBuf, PathBuf)> = Vec::new();
    for link in &missing {
        let mut beside = link.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        if let Err(error) = std::os::unix::fs::symlink(program, &beside) {
            made.iter()
                .for_each(|(beside, _)| drop(fs::remove_file(beside)));
            return Err(format!(
                "cannot create {}: {error}; no link was made",
                link.display()
            ));
        }
        made.push((beside, link.clone()));
    }
    let mut lines = Vec::new();
    for (index, (beside, link)) in made.iter().enumerate() {
        if let Err(error) = fs::rename(beside, link) {
            made[..index]
                .iter()
                .for_each(|(_, link)| drop(fs::remove_file(link)));
            made[index..]
                .iter()
                .for_each(|(beside, _)| drop(fs::remove_file(beside)));
            return Err(format!(
                "cannot create {}: {error}; no link was made",
                link.display()
            ));
        }
        lines.push(format!("{} -> {}", link.display(), program.display()));
    }
    Ok(lines)
}

/// Removes the links to this program; returns what was removed.
fn remove(directory: &Path, program: &Path) -> Result<Vec<String>, String> {
    let links = NAMES.iter().map(|name| directory.join(name));
    let mut lines = Vec::new();
    for link in links.filter(|link| is_ours(link, program)) {
        fs::remove_file(&link)
            .map_err(|error| format!("cannot remove {}: {error}", link.display()))?;
        lines.push(format!("removed {}", link.display()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// A file in the way of the last link left the first ones behind.
    #[test]
    fn all_links_are_made_or_none_and_go_again() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("bin");
        let program = Path::new("/opt/cenote");
        fs::create_dir(&directory).expect("a directory");
        fs::write(directory.join(mount_helper::NAME_BY_TYPE), "another's").expect("a file");
        let refused = install(&directory, program, false).expect_err("it is in the way");
        assert!(refused.contains("no link was made"), "{refused}");
        assert_eq!(names(&directory), [mount_helper::NAME_BY_TYPE]);
        assert_eq!(install(&directory, program, true).map(|l| l.len()), Ok(7));
        assert_eq!(names(&directory).len(), 7);
        assert_eq!(install(&directory, program, false), Ok(Vec::new()));
        fs::remove_file(directory.join("zfs")).expect("a link");
        fs::write(directory.join("zfs"), "another's").expect("a file");
        assert_eq!(remove(&directory, program).map(|l| l.len()), Ok(6));
        assert_eq!(names(&directory), ["zfs"]);
    }
}
