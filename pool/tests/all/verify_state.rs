//! Verifications that are interrupted at every turn and resumed from the saved state.

use crate::common;
use cenote_base::RealEnv;
use cenote_pool::ImportOptions;
use cenote_pool::verify::{
    StateError, VerifyError, VerifyOptions, VerifyProgress, Watcher, verify,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Stops a verification after so many checks for cancellation; 0 means never.
struct Impatient {
    looks: AtomicU32,
    most: u32,
}

impl Impatient {
    fn new(most: u32) -> Self {
        let looks = AtomicU32::new(0);
        Self { looks, most }
    }
}

impl Watcher for Impatient {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        self.most > 0 && looks > self.most
    }
}

#[test]
fn interrupted_verifications_end_as_others_do() {
    for kind in ["snapshots-clones", "encryption", "dedup"] {
        let Some((dir, _)) = common::golden(kind) else {
            return;
        };
        let options = ImportOptions {
            force: true,
            read_only: true,
            ..common::options()
        };
        let candidates = common::candidates(dir.path());
        let pool = cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()));
        let pool = pool.expect("imported");
        let whole = verify(&pool, &VerifyOptions::default(), &Impatient::new(0)).expect("runs");
        assert!(whole.is_clean(), "{kind}: {whole:?}");
        let options = VerifyOptions {
            state_file: Some(dir.path().join("state")),
            ..VerifyOptions::default()
        };
        let mut stops = 0;
        let report = loop {
            let report = verify(&pool, &options, &Impatient::new(3)).expect("it resumes");
            if report.complete {
                break report;
            }
            stops += 1;
            assert!(stops < 1000, "{kind}: it gets nowhere");
        };
        assert!(stops > 3, "{kind}: {stops} stops");
        assert_eq!(report, whole, "{kind}");
        // It is of this kind of verification only, and whole.
        verify(&pool, &options, &Impatient::new(3)).expect("it starts over");
        let other = VerifyOptions {
            all_copies: true,
            ..options.clone()
        };
        let refused = verify(&pool, &other, &Impatient::new(3));
        let is_foreign = |error| matches!(error, VerifyError::State(StateError::Foreign { .. }));
        assert!(refused.is_err_and(is_foreign), "{kind}");
    }
}
