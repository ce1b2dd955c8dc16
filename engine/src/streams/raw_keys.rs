//! Whether the keys that come with a raw stream fit what is here (format/4 7.2, 12).

use super::nearest::snapshot_by_guid;
use cenote_control::model::StreamRefusal;
use cenote_dsl::{Dataset, DslError};
use cenote_ondisk::crypto_key::{EncryptionSuite, KeyFormat, VERSION};
use cenote_ondisk::dsl_dataset::fields::IVSET_GUID;
use cenote_ondisk::stream::CryptKeydata;
use cenote_ondisk::stream::package::PackageDataset;

/// Levels that a tree of dnodes may have.
const LEVELS_END: u64 = 12;

/// Why keys are invalid, or do not belong to the snapshot `base`.
pub(super) fn problem(
    keys: &CryptKeydata,
    base: Option<&Dataset>,
) -> Result<Option<StreamRefusal>, DslError> {
    let meta = &keys.meta_dnode;
    let is_known = EncryptionSuite::from_number(keys.suite).is_some()
        && KeyFormat::from_number(keys.key_format).is_some()
        && keys.version == VERSION;
    let is_usual = meta.block_size == 16 << 10
        && meta.indirect_shift == 17
        && meta.block_pointers == 3
        && (1..LEVELS_END).contains(&meta.levels);
    if !is_known || !is_usual {
        return Ok(Some(StreamRefusal::UnknownCrypto));
    }
    let Some(base) = base else {
        return Ok(None);
    };
    if base.directory().crypto_key()?.is_none() {
        return Ok(Some(StreamRefusal::OverUnencrypted));
    }
    if !are_of(keys, base)? {
        return Ok(Some(StreamRefusal::OtherKey));
    }
    let own = base.extension_number(IVSET_GUID)?;
    Ok(match keys.from_ivset_guid.map(|guid| guid.0) == own {
        true => None,
        false => Some(StreamRefusal::OtherIvSet),
    })
}

/// Whether keys are those of a dataset.
pub(super) fn are_of(keys: &CryptKeydata, dataset: &Dataset) -> Result<bool, DslError> {
    let key = dataset.directory().crypto_key()?;
    Ok(key.is_some_and(|key| key.stored.guid == keys.guid))
}

/// Whether a dataset is a copy of the parent that a dataset of a package has at the sender.
pub(super) fn is_parent_of(parent: &Dataset, told: &PackageDataset) -> Result<bool, DslError> {
    let found = snapshot_by_guid(parent, told.parent_from_snapshot)?;
    Ok(found.is_some())
}
