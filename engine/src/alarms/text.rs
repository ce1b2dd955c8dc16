//! An alarm's words: what happened, the state of the pool, what to do.

use crate::devices::tree::{all_vdevs, vdev_tree};
use crate::registry::imported::Imported;
use cenote_alarms::{Alarm, AlarmKind, AlarmSeverity};
use cenote_control::model::{Event, Vdev, VdevNaming, VdevState, shell_word};

/// The most devices that are listed; `zpool status` shows the rest.
const DEVICES_MAX: usize = 20;

/// An alarm without the state of the pool, which is added later.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub kind: AlarmKind,
    pub severity: AlarmSeverity,
    pub pool: String,
    pub device: Option<String>,
    /// What happened: the end of a sentence about the pool.
    pub what: String,
    /// What to do; may be empty.
    pub advice: String,
    pub event: Event,
    pub event_id: u64,
}

/// What a device is called in messages: its path, also when it is not there.
pub(super) fn device_name(vdev: &Vdev) -> String {
    match &vdev.path {
        Some(path) => path.clone(),
        None => vdev.name(VdevNaming::default()),
    }
}

impl Draft {
    /// The message, with the present state of the pool.
    pub fn finish(self, imported: Option<&Imported>, host: &str) -> Alarm {
        let subject = format!("pool {} on {host}: {}", self.pool, self.what);
        let mut text = format!("Pool {}: {}.\n", self.pool, self.what);
        if !self.advice.is_empty() {
            text.push_str(&format!("To do: {}.\n", self.advice));
        }
        if let Some(imported) = imported {
            text.push('\n');
            text.push_str(&state_of(imported));
        }
        Alarm {
            kind: self.kind,
            severity: self.severity,
            pool: self.pool,
            device: self.device,
            host: host.to_owned(),
            subject,
            text,
            event: self.event,
            event_id: self.event_id,
            lost: 0,
        }
    }
}

/// The pool's state and every device that is not well.
fn state_of(imported: &Imported) -> String {
    let name = imported.name();
    let mut text = format!("State of the pool: {}\n", imported.health().word());
    let tree = vdev_tree(&imported.pool);
    let vdevs = all_vdevs(&tree);
    let leaves = vdevs.into_iter().filter(|vdev| vdev.kind.is_leaf());
    let ill: Vec<&Vdev> = leaves.filter(|vdev| is_ill(vdev)).collect();
    for vdev in ill.iter().take(DEVICES_MAX) {
        let counters = &vdev.counters;
        text.push_str(&format!(
            "  {}  {}  {} read, {} write, {} checksum errors\n",
            device_name(vdev),
            vdev.state.word(),
            counters.read_errors,
            counters.write_errors,
            counters.checksum_errors
        ));
    }
    if let Some(more) = ill.len().checked_sub(DEVICES_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("  and {more} more devices\n"));
    }
    let word = shell_word(name);
    let damaged = imported.pool.error_log().map_or(0, |log| log.len());
    if damaged > 0 {
        text.push_str(&format!(
            "Damaged blocks on record: {damaged}; 'zpool status -v {word}' names the files\n"
        ));
    }
    text.push_str(&format!("'cenote health {word}' tells more.\n"));
    text
}

fn is_ill(vdev: &Vdev) -> bool {
    let counters = &vdev.counters;
    let errors = counters.read_errors + counters.write_errors + counters.checksum_errors;
    vdev.state != VdevState::Online || errors > 0
}
