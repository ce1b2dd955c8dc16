//! How zedlets are run.

use crate::directory::Sharing;
use crate::surroundings::Surroundings;
use crate::tell::Tell;
use cenote_control::model::Event;
use jiff::tz::TimeZone;
use std::path::PathBuf;
use std::time::Duration;

/// How many zedlets run at a time, as in OpenZFS.
pub(crate) const JOBS: usize = 16;

/// After this time a zedlet is killed.
const LIMIT: Duration = Duration::from_secs(300);

/// How zedlets are run.
pub struct Plan {
    /// Where they are.
    pub directory: PathBuf,
    /// What else may run those of this directory.
    pub sharing: Sharing,
    /// What is in their environment besides the event.
    pub surroundings: Surroundings,
    /// How many run at a time.
    pub jobs: usize,
    /// After this time one is killed.
    pub limit: Duration,
    /// The zone of times for people.
    pub zone: TimeZone,
    /// The log.
    pub tell: Tell,
    /// Called for each event when all its zedlets were started.
    pub handled: Box<dyn Fn(&Event) + Send>,
}

impl Plan {
    /// The defaults for this directory.
    pub fn new(directory: PathBuf, sharing: Sharing, surroundings: Surroundings) -> Self {
        Self {
            directory,
            sharing,
            surroundings,
            jobs: JOBS,
            limit: LIMIT,
            zone: TimeZone::try_system().unwrap_or(TimeZone::UTC),
            tell: |level, text| log::log!(level, "{text}"),
            handled: Box::new(|_| {}),
        }
    }
}
