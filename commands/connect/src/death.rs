//! A daemon that died: what it had imported, and the messages about it.
//!
//! Its record lists its pools (`cenote_control::record`). Without a readable record, other traces
//! count. A socket without a server was left by a daemon that did not shut down properly. A mount
//! that does not respond was left by a daemon that died. What these traces do not show is reported
//! as unknown.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use cenote_control::protocol::is_socket;
use cenote_control::record::{
    DaemonRecord, FailedImport, Loss, RecordedPool, Unreadable, boot_id, set_aside,
};
use jiff::tz::TimeZone;

use crate::places::Places;
use cenote_words::format::date::{Form, date};
use cenote_words::format::harmless::harmless;

/// The number of mounts that a message lists.
const MOUNTS_MAX: usize = 8;
/// After this many short-lived daemons in a row, the next one starts only if the user asks for it.
const SHORT_LIVES_MAX: u32 = 2;
/// How long a process may take to exit after it closed its connections.
const END_WAIT: Duration = Duration::from_millis(500);
/// How long the kernel may take to free the memory and files of a killed process.
const DYING_WAIT: Duration = Duration::from_secs(30);
/// How long a starting daemon may take to write its note, once its socket exists.
const NOTE_WAIT: Duration = Duration::from_secs(2);

/// What to do if the pools are known.
const RESUME: &str = "\
Run 'cenote daemon resume' to import and mount them again, or 'cenote daemon forget'
if they are not wanted any more.";
/// What to do if the pools are unknown.
const LOOK: &str = "\
Run 'cenote daemon resume' to import the pools in the cache file, and 'zpool import'
for others. 'cenote unmount PLACE' takes dead mounts away, and 'cenote daemon forget'
this message.";

/// What a dead daemon had.
#[derive(Clone, Debug)]
pub struct Death {
    /// Its pools.
    pub loss: Loss,
    /// Another daemon has started since, and has not imported them.
    pub is_replaced: bool,
    /// Which imports of its pools have failed since.
    pub failed: Vec<FailedImport>,
}

/// What a starting daemon takes over from its predecessor.
#[derive(Debug, Default)]
pub struct Before {
    /// What the predecessor had, if it died.
    pub lost: Option<Loss>,
    /// The pools that it exported when it was stopped, since the machine booted.
    pub stopped: Vec<RecordedPool>,
    /// Which imports failed.
    pub failed: Vec<FailedImport>,
}

/// The record of the daemon on a socket.
pub fn record(socket: &Path) -> Result<Option<DaemonRecord>, Unreadable> {
    let places = Places::of_socket(socket);
    DaemonRecord::find(places.record.as_deref(), socket, places.owner)
}

/// Whether the daemon of a socket died, for clients that could not connect.
pub fn of_socket(socket: &Path) -> Option<Death> {
    let record = ended_record(socket);
    // A live daemon that refuses connections has not died.
    if matches!(&record, Ok(Some(record)) if record.is_alive()) {
        return None;
    }
    let is_own = is_default_socket();
    let has_left_socket = is_socket(socket);
    let failed = failed_of(&record);
    let loss = loss_of(record, socket, has_left_socket, is_own || has_left_socket)?;
    Some(Death {
        loss,
        is_replaced: false,
        failed,
    })
}

/// The failed imports in a record.
fn failed_of(record: &Result<Option<DaemonRecord>, Unreadable>) -> Vec<FailedImport> {
    match record {
        Ok(Some(record)) => record.failed.clone(),
        _ => Vec::new(),
    }
}

