//! The alarms about a daemon: that one died, that its record cannot be written, and that a pool is
//! missing that should be imported.
//!
//! A daemon that died cannot send one itself. The next one does, from the record that was left.

use crate::alarm::{Alarm, AlarmKind, AlarmSeverity};
use cenote_base::{Env, hostname};
use cenote_control::model::{Event, MissingPool, shell_word};
use cenote_control::record::Loss;

/// Mounts that are listed.
const MOUNTS_MAX: usize = 20;

/// The alarm about what a daemon had that died.
pub fn daemon_died(lost: &Loss, env: &dyn Env) -> Alarm {
    let host = hostname();
    let names: Vec<&str> = lost.pools.iter().map(|pool| pool.name.as_str()).collect();
    let names = names.join(", ");
    let now = env.wall_clock().as_secs();
    let mut text = String::new();
    if !lost.pools.is_empty() {
        let silence = now.saturating_sub(lost.seen);
        text.push_str(&format!(
            "The Cenote daemon (process {}) ended without exporting its pools: it was killed, it\n\
             crashed, or the machine did. It was last seen alive {silence} seconds ago.\n\
             Pools that it had: {names}.\n",
            lost.pid
        ));
    }
    if let Some(reason) = &lost.unknown {
        text.push_str(&format!(
            "Whether an earlier Cenote daemon died with pools imported is unknown: {reason}.\n"
        ));
    }
    let recorded = lost.pools.iter().flat_map(|pool| &pool.mounts);
    let recorded = recorded.map(|mount| mount.place.as_str());
    let dead = lost.dead_mounts.iter().map(String::as_str);
    let mounts: Vec<&str> = recorded.chain(dead).collect();
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
    let subject = match lost.pools.is_empty() {
        false => format!("the daemon on {host} died with pools imported: {names}"),
        true => format!("a daemon on {host} died, and what it had imported is unknown"),
    };
    let severity = AlarmSeverity::Danger;
    about_daemon((subject, text), "daemon_died", severity, env)
}

/// The alarm about a record that cannot be written.
pub fn record_unwritable(failure: &str, env: &dyn Env) -> Alarm {
    let host = hostname();
    let text = format!(
        "The Cenote daemon cannot write down which pools it has imported: {failure}.\n\
         If the daemon dies now, 'cenote daemon resume' may not find its pools.\n\
         To do: make room in that directory, or make it writable for the daemon.\n"
    );
    let subject = format!("the daemon on {host} cannot write its record of imported pools");
    let severity = AlarmSeverity::Attention;
    about_daemon((subject, text), "daemon_record", severity, env)
}

/// The alarm about a pool that should be imported, and is not.
pub fn pool_missing(pool: &MissingPool, env: &dyn Env) -> Alarm {
    let host = hostname();
    let name = &pool.name;
    let again = match pool.may_come {
        true => "The daemon tries again by itself for a day, and when its devices appear.\n",
        false => "",
    };
    let text = format!(
        "The pool '{name}' (guid {}) should be imported on {host}, and is not: {}.\n{again}\
         To do: correct that, then run 'cenote daemon resume'. If the pool is not wanted here any\n\
         more, run 'cenote daemon forget {}'.\n",
        pool.guid,
        pool.reason,
        shell_word(name),
    );
    let subject = format!("pool '{name}' is missing on {host}: {}", pool.reason);
    let severity = AlarmSeverity::Danger;
    Alarm {
        pool: name.clone(),
        ..about_daemon((subject, text), "pool_missing", severity, env)
    }
}

fn about_daemon(
    (subject, text): (String, String),
    class: &str,
    severity: AlarmSeverity,
    env: &dyn Env,
) -> Alarm {
    let now = env.wall_clock();
    let class = format!("sysevent.fs.cenote.{class}");
    Alarm {
        kind: AlarmKind::Daemon,
        severity,
        pool: String::new(),
        device: None,
        subject,
        host: hostname(),
        text,
        event: Event {
            details: vec![("class".to_owned(), format!("\"{class}\""))],
            class,
            seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
        },
        event_id: 0,
        lost: 0,
    }
}
