//! `cenote install-links`.
//!
//! Either all links are made or none. Obstacles are found before anything is changed, and if a step
//! still fails, completed steps are undone. `-f` moves an existing file to `NAME.before-cenote`,
//! and `--undo` restores it.

use std::fs;
use std::path::{Path, PathBuf};

use cenote_own_commands::zstream;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_zfs_commands::mount_helper;

/// The command.
pub const COMMAND: Command = Command {
    name: "install-links",
    summary: "Make links called zpool, zfs, zstream, arcstat, mount.* and more to this program",
    synopsis: "DIRECTORY",
    about: "Put DIRECTORY before others in PATH, and whatever calls zpool or zfs (or\n\
            zstream, zdb, zed, zinject, arcstat, arc_summary) calls Cenote.\n\
            mount(8) looks in /sbin only: for mount.zfs, which 'mount -t zfs' and /etc/fstab\n\
            need, and for mount.fuse.cenote, which 'mount -o remount' needs.\n\
            Either all links are made or none.",
    flags: flags! {
        'f' "force" _ "replace what is there; it is kept as NAME.before-cenote";
        _ "undo" _ "remove the links again, and put back what they replaced";
    },
    run: Run::Asking(run),
};

/// The names of the links.
const NAMES: [&str; 18] = [
    "cenote",
    "zpool",
    "zfs",
    zstream::NAME,
    zstream::DUMP_NAME,
    cenote_zed::NAME,
    cenote_zinject::NAME,
    cenote_zdb::NAME,
    mount_helper::NAME,
    mount_helper::NAME_BY_TYPE,
    "arcstat",
    "zarcstat",
    "arc_summary",
    "zarcsummary",
    "zilstat",
    "zgenhostid",
    "zvol_wait",
    "zfs_ids_to_path",
];

/// The suffix of replaced files.
const KEPT: &str = ".before-cenote";

/// A link to make.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    link: PathBuf,
    /// Where to keep the existing file.
    kept: Option<PathBuf>,
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [directory] = arguments.operands.as_slice() else {
        return usage("");
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let directory = context.directory.join(PathBuf::from(directory));
    if arguments.has("undo") {
        arguments.only(&["undo"])?;
        return match undo(&directory, &program) {
            Ok(lines) => {
                lines.iter().for_each(|line| context.line(line));
                Ok(0)
            }
            Err(message) => failed(message),
        };
    }
    let made = plan(&directory, &program, arguments.has("force"))
        .and_then(|steps| install(&directory, &program, steps));
    match made {
        Ok(steps) => {
            for step in steps {
                let (link, program) = (step.link.display(), program.display());
                context.line(&format!("{link} -> {program}"));
            }
            Ok(0)
        }
        Err(message) => failed(message),
    }
}

