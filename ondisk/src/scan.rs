//! The state of scrubs and resilvers, in the MOS directory.
//!
//! Source: format/1b 8. `scan` is 24 64-bit integers, `error_scrub` 9.

use crate::DecodeError;
use cenote_base::{ObjectId, Txg};

/// Integers of the `scan` entry.
pub const SCAN_WORDS: usize = 24;
/// Integers of the `error_scrub` entry.
pub const ERROR_SCRUB_WORDS: usize = 9;
/// Datasets were changed behind the scan's back and must be visited again.
pub const FLAG_VISIT_DATASET_AGAIN: u64 = 1;
/// The scrub is paused.
pub const FLAG_PAUSED: u64 = 2;

/// The position of a scan that is in no object set: what is next stands in its queue.
pub const SCAN_NOWHERE: [u64; 4] = [u64::MAX, 0, 0, 0];

const STRUCTURE: &str = "scan state";

/// What a scan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFunction {
    /// None ever ran.
    None,
    /// Reads and verifies everything.
    Scrub,
    /// Writes what a device missed.
    Resilver,
    /// Reads only the blocks of the error log.
    ErrorScrub,
}

/// How far a scan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// None ever ran.
    None,
    /// Under way.
    Scanning,
    /// Ended.
    Finished,
    /// Stopped by the administrator.
    Canceled,
}

/// `scan`: the last or current scrub or resilver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// What it does.
    pub function: ScanFunction,
    /// How far it has come.
    pub state: ScanState,
    /// The ZAP of datasets still to visit.
    pub queue: Option<ObjectId>,
    /// Blocks born after this are examined.
    pub txg_min: Txg,
    /// Blocks born until this are examined.
    pub txg_max: Txg,
    /// The same, for the dataset being visited.
    pub dataset_txg_min: Txg,
    /// The same, for the dataset being visited.
    pub dataset_txg_max: Txg,
    /// Seconds UTC.
    pub start_time: u64,
    /// Seconds UTC.
    pub end_time: u64,
    /// Bytes allocated when it started.
    pub to_examine: u64,
    /// Bytes walked over.
    pub examined: u64,
    /// Bytes that needed no reading.
    pub skipped: u64,
    /// Bytes repaired or resilvered.
    pub processed: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
    /// The highest class of dedup entries that is scanned by entry.
    pub ddt_class_max: u64,
    /// Where the walk of the dedup tables is: class, type, checksum, cursor.
    pub ddt_position: [u64; 4],
    /// Where the walk of the datasets is: object set, object, level (signed), block.
    pub position: [u64; 4],
    /// `FLAG_*`.
    pub flags: u64,
}

impl Scan {
    /// From the integers of the MOS directory's `scan` entry.
    ///
    /// 25 integers are the mark of an old release that stored them shifted: refused.
    pub fn from_words(words: &[u64]) -> Result<Self, DecodeError> {
        let words: &[u64; SCAN_WORDS] = match words.try_into() {
            Ok(words) => words,
            Err(_) => return bad("number of integers", words.len() as u64),
        };
        let four = |index| std::array::from_fn(|i| words[index + i]);
        Ok(Self {
            function: match words[0] {
                0 => ScanFunction::None,
                1 => ScanFunction::Scrub,
                2 => ScanFunction::Resilver,
                3 => ScanFunction::ErrorScrub,
                value => return bad("function", value),
            },
            state: match words[1] {
                0 => ScanState::None,
                1 => ScanState::Scanning,
                2 => ScanState::Finished,
                3 => ScanState::Canceled,
                value => return bad("state", value),
            },
            queue: Some(ObjectId(words[2])).filter(|object| object.0 != 0),
            txg_min: Txg(words[3]),
            txg_max: Txg(words[4]),
            dataset_txg_min: Txg(words[5]),
            dataset_txg_max: Txg(words[6]),
            start_time: words[7],
            end_time: words[8],
            to_examine: words[9],
            examined: words[10],
            skipped: words[11],
            processed: words[12],
            errors: words[13],
            ddt_class_max: words[14],
            ddt_position: four(15),
            position: four(19),
            flags: words[23],
        })
    }

