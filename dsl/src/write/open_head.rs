//! Heads that are open for writing: what is known of one between two syncs.

use super::ending_logs::EndingLogs;
use super::policy::HeadPolicy;
use super::streams::resume_point::{ResumePoint, ResumePoints};
use cenote_base::rt::{Mutex, MutexGuard, RwLock, ranks};
use cenote_base::{ObjectId, Txg};
use cenote_dmu::ObjectSet;
use cenote_intent_log::LogWriter;
use cenote_io::IoContext;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// A head that is open for writing.
#[derive(Debug)]
pub struct Head {
    id: ObjectId,
    directory: ObjectId,
    set: Arc<ObjectSet>,
    policy: RwLock<Arc<HeadPolicy>, ranks::HeadPolicy>,
    /// Features that the layers above began to use and that the next sync notes.
    used_features: Mutex<BTreeSet<&'static str>, ranks::HeadFeatures>,
    pub(super) ending_logs: EndingLogs,
    /// The writer of the intent log, if there is one.
    log: OnceLock<Arc<LogWriter>>,
    pub(super) resume_points: ResumePoints,
}

impl Head {
    pub(crate) fn new(
        id: ObjectId,
        directory: ObjectId,
        set: &ObjectSet,
        policy: HeadPolicy,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            directory,
            // It serves programs that change it, whatever the opening caller's context was.
            set: set.for_io(&IoContext::USER),
            policy: RwLock::new(Arc::new(policy)),
            used_features: Mutex::default(),
            ending_logs: EndingLogs::default(),
            log: OnceLock::new(),
            resume_points: ResumePoints::default(),
        })
    }

    /// The dataset's object number.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// From now on each group of the head has the header that its log needs, and frees what the log
    /// is done with. The first writer stays.
    pub fn set_log(&self, writer: Arc<LogWriter>) {
        let _ = self.log.set(writer);
    }

    /// Whether a log is being written.
    pub fn has_log(&self) -> bool {
        self.log.get().is_some()
    }

    /// The writer of its log, if there is one.
    pub fn log(&self) -> Option<&Arc<LogWriter>> {
        self.log.get()
    }

    /// The directory's object number.
    pub fn directory(&self) -> ObjectId {
        self.directory
    }

    /// The object set, read for programs.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// How blocks are stored at the moment.
    pub fn policy(&self) -> Arc<HeadPolicy> {
        let policy = self.policy.read();
        Arc::clone(&policy)
    }

    pub(crate) fn set_policy(&self, policy: HeadPolicy) {
        *self.policy.write() = Arc::new(policy);
    }

    /// Notes that the dataset uses a feature that is counted by dataset.
    pub fn use_feature(&self, guid: &'static str) {
        self.features().insert(guid);
    }

    /// Notes how far a stream has come with the changes of the group `txg`; it is stored when they
    /// are.
    pub fn note_resume(&self, txg: Txg, point: ResumePoint) {
        self.resume_points.note(txg, point);
    }

    pub(super) fn features(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.used_features.lock()
    }
}
