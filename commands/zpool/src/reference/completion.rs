//! Completion of command lines, with the canned pool behind it.

use super::Canned;
use cenote_control::model::{Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};
use cenote_words::command::Table;
use cenote_words::completion::complete;
use cenote_words::context::Daemon;
use cenote_words::testing::ran;
use cenote_zfs_commands::{mount_helper, zfs};
use std::ffi::OsString;

const TABLE: Table = Table {
    own: &[],
    programs: &[&crate::PROGRAM, &zfs::PROGRAM],
    others: &[&mount_helper::OTHER],
};

fn found_by(daemon: impl Daemon + 'static, line: &str) -> Vec<String> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let found = ran(daemon, |context| complete(&TABLE, &words, context));
    let name = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    found.out.lines().map(name).collect()
}

fn found(line: &str) -> Vec<String> {
    found_by(Canned::tank(), line)
}

/// Completes the text after the last space.
#[test]
fn commands_and_options_come_from_the_tables() {
    assert_eq!(found("zpool sc"), ["scrub"]);
    assert_eq!(found("zfs rec"), ["receive", "recv"]);
    assert_eq!(found("/usr/sbin/zpool stat"), ["status"]);
    assert_eq!(found("cenote zpool stat"), ["status"]);
    assert!(found("zpool create -").contains(&"-O".to_owned()));
    assert_eq!(found("zfs send --repl"), ["--replicate"]);
    assert_eq!(found("zpool help imp"), ["import"]);
    assert!(found("zpool nonsense ").is_empty() && found("zpool").is_empty());
}

#[test]
fn names_come_from_the_daemon() {
    assert_eq!(found("zpool scrub "), ["tank"]);
    assert_eq!(found("zpool scrub -w ta"), ["tank"]);
    assert!(found("zfs list tank/f").contains(&"tank/fs".to_owned()));
    assert!(found("zfs destroy tank/fs@a").contains(&"tank/fs@a2".to_owned()));
    // Only snapshots can be rolled back to, so the dataset is not the end of the word.
    assert!(found("zfs rollback tank/f").contains(&"tank/fs@".to_owned()));
    assert!(found("zfs snapshot tank/f").contains(&"tank/fs@".to_owned()));
    assert!(found("zfs destroy tank/fs#").contains(&"tank/fs#bm".to_owned()));
    assert!(
        found("zpool offline tank /")
            .iter()
            .any(|name| name.starts_with("/tmp/"))
    );
}

#[test]
fn properties_have_their_values_and_lists_their_parts() {
    assert_eq!(found("zfs set compressio"), ["compression="]);
    assert!(found("zfs set sync=").contains(&"sync=always".to_owned()));
    assert_eq!(found("zfs get compressr"), ["compressratio"]);
    assert_eq!(found("zfs get used,compressr"), ["used,compressratio"]);
    assert_eq!(found("zpool create -O xatt"), ["xattr="]);
    assert_eq!(found("zpool create -o autotr"), ["autotrim="]);
    assert_eq!(
        found("zpool set autotrim=o"),
        ["autotrim=off", "autotrim=on"]
    );
    assert_eq!(
        found("zfs list -t filesystem,snap"),
        ["filesystem,snapshot"]
    );
    assert_eq!(found("zpool wait -t resil"), ["resilver"]);
}

#[test]
fn verbs_and_files() {
    assert!(found("zpool create new mirr").contains(&"mirror".to_owned()));
    assert!(found("zpool create new mirr").contains(&":files".to_owned()));
    assert_eq!(found("zpool create -R /m"), [":directories"]);
    // Finding importable pools would need a search of all devices.
    assert!(found("zpool import ").is_empty());
}

/// Previously, `compression=gzip-[1-9]` was offered, which is not a value.
#[test]
fn values_are_spelled_out() {
    let all = found("zfs set compression=");
    assert_eq!(all.len(), 8 + 9 + 19 + 21, "{all:?}");
    for word in ["gzip-9", "zstd-19", "zstd-fast-1000"] {
        assert!(all.contains(&format!("compression={word}")), "{word}");
    }
    assert_eq!(
        found("zfs set dedup=sha5"),
        ["dedup=sha512", "dedup=sha512,verify"]
    );
    assert_eq!(found("zfs create -o dedup=edonr,"), ["dedup=edonr,verify"]);
    assert_eq!(found("zpool set feature@lz"), ["feature@lz4_compress="]);
    assert_eq!(
        found("zpool set feature@lz4_compress=e"),
        ["feature@lz4_compress=enabled"]
    );
    assert_eq!(found("zpool get feature@lz"), ["feature@lz4_compress"]);
}

/// Every offered value is valid: forms for several values are expanded.
#[test]
fn no_form_is_offered_as_a_word() {
    use cenote_control::model::properties::{DATASET, POOL};
    for (program, table) in [("zfs", DATASET), ("zpool", POOL)] {
        for info in table {
            for word in found(&format!("{program} set {}=", info.name)) {
                assert!(!word.contains(['[', ']', '<', '|']), "{word}");
            }
        }
    }
}

/// No daemon runs, and completion must not start one.
struct Nobody;

impl Daemon for Nobody {
    fn call(
        &mut self,
        _request: Request,
        _on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        Err(CallError::NotRunning)
    }
}

#[test]
fn nothing_is_said_where_nobody_answers() {
    assert!(found_by(Nobody, "zpool scrub ").is_empty());
    assert!(found_by(Nobody, "zfs set sync=on ta").is_empty());
    assert_eq!(found_by(Nobody, "zpool off"), ["offline"]);
}
