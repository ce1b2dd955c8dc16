//! What a pool is doing or has done: scans, removals, expansion, checkpoint, intent log.

use serde::{Deserialize, Serialize};

/// What a scan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanKind {
    /// Reads everything.
    Scrub,
    /// Rewrites what a device misses.
    Resilver,
    /// Reads only blocks with recorded errors.
    ErrorScrub,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Under way.
    Running,
    /// Done.
    Finished,
    /// Given up by request.
    Canceled,
}

/// The last or running scan. Times are seconds since the epoch, the rest bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// What for.
    pub kind: ScanKind,
    /// How far.
    pub state: RunState,
    /// When it began.
    pub start_time: u64,
    /// When it ended.
    pub end_time: u64,
    /// To be examined in total.
    pub to_examine: u64,
    /// Examined.
    pub examined: u64,
    /// Found to need no read.
    pub skipped: u64,
    /// Repaired or resilvered.
    pub processed: u64,
    /// Blocks that could not be repaired.
    pub errors: u64,
    /// Examined since this import.
    pub pass_examined: u64,
    /// When this import's share began.
    pub pass_start: u64,
    /// When it was paused, or 0.
    pub pause_time: u64,
    /// Seconds spent paused.
    pub paused_seconds: u64,
    /// Reads issued since this import.
    pub pass_issued: u64,
    /// Reads issued.
    pub issued: u64,
}

/// A sequential rebuild of one top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuild {
    /// The vdev's name.
    pub vdev: String,
    /// How far.
    pub state: RunState,
    /// When it began, seconds.
    pub start_time: u64,
    /// When it ended, seconds.
    pub end_time: u64,
    /// Milliseconds at work.
    pub elapsed_ms: u64,
    /// Bytes to look at.
    pub to_examine: u64,
    /// Bytes examined.
    pub examined: u64,
    /// Bytes of reads issued.
    pub issued: u64,
    /// Bytes written.
    pub rebuilt: u64,
    /// Blocks that could not be rebuilt.
    pub errors: u64,
}

/// The last or running removal of a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalActivity {
    /// How far.
    pub state: RunState,
    /// The vdev's id.
    pub vdev_id: u64,
    /// The vdev's name while it is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdev: Option<String>,
    /// When it began, seconds.
    pub start_time: u64,
    /// When it ended, seconds.
    pub end_time: u64,
    /// Bytes to copy.
    pub to_copy: u64,
    /// Bytes copied.
    pub copied: u64,
    /// Memory that the mappings of all removed vdevs take, in bytes.
    pub mapping_memory: u64,
}

/// The pool's checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointState {
    /// It can be rewound to.
    Exists {
        /// When it was made, seconds.
        time: u64,
        /// What it keeps from being freed, in bytes.
        space: u64,
    },
    /// It is being discarded.
    Discarding {
        /// What is still to be freed, in bytes.
        space: u64,
    },
}

/// The last or running raidz expansion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaidzExpand {
    /// How far.
    pub state: RunState,
    /// The vdev's name.
    pub vdev: String,
    /// When it began, seconds.
    pub start_time: u64,
    /// When it ended, seconds.
    pub end_time: u64,
    /// Bytes to move.
    pub to_reflow: u64,
    /// Bytes moved.
    pub reflowed: u64,
    /// Whether it waits for a resilver.
    pub waiting_for_resilver: bool,
}

/// What is done once to all free space of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreatmentKind {
    /// The device is informed that ranges are unused.
    Trim,
    /// It is written all over.
    Initialize,
}

/// How far that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreatmentState {
    /// Under way.
    Active,
    /// Given up.
    Canceled,
    /// Waits to be started again where it was.
    Suspended,
    /// Done.
    Complete,
}

/// The last or running trim, or initialization, of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Treatment {
    /// How far.
    pub state: TreatmentState,
    /// When it was started, or ended, in seconds.
    pub time: u64,
    /// Bytes of the device that were treated.
    pub done: u64,
    /// Bytes of the device that are to be treated; 0 if unknown.
    pub total: u64,
}

/// Records that a crash left in one dataset's intent log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentLogReport {
    /// The dataset.
    pub dataset: String,
    /// Records that OpenZFS would replay.
    pub records: u64,
    /// Log blocks that hold them.
    pub blocks: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Whether they were replayed in memory for this import.
    pub replayed: bool,
    /// Records that the replay applied, once the dataset was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// Where the replay stopped early and why: the dataset is shown as it was before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Why the log could not be read to its end, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Work that is requested or necessary, and has not begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// A device in use lacks data that the others have.
    #[serde(default)]
    pub resilver: bool,
    /// A scrub follows the resilver that is under way.
    #[serde(default)]
    pub scrub: bool,
}
