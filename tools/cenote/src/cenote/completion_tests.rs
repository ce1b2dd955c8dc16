//! Tests completion of our own commands; the crate of `zpool` and `zfs` has its own tests.

use super::TABLE;
use cenote_control::model::Part;
use cenote_control::model::{PoolHealth, PoolRow, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};
use cenote_words::completion::complete;
use cenote_words::context::Daemon;
use cenote_words::testing::ran;
use std::ffi::OsString;

/// A daemon with one pool, of which it knows only the name.
struct OnePool;

impl Daemon for OnePool {
    fn call(
        &mut self,
        request: Request,
        _on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        let Request::PoolList { .. } = request else {
            return Err(CallError::NotRunning);
        };
        let tank = PoolRow {
            name: "tank".to_owned(),
            guid: 1,
            txg: 1,
            version: 5000,
            health: PoolHealth::Online,
            properties: Vec::new(),
            vdevs: None,
        };
        Ok(Response::Pools {
            pools: vec![tank],
            failures: Vec::new(),
        })
    }
}

/// Completes the text after the last space.
fn found(line: &str) -> Vec<String> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let found = ran(OnePool, |context| complete(&TABLE, &words, context));
    let name = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    found.out.lines().map(name).collect()
}

#[test]
fn options_verbs_and_settings_come_from_the_tables() {
    assert_eq!(found("cenote verify --extr"), ["--extreme-rewind"]);
    assert_eq!(found("cenote verify --device=/tm"), [":files"]);
    assert_eq!(found("cenote daemon resu"), ["resume"]);
    assert_eq!(found("cenote cloud pri"), ["price"]);
    assert_eq!(found("cenote settings set zfs_arc_ma"), ["zfs_arc_max="]);
    assert_eq!(found("cenote settings get zfs_arc_ma"), ["zfs_arc_max"]);
    assert_eq!(found("zstream tok"), ["token"]);
    assert_eq!(found("zstream dump "), [":files"]);
    // Previously, files were offered after every word, and no options.
    assert_eq!(found("zstream dump -"), ["-v", "-d", "-C"]);
    assert!(found("zstream token ").is_empty());
    // A program without subcommands has its options at once.
    assert_eq!(found("zinject -d sda -A fault -")[..2], ["-a", "-A"]);
}

#[test]
fn names_come_from_the_daemon() {
    assert_eq!(found("cenote cloud price ta"), ["tank"]);
    assert_eq!(found("cenote zpool scrub "), ["tank"]);
}
