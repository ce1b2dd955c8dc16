//! What the pool as a whole is doing and remembers: scans, removal, expansion, checkpoint.
//!
//! Everything is in the object directory or in the ZAPs of top-level vdevs (format/1b 4 and 8,
//! format/1c 3, 6 and 8).

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::{OBJECT_DIRECTORY, keys};
use crate::property::StoredProperties;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::device_removal::Removing;
use cenote_ondisk::nvlist::PACKED_SIZE_MAX;
use cenote_ondisk::scan::{ErrorScrub, Scan};
use cenote_ondisk::vdev_zap;
use cenote_ondisk::{DecodeError, NvList, Uberblock, VdevConfig, wire};

/// A scan, removal, rebuild or expansion in its course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// Under way.
    Running,
    /// Done.
    Finished,
    /// Given up by request.
    Canceled,
}

/// The last or running expansion of a raidz vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// How far.
    pub state: ActivityState,
    /// Seconds since the epoch.
    pub start_time: u64,
    /// Seconds since the epoch.
    pub end_time: u64,
    /// Bytes that moved.
    pub bytes_copied: u64,
}

/// The last or running sequential rebuild of a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// How far.
    pub state: ActivityState,
    /// Seconds since the epoch.
    pub start_time: u64,
    /// Seconds since the epoch.
    pub end_time: u64,
    /// Milliseconds at work.
    pub scan_time_ms: u64,
    /// Bytes looked at.
    pub scanned: u64,
    /// Bytes of reads issued.
    pub issued: u64,
    /// Bytes written.
    pub rebuilt: u64,
    /// Bytes to look at.
    pub estimated: u64,
    /// Blocks that could not be rebuilt.
    pub errors: u64,
}

impl Dsl {
    /// The last or running scrub or resilver.
    pub fn scan(&self) -> Result<Option<Scan>, DslError> {
        let words = self.object_directory().words(keys::SCAN)?;
        let scan = words.map(|words| Scan::from_words(&words)).transpose();
        scan.map_err(|source| DslError::decode(OBJECT_DIRECTORY, source))
    }

    /// The last or running scrub of blocks on record.
    pub fn error_scrub(&self) -> Result<Option<ErrorScrub>, DslError> {
        let words = self.object_directory().words(keys::ERROR_SCRUB)?;
        let scrub = words
            .map(|words| ErrorScrub::from_words(&words))
            .transpose();
        scrub.map_err(|source| DslError::decode(OBJECT_DIRECTORY, source))
    }

    /// The last or running removal of a top-level vdev.
    pub fn removal(&self) -> Result<Option<Removing>, DslError> {
        let words = self.object_directory().words(keys::REMOVING)?;
        let removing = words.map(|words| Removing::from_words(&words)).transpose();
        removing.map_err(|source| DslError::decode(OBJECT_DIRECTORY, source))
    }

