//! `mount.zfs`, the helper for `mount -t zfs DATASET DIRECTORY` and lines of `/etc/fstab`.
//!
//! Options, texts and exit codes are those of OpenZFS's helper (cli/contract.md 5), as observed in
//! 2.3.2. The only difference is that errors name what failed and where.

use cenote_control::model::{
    ControlError, DatasetKind, MountOptions, PoolRow, PropertySelection, Request, Response, Vdev,
};

use crate::zfs;
use cenote_words::command::{Flag, Other, flags};
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::getopt::{OptionError, parse};
use cenote_words::manual::{Page, Roff, examples_section, options};
use std::path::Path;

/// The name under which mount(8) calls it.
pub const NAME: &str = "mount.zfs";
/// The name for `mount -o remount`, which uses the type that the kernel reports.
pub const NAME_BY_TYPE: &str = "mount.fuse.cenote";

/// The description.
pub const OTHER: Other = Other {
    name: NAME,
    alias: NAME_BY_TYPE,
    topics: &[],
    page,
};

/// Its manual section.
const SECTION: u8 = 8;

/// What `-h` prints.
const SYNOPSIS: &str = "Usage: mount.zfs [-sfnvh] [-o options] <dataset> <mountpoint>";
/// Its options. mount(8) repeats the type with `-t` if that contains a dot.
const FLAGS: &[Flag] = flags! {
    'o' "" "OPTION[,...]" "Mount options: ro, noatime, nosuid, ...";
    's' "" _ "Ignore mount options that are unknown.";
    'f' "" _ "Only check; mount nothing.";
    'n' "" _ "Accepted; there is no /etc/mtab to write to.";
    'v' "" _ "Print what is mounted where.";
    'h' "" _ "Print the synopsis.";
    't' "" "TYPE" "" hidden;
};

const OPERANDS: &str = "usage: mount <dataset> <mountpoint>";

/// mount(8)'s exit code for a system failure, as opposed to a usage error.
const SYSTEM_FAILURE: u8 = 2;

/// Options in `/etc/fstab` for its readers, such as mount(8) and systemd; the file system ignores
/// them.
const WORDS_OF_TABLE: [&str; 9] = [
    "_netdev", "auto", "group", "noauto", "nofail", "nouser", "owner", "user", "users",
];

const WORDS_OF_FUSE: [&str; 6] = [
    "allow_other",
    "blksize",
    "default_permissions",
    "group_id",
    "max_read",
    "user_id",
];

/// Mounts a file system with `mountpoint=legacy`, or a snapshot.
pub fn run(arguments: &[String], context: &mut Context) -> u8 {
    match mount(arguments, context) {
        Ok(code) | Err(Stop::Code(code)) => code,
        Err(Stop::Usage(message) | Stop::Failed(message)) => {
            context.complain(&message);
            1
        }
    }
}

fn mount(arguments: &[String], context: &mut Context) -> Outcome {
    let mut options = arguments.iter().take_while(|word| *word != "--");
    if options.any(|word| word == "--help" || word == "-?") {
        context.line(SYNOPSIS);
        return Ok(0);
    }
    let parsed = match parse(FLAGS, arguments) {
        Ok(parsed) => parsed,
        Err(OptionError::Invalid(letter)) => {
            return failed(format!("Invalid option '{letter}'\n{SYNOPSIS}"));
        }
        Err(error) => return failed(format!("{error}\n{SYNOPSIS}")),
    };
    if parsed.has("h") {
        context.line(SYNOPSIS);
        return Ok(0);
    }
    let (name, directory) = match parsed.operands.as_slice() {
        [] => return failed(format!("missing dataset argument\n{OPERANDS}")),
        [_] => return failed(format!("missing mountpoint argument\n{OPERANDS}")),
        [name, directory] => (dataset_of(name, context), directory.as_str()),
        _ => return failed(format!("too many arguments\n{OPERANDS}")),
    };
    let name = name.as_str();
    let given = parsed.all("o").flat_map(|list| list.split(','));
    let options: Vec<String> = given
        .filter(|word| !is_for_table(word) && !is_of_fuse(word))
        .map(str::to_owned)
        .collect();
    let at = match std::fs::canonicalize(context.directory.join(directory)) {
        Ok(at) => at.to_string_lossy().into_owned(),
        Err(error) => {
            let reason = zfs::reason(&error);
            context.complain(&format!(
                "filesystem '{name}' cannot be mounted at '{directory}' due to \
                 canonicalization error: {reason}"
            ));
            return Ok(SYSTEM_FAILURE);
        }
    };
    let dataset = match zfs::mountable(name, context) {
        Ok(dataset) => dataset,
        Err(error @ ControlError::Unreachable { .. }) => return failed(error.to_string()),
        Err(_) => {
            return failed(format!(
                "filesystem '{name}' cannot be mounted, unable to open the dataset"
            ));
        }
    };
    let is_asked_by_zfs = options.iter().any(|word| word == "zfsutil");
    let is_allowed = is_asked_by_zfs || options.iter().any(|word| word == "remount");
    if dataset.kind == DatasetKind::Filesystem && !is_allowed && !zfs::is_legacy(&dataset) {
        return failed(format!(
            "filesystem '{name}' cannot be mounted using 'mount'.\n\
             Use 'zfs set mountpoint=legacy' or 'zfs mount {name}'.\n\
             See zfs(8) for more information."
        ));
    }
    if parsed.has("v") {
        context.line(&format!(
            "{NAME}:\n  dataset:    \"{name}\"\n  mountpoint: \"{at}\"\n  mountopts:  \"{}\"",
            options.join(",")
        ));
    }
    if parsed.has("f") {
        return Ok(0);
    }
    mount_at(name, &at, options, parsed.has("s"), context)
}

