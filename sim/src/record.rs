//! The order of events: what reached the devices, and what was promised to which thread.
//!
//! A power cut is not simulated during a run. The run is recorded to its end. From the record
//! follows what the devices could hold after a cut at any place. So one run serves for many cuts,
//! and no thread must be stopped.

use std::collections::BTreeMap;

/// One event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A device was given bytes to write: from now on it may have some of them.
    Write {
        /// The device's number.
        disk: usize,
        /// Where, in bytes.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// A device answered a write; the bytes may be lost until it is flushed.
    Written {
        /// The place of its [`Event::Write`].
        since: usize,
    },
    /// A flush was requested. Writes acknowledged before it are safe at the matching
    /// [`Event::Flushed`].
    Flush {
        /// The device's number.
        disk: usize,
    },
    /// The flush requested at this place of the record is done.
    Flushed {
        /// The device's number.
        disk: usize,
        /// The place of its [`Event::Flush`].
        since: usize,
    },
    /// A file that outlives the daemon, as the machine keeps its power, has other contents.
    Kept {
        /// The file's number.
        file: u64,
        /// Its contents; `None` if it was removed.
        bytes: Option<Vec<u8>>,
    },
    /// A writer begins its operation with this number.
    Begun {
        /// The writer's number.
        writer: usize,
        /// The operation's.
        operation: usize,
    },
    /// A writer was promised that all of its operations up to this number last.
    Promised {
        /// The writer's number.
        writer: usize,
        /// Operations that last.
        operations: usize,
    },
    /// A writer was promised that what its operations up to this number did to names lasts, and
    /// to the contents of one file.
    PromisedFile {
        /// The writer's number.
        writer: usize,
        /// The file, by the writer's number; `None` if it was the directory.
        file: Option<u64>,
        /// Operations that last.
        operations: usize,
    },
}

/// All events since the recording began.
pub type Record = Vec<Event>;

/// How many operations of a writer last.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// At least, of all kinds.
    pub least: usize,
    /// At least, of those on names.
    pub names: usize,
    /// At least, of those on the contents of files that were synced alone.
    pub files: BTreeMap<u64, usize>,
    /// At most.
    pub most: usize,
}

impl Bounds {
    /// Adds the events before number `cut`. A record continues another one of the same writers.
    pub fn extend(bounds: &mut [Self], record: &[Event], cut: usize) {
        for event in &record[..cut] {
            match *event {
                Event::Begun { writer, operation } => bounds[writer].most = operation + 1,
                Event::Promised { writer, operations } => {
                    (bounds[writer].least, bounds[writer].names) = (operations, operations);
                    // The record may begin between two operations.
                    bounds[writer].most = bounds[writer].most.max(operations);
                }
                Event::PromisedFile {
                    writer,
                    file,
                    operations,
                } => {
                    bounds[writer].names = operations;
                    let file = file.map(|file| (file, operations));
                    bounds[writer].files.extend(file);
                }
                _ => {}
            }
        }
    }

    /// The same where nothing is promised.
    #[must_use]
    pub fn without_promises(&self) -> Self {
        Self {
            most: self.most,
            ..Self::default()
        }
    }

    /// How many of those on the contents of a file last at least.
    pub fn of_file(&self, file: u64) -> usize {
        let alone = self.files.get(&file).copied().unwrap_or(0);
        alone.max(self.least)
    }
}

/// What lasts of each writer's operations after a cut before the event with the number `cut`.
pub fn bounds(record: &[Event], cut: usize, writers: usize) -> Vec<Bounds> {
    let mut bounds = vec![Bounds::default(); writers];
    Bounds::extend(&mut bounds, record, cut);
    bounds
}
