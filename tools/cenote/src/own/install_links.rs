//! `cenote install-links`.

use std::path::PathBuf;

use super::Command;
use super::arguments::{Arguments, flag};
use crate::context::{Context, Outcome, failed, usage};
use crate::mount_helper;
use crate::zstream;

/// The command.
pub const COMMAND: Command = Command {
    name: "install-links",
    summary: "Make links called cenote, zpool, zfs, zstream, mount.* to this program",
    synopsis: "DIRECTORY",
    about: "Put DIRECTORY before others in PATH, and whatever calls zpool or zfs (or\n\
            zstream) calls Cenote.\n\
            mount(8) looks in /sbin only: for mount.zfs, which 'mount -t zfs' and /etc/fstab\n\
            need, and for mount.fuse.cenote, which 'mount -o remount' needs.",
    flags: &[flag(Some('f'), "force", "replace what is there")],
    opens_pools: false,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [directory] = arguments.operands.as_slice() else {
        return usage("");
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let directory = context.directory.join(PathBuf::from(directory));
    if let Err(error) = std::fs::create_dir_all(&directory) {
        return failed(format!("cannot create {}: {error}", directory.display()));
    }
    for name in [
        "cenote",
        "zpool",
        "zfs",
        zstream::NAME,
        zstream::DUMP_NAME,
        mount_helper::NAME,
        mount_helper::NAME_BY_TYPE,
    ] {
        let link = directory.join(name);
        let is_made = std::fs::read_link(&link).is_ok_and(|target| target == program);
        if is_made || link == program {
            continue;
        }
        let replaced = arguments.has("force") && std::fs::symlink_metadata(&link).is_ok();
        if replaced && let Err(error) = std::fs::remove_file(&link) {
            return failed(format!("cannot replace {}: {error}", link.display()));
        }
        if let Err(error) = std::os::unix::fs::symlink(&program, &link) {
            return failed(format!("cannot create {}: {error}", link.display()));
        }
        context.line(&format!("{} -> {}", link.display(), program.display()));
    }
    Ok(0)
}