/// The record, once the daemon is not exiting any more: until it has exited, it still holds its
/// pools.
fn ended_record(socket: &Path) -> Result<Option<DaemonRecord>, Unreadable> {
    let deadline = Instant::now() + DYING_WAIT;
    loop {
        let record = record(socket);
        let is_ending = matches!(&record, Ok(Some(record)) if record.is_ending());
        if !is_ending || Instant::now() > deadline {
            return record;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the socket is the default one.
fn is_default_socket() -> bool {
    std::env::var_os("CENOTE_SOCKET").is_none_or(|socket| socket.is_empty())
}

/// What a daemon that starts on a socket takes over; `took_over` says that the socket existed.
///
/// An unreadable record is moved aside, so that people can inspect it.
pub fn found_at_start(socket: &Path, took_over: bool) -> Before {
    let record = record(socket);
    let failed = failed_of(&record);
    let stopped = match &record {
        Ok(Some(record)) if record.boot == boot_id() => record.stopped.clone(),
        _ => Vec::new(),
    };
    let unreadable = record.as_ref().err().map(|error| error.path.clone());
    // Called before this daemon writes its note, so the note is the predecessor's.
    let loss = loss_of(record, socket, took_over, took_over);
    if let Some(path) = unreadable {
        match set_aside(&path) {
            Ok(aside) => log::error!("{} is now {}", path.display(), aside.display()),
            Err(error) => log::error!("{} stays there: {error}", path.display()),
        }
    }
    Before {
        lost: loss,
        stopped,
        failed,
    }
}

/// What was lost with a dead daemon.
fn loss_of(
    record: Result<Option<DaemonRecord>, Unreadable>,
    socket: &Path,
    has_left_socket: bool,
    looks_for_mounts: bool,
) -> Option<Loss> {
    let has_record = !matches!(record, Ok(None));
    let loss = match record {
        Ok(Some(record)) => record.into_loss(),
        Ok(None) if has_left_socket => without_record(socket).map(Loss::unknown),
        Ok(None) => None,
        Err(error) => Some(Loss::unknown(error.to_string())),
    };
    let mut loss = loss.unwrap_or_else(|| Loss {
        unknown: None,
        ..Loss::unknown(String::new())
    });
    if loss.boot != boot_id() {
        // The other pools were not meant to be imported at boot.
        loss.pools.retain(|pool| pool.lasting);
    }
    match has_record && loss.unknown.is_none() {
        // The record lists the mounts.
        true => retain_dead(&mut loss.dead_mounts),
        false if looks_for_mounts => loss.dead_mounts = unclaimed_dead_mounts(socket, &loss),
        false => {}
    }
    Some(loss).filter(|loss| !loss.is_empty())
}

/// If a dead daemon left its socket but no record: why its pools are unknown. `None` if it had
/// none.
///
/// A daemon leaves a note beside its socket that names its record. It removes the note while it can
/// write no record anywhere.
fn without_record(socket: &Path) -> Option<String> {
    let socket_name = socket.display();
    // A starting daemon creates its socket a moment before its note.
    let deadline = Instant::now() + NOTE_WAIT;
    while Places::noted(socket).is_none() && is_socket(socket) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    match Places::noted(socket) {
        None if !is_socket(socket) => None,
        Some(Places {
            record: Some(_), ..
        }) => None,
        Some(_) => Some(format!(
            "{socket_name} was left by a daemon that kept no record, as it had no state directory"
        )),
        None => Some(format!(
            "{socket_name} was left by a daemon that could not write down what it had imported"
        )),
    }
}

/// Dead mounts of this user that are in no other daemon's record.
fn unclaimed_dead_mounts(socket: &Path, loss: &Loss) -> Vec<String> {
    let user = rustix::process::geteuid().as_raw();
    let Ok(dead) = cenote_fuse::stale_mounts(user) else {
        return Vec::new();
    };
    let mut dead: Vec<String> = dead
        .into_iter()
        .map(|place| place.to_string_lossy().into_owned())
        .collect();
    if dead.is_empty() {
        return dead;
    }
    let places = Places::of_socket(socket);
    let directory = places.record.as_deref().and_then(Path::parent);
    let files = directory.and_then(|directory| std::fs::read_dir(directory).ok());
    let files = files.into_iter().flatten().flatten();
    let records = files.filter_map(|file| DaemonRecord::load(&file.path(), None).ok()?);
    let others: Vec<RecordedPool> = records
        .filter(|record| Path::new(&record.socket) != socket)
        .flat_map(|record| record.pools)
        .collect();
    let mut claimed = others.iter().chain(&loss.pools).flat_map(places_of);
    let claimed: HashSet<&str> = claimed.by_ref().collect();
    dead.retain(|place| !claimed.contains(place.as_str()));
    // A daemon with its own socket that named its record and left none, presumably had no pools.
    // Dead mounts elsewhere more likely belong to another daemon.
    if !is_default_socket() && loss.unknown.is_none() {
        let directory = socket.parent().unwrap_or(socket);
        dead.retain(|place| Path::new(place).starts_with(directory));
    }
    dead.dedup();
    dead
}

/// Removes mounts that respond again, or are gone.
fn retain_dead(places: &mut Vec<String>) {
    if places.is_empty() {
        return;
    }
    let user = rustix::process::geteuid().as_raw();
    // If the mounts cannot be checked, trust the record.
    if let Ok(dead) = cenote_fuse::stale_mounts(user) {
        places.retain(|place| dead.iter().any(|dead| dead == Path::new(place)));
    }
}

/// The same, for a client that has just lost its connection.
pub fn just_now(socket: &Path) -> Option<Death> {
    let deadline = Instant::now() + END_WAIT;
    loop {
        match record(socket) {
            Ok(Some(record)) if record.is_alive() && Instant::now() <= deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            // The daemon may have shut down as requested.
            Ok(None) if !is_socket(socket) => return None,
            _ => return of_socket(socket),
        }
    }
}

/// What the running daemon's predecessor had, if the running one has not imported it.
pub fn before_this(socket: &Path) -> Option<Death> {
    let record = record(socket);
    let failed = failed_of(&record);
    let mut loss = match record {
        Ok(record) => record?.lost?,
        Err(error) => Loss::unknown(error.to_string()),
    };
    retain_dead(&mut loss.dead_mounts);
    Some(loss)
        .filter(|loss| !loss.is_empty())
        .map(|loss| Death {
            loss,
            is_replaced: true,
            failed,
        })
}

impl Death {
    /// Whether a command that needs its pools may import them without being asked.
    ///
    /// Not after a reboot, because that is the task of the machine's services. And not if several
    /// daemons have died soon after such an import.
    pub fn may_resume(&self) -> bool {
        let is_known = !self.loss.pools.is_empty();
        let is_young = self.is_of_this_boot() && self.loss.short_lives <= SHORT_LIVES_MAX;
        !self.is_replaced && is_known && is_young
    }

    /// Whether the machine has not rebooted since.
    pub fn is_of_this_boot(&self) -> bool {
        self.loss.boot == boot_id()
    }

    /// Whether the name of a pool or dataset belongs to one of its pools.
    pub fn concerns(&self, name: &str) -> bool {
        let pool = name.split(['/', '@', '#']).next();
        self.loss.pools.iter().any(|lost| pool == Some(&lost.name))
    }

    /// The message.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.loss.pools.is_empty() {
            self.say_pools(&mut text);
        }
        if let Some(reason) = &self.loss.unknown {
            text.push_str(&format!(
                "whether a Cenote daemon died with pools imported is unknown:\n{reason}.\n"
            ));
        }
        self.say_failures(&mut text);
        let recorded = self.loss.pools.iter().flat_map(places_of);
        let dead = self.loss.dead_mounts.iter().map(String::as_str);
        let places: Vec<&str> = recorded.chain(dead).collect();
        if !places.is_empty() && self.is_of_this_boot() {
            let shown = places.iter().take(MOUNTS_MAX).copied().collect::<Vec<_>>();
            let more = places.len() - shown.len();
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let whose = match self.loss.pools.is_empty() {
                true => "Mounts of a daemon that died do not answer",
                false => "Its mounts do not answer",
            };
            text.push_str(&format!("{whose}: {}{more}.\n", shown.join(", ")));
        }
        if self.loss.short_lives > SHORT_LIVES_MAX {
            let lives = self.loss.short_lives;
            text.push_str(&format!(
                "{lives} daemons in a row died within minutes: 'cenote daemon log' may say why.\n"
            ));
        }
        text.push_str(match self.loss.pools.is_empty() {
            false => RESUME,
            true => LOOK,
        });
        harmless(&text).into_owned()
    }

    /// Appends why some of its pools could not be imported again.
    fn say_failures(&self, text: &mut String) {
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        for pool in &self.loss.pools {
            let mut failed = self.failed.iter();
            if let Some(failed) = failed.find(|failed| failed.guid == pool.guid) {
                let when = date(failed.tried, Form::Ctime, &zone);
                let (name, reason) = (&pool.name, &failed.reason);
                text.push_str(&format!(
                    "The import of {name} failed at {when}: {reason}.\n"
                ));
            }
        }
    }

    /// Appends which pools the daemon had.
    fn say_pools(&self, text: &mut String) {
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
        if self.loss.is_restart {
            text.push_str(&format!(
                "the Cenote daemon (process {pid}) was stopped to be restarted, and these of its\n\
                 pools are not imported again: {names}.\n"
            ));
            return;
        }
        text.push_str(&match (self.is_replaced, self.is_of_this_boot()) {
            (false, true) => format!("the Cenote daemon (process {pid}) died"),
            (true, true) => format!("an earlier Cenote daemon (process {pid}) died"),
            (_, false) => "the machine went down while the Cenote daemon ran".to_owned(),
        });
        text.push_str(&format!("; it was last seen alive at {when}.\n"));
        text.push_str(&format!(
            "It had imported: {names}. They are not imported now.\n"
        ));
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
            mounts_changed: false,
            exports: Vec::new(),
            sites: Vec::new(),
        };
        let loss = Loss {
            pid: 42,
            boot,
            seen: 1_700_000_000,
            short_lives: 1,
            pools: vec![pool],
            unknown: None,
            dead_mounts: Vec::new(),
            is_restart: false,
        };
        Death {
            loss,
            is_replaced: false,
            failed: Vec::new(),
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
    fn what_is_not_known_is_said_to_be_unknown() {
        let mut loss = Loss::unknown("/r.json cannot be read: it is empty".to_owned());
        loss.dead_mounts = vec!["/a".to_owned()];
        let dead = Death {
            loss,
            is_replaced: false,
            failed: Vec::new(),
        };
        let text = dead.text();
        for word in ["is unknown", "/r.json", "do not answer: /a", "forget"] {
            assert!(text.contains(word), "no '{word}' in {text}");
        }
        assert!(!text.contains("It had imported"), "{text}");
        assert!(!dead.may_resume());
    }

    /// A daemon that can write no record leaves only its socket.
    #[test]
    fn a_socket_without_note_and_record_is_a_death() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&socket).expect("bound"));
        let reason = without_record(&socket).expect("nothing is known");
        assert!(reason.contains("could not write down"), "{reason}");
        let note = cenote_control::protocol::note_path(&socket);
        let mut places = Places::of_process(&socket);
        places.record = Some(directory.path().join("r.json"));
        std::fs::write(&note, places.note()).expect("written");
        assert_eq!(without_record(&socket), None, "it had nothing");
        places.record = None;
        std::fs::write(&note, places.note()).expect("written");
        let reason = without_record(&socket).expect("nothing is known");
        assert!(reason.contains("no state directory"), "{reason}");
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