    /// The integers of the MOS directory's `scan` entry.
    pub fn to_words(&self) -> [u64; SCAN_WORDS] {
        let mut words = [0; SCAN_WORDS];
        let function = match self.function {
            ScanFunction::None => 0,
            ScanFunction::Scrub => 1,
            ScanFunction::Resilver => 2,
            ScanFunction::ErrorScrub => 3,
        };
        let state = match self.state {
            ScanState::None => 0,
            ScanState::Scanning => 1,
            ScanState::Finished => 2,
            ScanState::Canceled => 3,
        };
        words[..15].copy_from_slice(&[
            function,
            state,
            self.queue.map_or(0, |queue| queue.0),
            self.txg_min.0,
            self.txg_max.0,
            self.dataset_txg_min.0,
            self.dataset_txg_max.0,
            self.start_time,
            self.end_time,
            self.to_examine,
            self.examined,
            self.skipped,
            self.processed,
            self.errors,
            self.ddt_class_max,
        ]);
        words[15..19].copy_from_slice(&self.ddt_position);
        words[19..23].copy_from_slice(&self.position);
        words[23] = self.flags;
        words
    }

    /// Whether it is under way and not paused.
    pub fn is_running(&self) -> bool {
        self.state == ScanState::Scanning && self.flags & FLAG_PAUSED == 0
    }
}

/// `error_scrub`: the last or current scrub of the error log's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorScrub {
    /// 3 once any ran.
    pub function: u64,
    /// 0 none, 2 finished, 3 canceled, 4 under way.
    pub state: u64,
    /// Where it is in the error log.
    pub cursor: u64,
    /// Seconds UTC.
    pub start_time: u64,
    /// Seconds UTC.
    pub end_time: u64,
    /// Blocks to examine.
    pub to_examine: u64,
    /// Blocks examined.
    pub examined: u64,
    /// Blocks still bad.
    pub errors: u64,
    /// When it was paused, in seconds UTC; 0 if it is not.
    pub paused_time: u64,
}

impl ErrorScrub {
    /// The integers of the MOS directory's `error_scrub` entry.
    pub fn to_words(&self) -> [u64; ERROR_SCRUB_WORDS] {
        [
            self.function,
            self.state,
            self.cursor,
            self.start_time,
            self.end_time,
            self.to_examine,
            self.examined,
            self.errors,
            self.paused_time,
        ]
    }

    /// From the integers of the MOS directory's `error_scrub` entry.
    pub fn from_words(words: &[u64]) -> Result<Self, DecodeError> {
        match *words {
            [
                function,
                state,
                cursor,
                start_time,
                end_time,
                to_examine,
                examined,
                errors,
                paused_time,
            ] => Ok(Self {
                function,
                state,
                cursor,
                start_time,
                end_time,
                to_examine,
                examined,
                errors,
                paused_time,
            }),
            _ => bad("number of integers", words.len() as u64),
        }
    }
}

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_integer_has_its_place() {
        let mut words: Vec<u64> = (0..24).collect();
        words[0] = 1;
        let scan = Scan::from_words(&words).expect("valid");
        assert_eq!(
            (scan.function, scan.state),
            (ScanFunction::Scrub, ScanState::Scanning)
        );
        assert_eq!((scan.errors, scan.ddt_position), (13, [15, 16, 17, 18]));
        assert_eq!((scan.position, scan.flags), ([19, 20, 21, 22], 23));
        assert!(!scan.is_running(), "23 has the bit for paused");
        assert_eq!(scan.to_words().as_slice(), words);
        words[1] = 9;
        assert!(Scan::from_words(&words).is_err());
        assert!(Scan::from_words(&[0; 25]).is_err());
        let errors = ErrorScrub::from_words(&[3, 2, 0, 4, 5, 6, 7, 8, 9]).expect("valid");
        assert_eq!((errors.errors, errors.paused_time), (8, 9));
        assert!(ErrorScrub::from_words(&[0; 8]).is_err());
    }
}
