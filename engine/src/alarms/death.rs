//! The alarm about a daemon that died.
//!
//! It cannot send one itself. The next one does, from the record that was left.

use super::alarm::{Alarm, AlarmKind, AlarmSeverity};
use crate::host::hostname;
use cenote_base::Env;
use cenote_control::model::Event;
use cenote_control::record::Loss;

/// Mounts that are listed.
const MOUNTS_MAX: usize = 20;

pub(crate) fn daemon_died(lost: &Loss, env: &dyn Env) -> Alarm {
    let now = env.wall_clock();
    let host = hostname();
    let names: Vec<&str> = lost.pools.iter().map(|pool| pool.name.as_str()).collect();
    let names = names.join(", ");
    let mounts: Vec<&str> = lost
        .pools
        .iter()
        .flat_map(|pool| pool.mounts.iter().map(|mount| mount.place.as_str()))
        .collect();
    let silence = now.as_secs().saturating_sub(lost.seen);
    let mut text = format!(
        "The Cenote daemon (process {}) ended without exporting its pools: it was killed, it\n\
         crashed, or the machine did. It was last seen alive {silence} seconds ago.\n\
         Pools that it had: {names}.\n",
        lost.pid
    );
    for place in mounts.iter().take(MOUNTS_MAX) {
        text.push_str(&format!("  mounted at {place}\n"));
    }
    if let Some(more) = mounts
        .len()
        .checked_sub(MOUNTS_MAX)
        .filter(|more| *more > 0)
    {
        text.push_str(&format!("  and {more} more mounts\n"));
    }
    text.push_str(
        "To do: run 'cenote daemon resume' to import and mount them again, unless a service does\n\
         that; 'cenote daemon log' shows the last messages.\n",
    );
    let class = "sysevent.fs.cenote.daemon_died";
    Alarm {
        kind: AlarmKind::Daemon,
        severity: AlarmSeverity::Danger,
        pool: String::new(),
        device: None,
        subject: format!("the daemon on {host} died with pools imported: {names}"),
        host,
        text,
        event: Event {
            class: class.to_owned(),
            seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
            details: vec![("class".to_owned(), format!("\"{class}\""))],
        },
        event_id: 0,
        lost: 0,
    }
}