/// The dataset to mount: the root file system of a pool if a device of the pool is named.
fn dataset_of(name: &str, context: &mut Context) -> String {
    let own = || name.to_owned();
    // Names of datasets have no leading slash.
    let device = match std::fs::canonicalize(name) {
        Ok(device) if name.starts_with('/') => device,
        _ => return own(),
    };
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let Ok(Response::Pools { pools, .. }) = context.ask(request) else {
        return own();
    };
    let has = |row: &&PoolRow| {
        let tree = row.vdevs.as_ref();
        tree.is_some_and(|tree| has_device(&tree.root, &device))
    };
    pools
        .iter()
        .find(has)
        .map_or_else(own, |row| row.name.clone())
}

/// Whether a vdev or one below it is this device.
fn has_device(root: &Vdev, device: &Path) -> bool {
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        let path = vdev.path.as_ref();
        let place = path.and_then(|path| std::fs::canonicalize(path).ok());
        if vdev.kind.is_leaf() && place.as_deref() == Some(device) {
            return true;
        }
        stack.extend(&vdev.children);
    }
    false
}

fn is_for_table(word: &str) -> bool {
    WORDS_OF_TABLE.contains(&word)
        || ["x-", "X-", "comment="]
            .iter()
            .any(|start| word.starts_with(start))
}

/// Options that the kernel reports for a FUSE mount, and that mount(8) passes to a remount.
fn is_of_fuse(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    WORDS_OF_FUSE.contains(&name)
}

/// Mounts the file system; with `is_sloppy` unknown options are ignored.
fn mount_at(
    name: &str,
    at: &str,
    mut options: Vec<String>,
    is_sloppy: bool,
    context: &mut Context,
) -> Outcome {
    loop {
        let request = Request::Mount {
            dataset: name.to_owned(),
            at: Some(at.to_owned()),
            options: MountOptions {
                options: options.clone(),
                // mount(8) mounts over existing contents.
                overlay: true,
                force: false,
            },
        };
        let error = match context.ask(request) {
            Ok(_) => return Ok(0),
            Err(error) => error,
        };
        let word = error.wrong_option();
        let unknown = word.and_then(|word| options.iter().position(|option| option == word));
        match unknown {
            Some(place) if is_sloppy => {
                options.remove(place);
            }
            Some(place) => {
                return failed(format!(
                    "filesystem '{name}' cannot be mounted due to invalid option '{}'.\n\
                     Use the '-s' option to ignore the bad mount option.",
                    options[place]
                ));
            }
            None => {
                context.complain(&format!(
                    "filesystem '{name}' cannot be mounted at '{at}': {error}"
                ));
                return Ok(SYSTEM_FAILURE);
            }
        }
    }
}

/// Its manual page.
fn page() -> Page {
    let name = NAME;
    let mut roff = Roff::new(name, SECTION, "mount a ZFS file system for mount(8)");
    roff.section("SYNOPSIS");
    roff.lines([SYNOPSIS.strip_prefix("Usage: ").unwrap_or(SYNOPSIS)]);
    roff.section("DESCRIPTION");
    roff.prose(
        "mount(8) calls this program for 'mount -t zfs' and for lines of /etc/fstab.\n\
         The file system must have mountpoint=legacy, or be a snapshot.\n\
         \n\
         A line of /etc/fstab:\n\
         \n\
         \x20 tank/home  /home  zfs  defaults,x-systemd.requires=zfs-import.target  0  0",
    );
    options(&mut roff, "OPTIONS", FLAGS);
    examples_section(&mut roff, name);
    roff.see_also(&[("mount".to_owned(), 8), ("zfs-mount".to_owned(), 8)]);
    Page {
        name: name.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_words::testing::faults_of_synopsis;

    #[test]
    fn the_synopsis_shows_the_options() {
        let faults = faults_of_synopsis(SYNOPSIS, FLAGS, true);
        assert!(faults.is_empty(), "{faults:?}");
    }
}