    /// The uberblock of the pool's checkpoint.
    pub fn checkpoint(&self) -> Result<Option<Uberblock>, DslError> {
        let Some(words) = self.object_directory().words(keys::CHECKPOINT)? else {
            return Ok(None);
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let uberblock = Uberblock::decode(&bytes);
        let uberblock = uberblock.map_err(|source| DslError::decode(OBJECT_DIRECTORY, source));
        uberblock.map(Some)
    }

    /// Up to which transaction group the last complete scrub looked.
    pub fn last_scrubbed_txg(&self) -> Result<Txg, DslError> {
        let txg = self.object_directory().number(keys::LAST_SCRUBBED_TXG)?;
        Ok(Txg(txg.unwrap_or(0)))
    }

    /// Bytes of destroyed datasets that are still to be freed.
    pub fn freeing(&self) -> Result<u64, DslError> {
        self.hidden_used("$FREE")
    }

    /// Bytes that could not be freed because they could not be read.
    pub fn leaked(&self) -> Result<u64, DslError> {
        self.hidden_used("$LEAK")
    }

    fn hidden_used(&self, component: &str) -> Result<u64, DslError> {
        let Some(root) = self.object_directory().object(keys::ROOT_DATASET)? else {
            return Ok(0);
        };
        let (_, root) = self.read_directory(root)?;
        match self.mos().zap(root.child_map)?.lookup_u64(component)? {
            Some(id) => Ok(self.read_directory(ObjectId(id))?.1.used_bytes),
            None => Ok(0),
        }
    }

    /// The name-value list packed in an object; its length is in the bonus buffer.
    pub fn packed_list(&self, id: ObjectId) -> Result<NvList, DslError> {
        let object = self.mos().object(id)?;
        let structure = "packed nvlist object";
        let failed = |source| DslError::decode(id, source);
        let length = wire::u64_le(&object.dnode().bonus, 0, structure).map_err(failed)?;
        if length > PACKED_SIZE_MAX as u64 {
            let (field, value) = ("length", length);
            return Err(failed(DecodeError::BadValue {
                structure,
                field,
                value,
            }));
        }
        let mut bytes = vec![0; usize::try_from(length).expect("at most 16 MiB")];
        object.read(0, &mut bytes)?;
        NvList::decode(&bytes).map_err(failed)
    }

    /// The configurations of the pool's spares or cache devices ([`keys::SPARES`],
    /// [`keys::CACHE_DEVICES`]).
    pub fn auxiliary_vdevs(&self, key: &'static str) -> Result<Vec<VdevConfig>, DslError> {
        let Some(id) = self.object_directory().object(key)? else {
            return Ok(Vec::new());
        };
        let list = self.packed_list(id)?;
        let vdevs = list.get_list_array(key).unwrap_or_default().iter();
        let vdevs: Result<_, _> = vdevs.map(VdevConfig::decode).collect();
        vdevs.map_err(|source| DslError::decode(id, source))
    }

    /// The properties set on the pool; those of its configuration are not among them.
    pub fn pool_properties(&self) -> Result<StoredProperties, DslError> {
        match self.object_directory().object(keys::POOL_PROPERTIES)? {
            Some(id) => StoredProperties::load(&self.mos().zap(id)?),
            None => Ok(StoredProperties::default()),
        }
    }

    /// The properties set on a vdev, and whatever else its ZAP holds.
    pub fn vdev_properties(&self, zap: ObjectId) -> Result<StoredProperties, DslError> {
        StoredProperties::load(&self.mos().zap(zap)?)
    }

    /// The expansion of the raidz vdev with this ZAP, if there ever was one.
    pub fn expansion(&self, top_zap: ObjectId) -> Result<Option<Expansion>, DslError> {
        let zap = self.mos().zap(top_zap)?;
        let number = |name: &str| -> Result<u64, DslError> {
            let key = format!("org.openzfs:raidz_expand_{name}");
            Ok(zap.lookup_u64(&key)?.unwrap_or(0))
        };
        let state = match number("state")? {
            1 => ActivityState::Running,
            2 => ActivityState::Finished,
            3 => ActivityState::Canceled,
            _ => return Ok(None),
        };
        Ok(Some(Expansion {
            state,
            start_time: number("start_time")?,
            end_time: number("end_time")?,
            bytes_copied: number("bytes_copied")?,
        }))
    }

    /// The sequential rebuild of the top-level vdev with this ZAP, if there ever was one.
    pub fn rebuild(&self, top_zap: ObjectId) -> Result<Option<Rebuild>, DslError> {
        let value = self
            .mos()
            .zap(top_zap)?
            .lookup(vdev_zap::top::REBUILD.as_bytes())?;
        let Some(words) = value.and_then(|value| value.as_u64s()) else {
            return Ok(None);
        };
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let state = match word(0) {
            1 => ActivityState::Running,
            2 => ActivityState::Canceled,
            3 => ActivityState::Finished,
            _ => return Ok(None),
        };
        Ok(Some(Rebuild {
            state,
            start_time: word(4),
            end_time: word(5),
            scan_time_ms: word(6),
            scanned: word(7),
            issued: word(8),
            rebuilt: word(9),
            estimated: word(10),
            errors: word(11),
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;
    use cenote_ondisk::scan::ScanState;

    #[test]
    fn states_of_golden_pools() {
        if let Some((dsl, _)) = testing::open("checkpoint") {
            let checkpoint = dsl.checkpoint().expect("readable").expect("there is one");
            assert!(checkpoint.txg.0 > 4 && checkpoint.checkpoint_txg == checkpoint.txg);
        }
        if let Some((dsl, _)) = testing::open("single-default") {
            assert_eq!(dsl.checkpoint().expect("readable"), None);
            assert_eq!(dsl.removal().expect("readable"), None);
            assert_eq!(dsl.leaked().expect("readable"), 0);
            assert!(dsl.error_log().expect("readable").is_empty());
        }
        if let Some((dsl, _)) = testing::open("mirror2") {
            let scan = dsl.scan().expect("readable");
            assert!(scan.is_none_or(|scan| scan.state != ScanState::Scanning));
        }
    }
}
