//! Pools that should be imported, and are not: what to say of them.
//!
//! A daemon that runs knows them (`cenote_engine::missing`). Without one its record and the cache
//! file tell the same.

use std::path::Path;

use cenote_control::model::{MissingPool, shell_word};
use cenote_control::record::{DaemonRecord, boot_id};
use cenote_engine::cached_pools;
use jiff::tz::TimeZone;

use crate::death;
use crate::format::date::{Form, date};
use crate::format::harmless::harmless;
use crate::places::Places;

/// The pools that a daemon on this socket, which does not run, would have.
pub fn of_files(socket: &Path) -> Vec<MissingPool> {
    let places = Places::of_socket(socket);
    let cached = places.cache_file.as_deref();
    let cached = cached.and_then(|file| cached_pools(file, socket).ok());
    // What cannot be read is reported by `resume`, and by whoever looks for a daemon that died.
    let record = death::record(socket).ok().flatten();
    let mut record = record.unwrap_or_else(|| DaemonRecord::of_this_process(socket, 0));
    if record.boot != boot_id() {
        record.stopped.clear();
    }
    let mut missing = cenote_engine::missing(&record, &cached.unwrap_or_default(), |_| false);
    for pool in &mut missing {
        // Nobody is there to try again.
        pool.may_come = false;
    }
    missing
}

/// Why a pool is missing.
pub fn why(pool: &MissingPool, zone: &TimeZone) -> String {
    let text = match pool.tried {
        Some(tried) => format!(
            "{} (last tried at {})",
            pool.reason,
            date(tried, Form::Ctime, zone)
        ),
        None => "nothing has tried to import it since the machine or its daemon started".to_owned(),
    };
    harmless(&text).into_owned()
}

/// What to do about it.
pub fn advice(pool: &MissingPool) -> String {
    let by_itself = match pool.may_come {
        true => "the daemon imports it when its devices appear; or ",
        false => "",
    };
    let correct = match pool.tried {
        Some(_) => "correct that and ",
        None => "",
    };
    format!(
        "{by_itself}{correct}run 'cenote daemon resume'; if the pool is not wanted here any more, \
         'cenote daemon forget {}'",
        shell_word(&pool.name)
    )
}

/// The same in one paragraph.
pub fn text(pool: &MissingPool, zone: &TimeZone) -> String {
    format!(
        "pool '{}' should be imported, and is not: {}.\nWhat to do: {}.",
        pool.name,
        why(pool, zone),
        advice(pool)
    )
}
