//! How large dedup tables may grow.

use cenote_base::rt::{Mutex, ranks};
use cenote_dsl::{Dsl, DslError, Stored, dedup_table_size};

const TABLE_QUOTA: &str = "dedup_table_quota";

/// What the pool's property `dedup_table_quota` says, known from one pass to the next.
#[derive(Debug, Default)]
pub(super) struct Quota {
    is_reached: Mutex<Option<bool>, ranks::DedupQuota>,
}

impl Quota {
    /// Whether the tables take no new entries (format/2c 4.3) because they have reached their
    /// limit. As in OpenZFS the entries of one pass may exceed it.
    pub fn is_reached(&self, dsl: &Dsl) -> Result<bool, DslError> {
        let mut known = self.is_reached.lock();
        if let Some(is_reached) = *known {
            return Ok(is_reached);
        }
        let is_reached = match dsl.pool_properties()?.get(TABLE_QUOTA) {
            // `auto`: a table that fills its devices overflows to others.
            None | Some(Stored::Number(0 | u64::MAX) | Stored::Text(_)) => false,
            Some(Stored::Number(quota)) => dedup_table_size(dsl)? >= *quota,
        };
        *known = Some(is_reached);
        Ok(is_reached)
    }

    /// The tables or the property may have changed.
    pub fn forget(&self) {
        *self.is_reached.lock() = None;
    }
}
