//! A daemon that died: what it had, and what to say of that.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote_control::record::{DaemonRecord, Loss, RecordedPool, boot_id};
use jiff::tz::TimeZone;

use crate::format::date::{Form, date};
use crate::places::Places;
use crate::texts::harmless;

/// Mounts that are named.
const MOUNTS_MAX: usize = 8;
/// Daemons in a row that died young: the next is not started without being asked for.
const SHORT_LIVES_MAX: u32 = 2;
/// How long a process that has closed its connections may take to end.
const END_WAIT: Duration = Duration::from_millis(500);

/// What a daemon that died had.
#[derive(Clone, Debug)]
pub struct Death {
    /// Its pools.
    pub loss: Loss,
    /// Another daemon runs since, and has not imported them.
    pub is_replaced: bool,
}

/// The record of the daemon on a socket; one that cannot be read counts as none.
fn record(socket: &Path) -> Option<DaemonRecord> {
    let places = Places::of_socket(socket);
    DaemonRecord::load(&places.record?, places.owner).ok()?
}

/// Whether the daemon of a socket died; for whoever could not reach one.
pub fn of_socket(socket: &Path) -> Option<Death> {
    let record = record(socket)?;
    // One that lives and cannot be reached is another matter.
    let loss = match record.is_alive() {
        true => return None,
        false => record.into_loss()?,
    };
    Some(Death {
        loss,
        is_replaced: false,
    })
}

/// The same, for whoever has just lost the connection to it.
pub fn just_now(socket: &Path) -> Option<Death> {
    let deadline = Instant::now() + END_WAIT;
    loop {
        let record = record(socket)?;
        if !record.is_alive() || Instant::now() > deadline {
            return of_socket(socket);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the daemon before the one that runs had, and this one has not imported.
pub fn before_this(socket: &Path) -> Option<Death> {
    let loss = record(socket)?.lost?;
    Some(Death {
        loss,
        is_replaced: true,
    })
}

impl Death {
    /// Whether a command that needs its pools may import them again without being asked.
    ///
    /// Not after the machine was started anew, which is for its services to say, and not when
    /// daemons die of it.
    pub fn may_resume(&self) -> bool {
        !self.is_replaced && self.is_of_this_boot() && self.loss.short_lives <= SHORT_LIVES_MAX
    }

    /// Whether the machine was not started anew since.
    pub fn is_of_this_boot(&self) -> bool {
        self.loss.boot == boot_id()
    }

    /// Whether a name of a pool or dataset is, or is in, one of its pools.
    pub fn concerns(&self, name: &str) -> bool {
        let pool = name.split(['/', '@', '#']).next();
        self.loss.pools.iter().any(|lost| pool == Some(&lost.name))
    }

    /// What to say.
    pub fn text(&self) -> String {
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        let when = date(self.loss.seen, Form::Ctime, &zone);
        let names: Vec<&str> = self
            .loss
            .pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect();
        let names = names.join(", ");
        let pid = self.loss.pid;
        let mut text = match (self.is_replaced, self.is_of_this_boot()) {
            (false, true) => format!("the Cenote daemon (process {pid}) died"),
            (true, true) => format!("an earlier Cenote daemon (process {pid}) died"),
            (_, false) => "the machine went down while the Cenote daemon ran".to_owned(),
        };
        text.push_str(&format!("; it was last seen alive at {when}.\n"));
        text.push_str(&format!(
            "It had imported: {names}. Nobody has these pools now.\n"
        ));
        let places: Vec<&str> = self.loss.pools.iter().flat_map(places_of).collect();
        if !places.is_empty() && self.is_of_this_boot() {
            let shown = places.iter().take(MOUNTS_MAX).copied().collect::<Vec<_>>();
            let more = places.len() - shown.len();
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text.push_str(&format!(
                "Its mounts do not answer: {}{more}.\n",
                shown.join(", ")
            ));
        }
        if self.loss.short_lives > SHORT_LIVES_MAX {
            let lives = self.loss.short_lives;
            text.push_str(&format!(
                "{lives} daemons in a row died within minutes: 'cenote daemon log' may say why.\n"
            ));
        }
        text.push_str(
            "Run 'cenote daemon resume' to import and mount them again, or 'cenote daemon forget'\n\
             if they are not wanted any more.",
        );
        harmless(&text).into_owned()
    }
}

fn places_of(pool: &RecordedPool) -> impl Iterator<Item = &str> {
    pool.mounts.iter().map(|mount| mount.place.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{ImportOptions, MountOptions};
    use cenote_control::record::RecordedMount;

    fn death(boot: String, mounts: usize) -> Death {
        let mount = |number: usize| RecordedMount {
            dataset: format!("tank/{number}"),
            place: format!("/tank/{number}"),
            own_place: true,
            options: MountOptions::default(),
        };
        let pool = RecordedPool {
            name: "tank".to_owned(),
            guid: 7,
            devices: vec!["/d/0.img".to_owned()],
            offset: 0,
            options: ImportOptions::default(),
            lasting: true,
            mounts: (0..mounts).map(mount).collect(),
        };
        let loss = Loss {
            pid: 42,
            boot,
            seen: 1_700_000_000,
            short_lives: 1,
            pools: vec![pool],
        };
        Death {
            loss,
            is_replaced: false,
        }
    }

    #[test]
    fn the_text_says_who_when_what_and_how_to_go_on() {
        let dead = death(boot_id(), 10);
        let text = dead.text();
        assert!(
            text.starts_with("the Cenote daemon (process 42) died; it was last"),
            "{text}"
        );
        assert!(text.contains("It had imported: tank."), "{text}");
        assert!(text.contains("/tank/7 and 2 more."), "{text}");
        assert!(text.contains("cenote daemon resume"), "{text}");
        assert!(dead.may_resume() && dead.concerns("tank/a@b") && !dead.concerns("tan"));
    }

    #[test]
    fn after_a_start_of_the_machine_and_after_many_deaths_nothing_goes_by_itself() {
        let dead = death("before".to_owned(), 1);
        assert!(!dead.may_resume());
        let text = dead.text();
        assert!(text.starts_with("the machine went down"), "{text}");
        assert!(!text.contains("do not answer"), "{text}");
        let mut dead = death(boot_id(), 1);
        dead.loss.short_lives = SHORT_LIVES_MAX + 1;
        assert!(!dead.may_resume());
        assert!(dead.text().contains("3 daemons in a row"));
    }
}
