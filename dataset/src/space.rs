//! Whether a dataset may grow: quotas, reservations, and the space of the pool.
//!
//! The question is asked for each change, and the exact answer costs a way up the tree of
//! datasets. So an answer is kept for a moment, as long as what was written since is little beside
//! what was left. Where there is too little, groups that are not on disk yet may give space back:
//! a few of them are waited for before the refusal.

use cenote_base::Env;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_dmu::TxgGate;
use cenote_dsl::{Dsl, DslError};
use std::sync::Arc;
use std::time::Duration;

/// For so long an answer about free space is good for small writes.
const SPACE_AGE_MAX: Duration = Duration::from_millis(200);
/// Dirty data brings this share of itself in metadata, at most.
const DIRTY_OVERHEAD: u64 = 8;
/// Writes that together take less than this share of the space that was left need not ask again.
const SPACE_SHARE: u64 = 64;
/// Groups that somebody waits for before a lack of space is believed: what was freed can be used
/// again three groups later.
const SPACE_WAITS_MAX: u32 = 4;

/// Why a dataset may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceRefusal {
    /// The pool is full, or what is left is reserved.
    #[error("there is no space left")]
    NoSpace,
    /// A quota of a dataset is reached.
    #[error("a quota is used up")]
    Quota,
    /// Nobody can tell: the pool's metadata cannot be read.
    #[error("the space that is left cannot be determined")]
    Unknown,
}

/// What was known of a dataset's space, and what was written since.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    at: Duration,
    left: u64,
    written: u64,
    is_quota: bool,
}

impl Known {
    /// What a lack of this space is called.
    fn refusal(&self) -> SpaceRefusal {
        match self.is_quota {
            true => SpaceRefusal::Quota,
            false => SpaceRefusal::NoSpace,
        }
    }
}

/// Says whether a dataset may grow.
#[derive(Debug)]
pub struct SpacePolicy {
    dsl: Arc<Dsl>,
    gate: Arc<TxgGate>,
    env: Arc<dyn Env>,
    id: ObjectId,
    known: Mutex<Option<Known>, ranks::DatasetSpace>,
}

impl SpacePolicy {
    /// The policy of the dataset `id`.
    pub fn new(dsl: &Arc<Dsl>, gate: &Arc<TxgGate>, env: &Arc<dyn Env>, id: ObjectId) -> Self {
        Self {
            dsl: Arc::clone(dsl),
            gate: Arc::clone(gate),
            env: Arc::clone(env),
            id,
            known: Mutex::default(),
        }
    }

    fn ask(&self) -> Result<Known, DslError> {
        let dataset = self.dsl.dataset_of(self.id)?;
        // What is dirty is not accounted yet, and brings metadata along.
        let dirty = self.gate.dirty_bytes();
        let dirty = dirty.saturating_add(dirty / DIRTY_OVERHEAD);
        let left = dataset.available()?.saturating_sub(dirty);
        let root = self.dsl.root()?.available()?.saturating_sub(dirty);
        Ok(Known {
            at: self.env.monotonic(),
            left,
            written: 0,
            is_quota: left < root,
        })
    }

    /// What is known of the space, fresh enough to take `bytes` more.
    fn known(&self, bytes: u64) -> Result<Known, SpaceRefusal> {
        let now = self.env.monotonic();
        let is_good = |known: &Known| {
            let written = known.written.saturating_add(bytes);
            now.saturating_sub(known.at) < SPACE_AGE_MAX && written < known.left / SPACE_SHARE
        };
        {
            let mut known = self.known.lock();
            if let Some(known) = known.as_mut().filter(|known| is_good(known)) {
                known.written = known.written.saturating_add(bytes);
                return Ok(*known);
            }
        }
        // Without the lock: this may read.
        let mut asked = self.ask().map_err(|_| SpaceRefusal::Unknown)?;
        asked.written = bytes;
        let mut known = self.known.lock();
        // Whoever asked meanwhile counts what it writes as well.
        let others = known.filter(|known| known.at >= now);
        let others = others.map_or(0, |known| known.written);
        asked.written = asked.written.saturating_add(others);
        *known = Some(asked);
        Ok(asked)
    }

    /// Space that the next groups may give back: what is dirty may replace something, and what
    /// was freed is not free yet.
    fn is_space_coming(&self, known: &Known) -> bool {
        let deferred = match known.is_quota {
            true => 0,
            false => self.dsl.space().deferred,
        };
        self.gate.dirty_bytes() > 0 || deferred > 0
    }

    /// Whether about so many bytes more may be written. Waits for groups that may give space back.
    pub fn check(&self, bytes: u64) -> Result<(), SpaceRefusal> {
        for tries in 0.. {
            let known = self.known(bytes)?;
            if bytes == 0 || known.left >= bytes {
                return Ok(());
            }
            let may_wait = tries < SPACE_WAITS_MAX && self.is_space_coming(&known);
            // A pool that is suspended gives nothing back; it says so itself.
            if !may_wait || self.gate.wait_synced(self.gate.request_sync()).is_err() {
                return Err(known.refusal());
            }
        }
        unreachable!("the number of tries is bounded");
    }

    /// Whether the dataset may refer to so many bytes of blocks that are stored already. Asked in
    /// the transaction that does so.
    pub fn may_share(&self, bytes: u64) -> Result<bool, SpaceRefusal> {
        if !self.dsl.begin_cloning() {
            return Ok(false);
        }
        // It takes no space of the pool, and counts for quotas.
        let known = self.known(0)?;
        match known.is_quota && known.left < bytes {
            true => Err(SpaceRefusal::Quota),
            false => Ok(true),
        }
    }
}
