//! Messages about pools that should be imported and are not.

use cenote_control::model::{MissingPool, shell_word};
use jiff::tz::TimeZone;

use crate::format::date::{Form, date};
use crate::format::harmless::harmless;

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

/// Why a pool is missing and what to do, in one paragraph.
pub fn text(pool: &MissingPool, zone: &TimeZone) -> String {
    format!(
        "pool '{}' should be imported, and is not: {}.\nWhat to do: {}.",
        pool.name,
        why(pool, zone),
        advice(pool)
    )
}
