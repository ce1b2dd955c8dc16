//! How far the rebuild of a top-level vdev is, as its ZAP keeps it (format/1c 8).

use cenote_base::{Guid, ObjectId, Txg};
use cenote_dmu::ObjectSet;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::{VdevConfig, features, vdev_zap};
use std::sync::Arc;

/// Words of a record.
const WORDS: usize = 12;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RebuildState {
    /// There never was one.
    #[default]
    None,
    /// Active: an import resumes it.
    Active,
    /// Given up.
    Canceled,
    /// All is copied.
    Complete,
}

/// The rebuild of a top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub state: RebuildState,
    /// Bytes of the vdev's space that are done with.
    pub last_offset: u64,
    pub min_txg: u64,
    /// What was written before this is brought.
    pub max_txg: u64,
    /// Seconds UTC.
    pub start_time: u64,
    pub end_time: u64,
    /// Milliseconds of work.
    pub elapsed_ms: u64,
    pub scanned: u64,
    pub issued: u64,
    pub rebuilt: u64,
    pub estimated: u64,
    pub errors: u64,
}

impl Record {
    fn from_words(words: &[u64]) -> Self {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        Self {
            state: match word(0) {
                1 => RebuildState::Active,
                2 => RebuildState::Canceled,
                3 => RebuildState::Complete,
                _ => RebuildState::None,
            },
            last_offset: word(1),
            min_txg: word(2),
            max_txg: word(3),
            start_time: word(4),
            end_time: word(5),
            elapsed_ms: word(6),
            scanned: word(7),
            issued: word(8),
            rebuilt: word(9),
            estimated: word(10),
            errors: word(11),
        }
    }

    fn to_words(self) -> [u64; WORDS] {
        [
            self.state as u64,
            self.last_offset,
            self.min_txg,
            self.max_txg,
            self.start_time,
            self.end_time,
            self.elapsed_ms,
            self.scanned,
            self.issued,
            self.rebuilt,
            self.estimated,
            self.errors,
        ]
    }

    /// Whether it is the same rebuild and was not restarted.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.start_time, self.max_txg) == (other.start_time, other.max_txg)
    }

    /// What the ZAP of a top-level vdev says.
    pub fn read(mos: &Arc<ObjectSet>, zap: ObjectId) -> Result<Self, DslError> {
        let value = mos.zap(zap)?.lookup(vdev_zap::top::REBUILD.as_bytes())?;
        let words = value.and_then(|value| value.as_u64s());
        Ok(Self::from_words(&words.unwrap_or_default()))
    }

    pub fn store(&self, context: &SyncContext<'_>, zap: ObjectId) -> Result<(), DslError> {
        let zap = context.mos().zap(zap)?;
        let value = ZapValue::from_u64s(&self.to_words());
        Ok(zap.update(context.tx, vdev_zap::top::REBUILD, &value)?)
    }
}

/// Notes that the rebuild of a top-level vdev is over, in the group in which the vdev leaves with
/// its table.
pub(crate) fn leave(context: &SyncContext<'_>, zap: ObjectId) -> Result<(), DslError> {
    if Record::read(context.mos(), zap)?.state == RebuildState::Active {
        context.feature_changed(features::DEVICE_REBUILD, -1)?;
    }
    Ok(())
}

/// Notes in the group that a leaf comes in with that it is to be rebuilt: from the beginning, with
/// others below the same top-level vdev that are being rebuilt already.
pub(crate) fn begin(
    context: &SyncContext<'_>,
    root: &VdevConfig,
    leaf: Guid,
    missed_before: Txg,
) -> Result<(), DslError> {
    let has = |top: &&VdevConfig| top.walk().any(|vdev| vdev.guid == leaf);
    let zap = root.children.iter().find(has).and_then(|top| top.top_zap);
    let Some(zap) = zap else {
        let reason = "the vdev has no table for a rebuild".to_owned();
        return Err(DslError::Format { reason });
    };
    let before = Record::read(context.mos(), zap)?;
    if before.state != RebuildState::Active {
        context.feature_changed(features::DEVICE_REBUILD, 1)?;
    }
    let record = Record {
        state: RebuildState::Active,
        max_txg: missed_before.0,
        start_time: context.seconds(),
        ..Record::default()
    };
    record.store(context, zap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let words: Vec<u64> = (1..=12).collect();
        let record = Record::from_words(&words);
        assert_eq!(record.state, RebuildState::Active);
        assert_eq!((record.last_offset, record.max_txg), (2, 4));
        assert_eq!(record.to_words().to_vec(), words);
        let short = Record::from_words(&[3]);
        assert_eq!(short.state, RebuildState::Complete);
        assert_eq!(Record::from_words(&[77]).state, RebuildState::None);
    }
}