fn kept_name(link: &Path) -> PathBuf {
    let mut name = link.as_os_str().to_owned();
    name.push(KEPT);
    PathBuf::from(name)
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The steps, or all obstacles.
fn plan(directory: &Path, program: &Path, force: bool) -> Result<Vec<Step>, String> {
    let (mut steps, mut obstacles) = (Vec::new(), Vec::new());
    for name in NAMES {
        let link = directory.join(name);
        let is_made = fs::read_link(&link).is_ok_and(|target| target == program);
        // The program itself may be there under its own name.
        if is_made || link == program {
            continue;
        }
        let kept = is_there(&link).then(|| kept_name(&link));
        match &kept {
            Some(_) if !force => obstacles.push(format!("{} is there", link.display())),
            Some(_) if link.is_dir() && !link.is_symlink() => {
                obstacles.push(format!("{} is a directory", link.display()));
            }
            Some(kept) if is_there(kept) => {
                obstacles.push(format!("{} is there from an earlier time", kept.display()));
            }
            _ => {}
        }
        steps.push(Step { link, kept });
    }
    match obstacles.is_empty() {
        true => Ok(steps),
        false => {
            let advice = match force {
                true => "move it away",
                false => "-f replaces what is there, and --undo puts it back",
            };
            let obstacles = obstacles.join("; ");
            Err(format!("no link was made: {obstacles}; {advice}"))
        }
    }
}

fn install(directory: &Path, program: &Path, steps: Vec<Step>) -> Result<Vec<Step>, String> {
    if let Err(error) = fs::create_dir_all(directory) {
        return Err(format!("cannot create {}: {error}", directory.display()));
    }
    for (done, step) in steps.iter().enumerate() {
        if let Err(error) = make(step, program) {
            let mut message = format!("cannot create {}: {error}", step.link.display());
            let mut left = Vec::new();
            for step in steps[..done].iter().rev() {
                if let Err(error) = unmake(&step.link, step.kept.as_deref()) {
                    left.push(format!("{}: {error}", step.link.display()));
                }
            }
            match left.is_empty() {
                true => message.push_str("; everything is as it was"),
                false => message.push_str(&format!("; not undone: {}", left.join("; "))),
            }
            return Err(message);
        }
    }
    Ok(steps)
}

fn make(step: &Step, program: &Path) -> std::io::Result<()> {
    if let Some(kept) = &step.kept {
        fs::rename(&step.link, kept)?;
    }
    let made = std::os::unix::fs::symlink(program, &step.link);
    if let (Err(_), Some(kept)) = (&made, &step.kept) {
        fs::rename(kept, &step.link)?;
    }
    made
}

fn unmake(link: &Path, kept: Option<&Path>) -> std::io::Result<()> {
    match kept {
        // The rename is atomic, so the name always exists.
        Some(kept) => fs::rename(kept, link),
        None => fs::remove_file(link),
    }
}

/// Removes the links to this program, and restores what they replaced.
fn undo(directory: &Path, program: &Path) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for name in NAMES {
        let link = directory.join(name);
        let is_ours = fs::read_link(&link).is_ok_and(|target| target == program);
        let kept = Some(kept_name(&link)).filter(|kept| is_there(kept));
        // If the user has put another file there since, neither it nor the kept file is touched.
        if link == program || !(is_ours || kept.is_some() && !is_there(&link)) {
            continue;
        }
        let undone = unmake(&link, kept.as_deref());
        undone.map_err(|error| format!("cannot remove {}: {error}", link.display()))?;
        lines.push(match kept {
            Some(_) => format!("{} is back", link.display()),
            None => format!("{} is removed", link.display()),
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Previously, links were made one by one until the first error, and no record was kept of the
    /// programs that they replaced.
    #[test]
    fn all_links_or_none_and_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("bin");
        let program = directory.path().join("cenote-program");
        fs::create_dir(&place).expect("a directory");
        fs::write(place.join("zfs"), "the other").expect("a file");
        let count = || fs::read_dir(&place).expect("a directory").count();

        let refused = plan(&place, &program, false).expect_err("zfs is there");
        assert!(refused.contains("bin/zfs is there"), "{refused}");
        assert_eq!(count(), 1);

        let steps = plan(&place, &program, true).expect("all can be");
        install(&place, &program, steps).expect("made");
        assert_eq!(count(), NAMES.len() + 1);
        assert_eq!(plan(&place, &program, false), Ok(Vec::new()), "all made");

        undo(&place, &program).expect("undone");
        assert_eq!(
            fs::read_to_string(place.join("zfs")).expect("back"),
            "the other"
        );
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_step_that_fails_takes_the_others_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        let program = place.join("cenote-program");
        fs::write(place.join("zpool"), "the other").expect("a file");
        let mut steps = plan(place, &program, true).expect("all can be");
        // Simulates a directory that is created in the meantime.
        fs::create_dir(place.join("zfs")).expect("a directory");
        steps.retain(|step| !step.link.ends_with("mount.zfs"));
        let failed = install(place, &program, steps).expect_err("zfs is in the way");
        assert!(failed.ends_with("everything is as it was"), "{failed}");
        assert_eq!(
            fs::read_to_string(place.join("zpool")).expect("back"),
            "the other"
        );
        assert!(!is_there(&place.join("cenote")));
        // A link that now leads elsewhere is not removed.
        symlink("/elsewhere", place.join("cenote")).expect("a link");
        assert_eq!(undo(place, &program), Ok(Vec::new()));
    }
}
