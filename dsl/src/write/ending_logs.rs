//! Intent logs that end: what they own is freed in the very group that clears their headers.

use cenote_base::Txg;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_intent_log::OwnedBlocks;

/// Logs that end with a group that is not written yet.
#[derive(Debug, Default)]
pub(super) struct EndingLogs(Mutex<Vec<(Txg, OwnedBlocks)>, ranks::EndingLogs>);

impl EndingLogs {
    fn lock(&self) -> MutexGuard<'_, Vec<(Txg, OwnedBlocks)>> {
        self.0.lock()
    }

    /// Notes that a log ends with `txg`.
    pub(super) fn add(&self, txg: Txg, owned: OwnedBlocks) {
        self.lock().push((txg, owned));
    }

    /// What ends with `txg`.
    pub(super) fn take(&self, txg: Txg) -> Vec<OwnedBlocks> {
        let ending = self
            .lock()
            .extract_if(.., |(of, _)| *of == txg)
            .collect::<Vec<_>>();
        ending.into_iter().map(|(_, owned)| owned).collect()
    }
}
