//! The metadata of a new pool: the object directory, the features, the hidden directories
//! (format/1e, format/3a 2 and 12).

use crate::error::DslError;
use crate::object_directory::{OBJECT_DIRECTORY, keys};
use crate::write::context::{SyncContext, SyncTask};
use crate::write::keys::encryption::random;
use cenote_base::{Guid, ObjectId, Txg};
use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{NewObject, ObjectSet, Transaction, Zap};
use cenote_ondisk::bpobj::BpobjHeader;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_UNIQUE_ACCURATE, FSID_BITS};
use cenote_ondisk::dsl_dir::{DslDir, FLAG_USED_BREAKDOWN};
use cenote_ondisk::features;
use cenote_ondisk::features::FEATURE_VERSION;
use cenote_ondisk::features::Feature;
use cenote_ondisk::{CompressionKind, ObjectType};
use std::sync::Arc;

/// What is made before a pool's first txg counts as made in this one.
const TXG_BEFORE_ALL: Txg = Txg(1);
/// Blocks of the list of deferred frees.
const DEFERRED_BLOCK: u64 = 16 << 10;

fn table(mos: &Arc<ObjectSet>, tx: &Transaction, object_type: ObjectType) -> Result<Zap, DslError> {
    let object = mos.allocate(tx, NewObject::new(object_type, 512))?;
    Ok(Zap::initialize(&object, tx, NewZap::default())?)
}

/// What a new pool's metadata begins with.
#[derive(Clone, Copy, Debug)]
pub struct NewMetadata<'a> {
    /// The pool's version: one before [`FEATURE_VERSION`] has no tables of features.
    pub version: u64,
    /// The features, which are enabled in that order.
    pub features: &'a [&'static Feature],
    /// The salt of checksums.
    pub salt: [u8; 32],
    /// The time, in seconds since 1970.
    pub seconds: u64,
}

/// Makes what [`Dsl::open`](crate::Dsl::open) needs to find in an empty meta object set: the
/// object directory with the root directory, and the features.
///
/// # Errors
/// If the objects cannot be made.
pub fn create_metadata(
    mos: &Arc<ObjectSet>,
    tx: &Transaction,
    new_pool: &NewMetadata<'_>,
) -> Result<(), DslError> {
    let new = NewObject::new(ObjectType::OBJECT_DIRECTORY, 512);
    let directory = mos.allocate_at(tx, OBJECT_DIRECTORY, new)?;
    let directory = Zap::initialize(&directory, tx, NewZap::default())?;
    let phys = DslDir {
        creation_time: new_pool.seconds,
        properties: table(mos, tx, ObjectType::DSL_PROPS)?.object().id(),
        child_map: table(mos, tx, ObjectType::DSL_DIR_CHILD_MAP)?.object().id(),
        flags: FLAG_USED_BREAKDOWN,
        ..DslDir::default()
    };
    let new = NewObject::new(ObjectType::DSL_DIR, 512);
    let new = new.with_bonus(ObjectType::DSL_DIR, phys.encode().to_vec());
    let root = mos.allocate(tx, new)?;
    directory.update_u64(tx, keys::ROOT_DATASET, root.id().0)?;
    directory.update_u64(tx, keys::DEFLATE, 1)?;
    directory.update_u64(tx, keys::CREATION_VERSION, new_pool.version)?;
    let salt = ZapValue::from_bytes(&new_pool.salt);
    directory.update(tx, keys::CHECKSUM_SALT, &salt)?;
    match new_pool.version < FEATURE_VERSION {
        true => Ok(()),
        false => enable_features(mos, tx, &directory, new_pool.features),
    }
}

/// The table that a key of the object directory names, made if it is not there.
fn own_table(
    mos: &Arc<ObjectSet>,
    tx: &Transaction,
    directory: &Zap,
    key: &str,
) -> Result<Zap, DslError> {
    if let Some(found) = directory.lookup_u64(key)? {
        return Ok(mos.zap(ObjectId(found))?);
    }
    let table = table(mos, tx, ObjectType::ZAP_METADATA)?;
    directory.update_u64(tx, key, table.object().id().0)?;
    Ok(table)
}

/// Enables those of `features` that are not, in their order (format/1b 2).
fn enable_features(
    mos: &Arc<ObjectSet>,
    tx: &Transaction,
    directory: &Zap,
    features: &[&'static Feature],
) -> Result<(), DslError> {
    let counts = [
        own_table(mos, tx, directory, keys::FEATURES_FOR_READ)?,
        own_table(mos, tx, directory, keys::FEATURES_FOR_WRITE)?,
    ];
    let descriptions = own_table(mos, tx, directory, keys::FEATURE_DESCRIPTIONS)?;
    for feature in features {
        let table = &counts[usize::from(feature.read_only_compatible)];
        if table.lookup_u64(feature.guid)?.is_some() {
            continue;
        }
        table.update_u64(tx, feature.guid, u64::from(feature.active_when_enabled))?;
        let text = ZapValue::from_text(feature.description);
        descriptions.update(tx, feature.guid, &text)?;
        if counts[1].lookup_u64(features::ENABLED_TXG)?.is_some() {
            let enabled = own_table(mos, tx, directory, keys::FEATURE_ENABLED_TXG)?;
            enabled.update_u64(tx, feature.guid, tx.txg().0)?;
            // The feature's uses are the entries of its table (format/1b 2).
            counts[1].increment(tx, features::ENABLED_TXG, 1)?;
        }
    }
    Ok(())
}

/// Enables features of a pool.
#[derive(Debug)]
pub struct EnableFeatures {
    /// The features, each after those that it builds on.
    pub features: Vec<&'static Feature>,
}

impl SyncTask for EnableFeatures {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let is_error_log = |feature: &&Feature| feature.guid == features::HEAD_ERRLOG;
        if self.features.iter().any(is_error_log) && !context.dsl.error_log()?.is_empty() {
            return Err(DslError::OldErrorLog);
        }
        let enabled = context.dsl.features();
        for feature in &self.features {
            let missing = feature.dependencies.iter().find(|guid| {
                let is_coming = self.features.iter().any(|other| other.guid == **guid);
                enabled.get(guid).is_none() && !is_coming
            });
            if let Some(missing) = missing {
                let feature = (*missing).to_owned();
                return Err(DslError::FeatureDisabled { feature });
            }
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = context.mos().zap(OBJECT_DIRECTORY)?;
        enable_features(context.mos(), context.tx, &directory, &self.features)?;
        context.dsl.reload_features()
    }
}

impl SyncContext<'_> {
    /// Turns a pool with a version number into one with features: makes the tables of features and
    /// the salt for checksums, where they are not there. Returns the salt, which readers need from
    /// now on. The version in the uberblock and the labels is the caller's to change.
    ///
    /// # Errors
    /// If the tables cannot be made, or there is no randomness.
    pub fn begin_features(&self) -> Result<[u8; 32], DslError> {
        let directory = self.mos().zap(OBJECT_DIRECTORY)?;
        enable_features(self.mos(), self.tx, &directory, &[])?;
        let salt = match self.dsl.object_directory().checksum_salt()? {
            Some(salt) => salt,
            None => {
                let salt = random(self.pool.env().as_ref())?;
                directory.update(self.tx, keys::CHECKSUM_SALT, &ZapValue::from_bytes(&salt))?;
                salt
            }
        };
        self.dsl.set_feature_version();
        Ok(salt)
    }

    /// Makes the hidden directories and lists that every pool has. The layer must be opened
    /// again afterwards, to find `$ORIGIN@$ORIGIN`.
    ///
    /// # Errors
    /// If the objects cannot be made.
    pub fn create_hidden(&self) -> Result<(), DslError> {
        let root = self.dsl.root()?.id();
        self.create_directory(Some(root), b"$MOS")?;
        self.create_directory(Some(root), b"$FREE")?;
        let list = self.create_list()?;
        self.set_directory_number(keys::FREE_BPOBJ, list.0)?;
        self.create_origin(root)?;
        let header = BpobjHeader {
            compressed_bytes: Some(0),
            uncompressed_bytes: Some(0),
            ..BpobjHeader::default()
        };
        let new = NewObject {
            compression: CompressionKind::Off.number(),
            ..NewObject::new(ObjectType::BPOBJ, DEFERRED_BLOCK)
        };
        let new = new.with_bonus(ObjectType::BPOBJ_HEADER, header.encode());
        let list = self.mos().allocate(self.tx, new)?.id();
        self.set_directory_number(keys::SYNC_BPLIST, list.0)
    }

    /// Makes `$ORIGIN` and its snapshot, of which everything is formally a clone.
    fn create_origin(&self, root: ObjectId) -> Result<(), DslError> {
        let directory = self.create_directory(Some(root), b"$ORIGIN")?;
        let empty = DslDataset::default().encode().to_vec();
        let head = self.create_bonus_object(ObjectType::DSL_DATASET, empty.clone())?;
        let snapshot = self.create_bonus_object(ObjectType::DSL_DATASET, empty)?;
        let common = || -> Result<DslDataset, DslError> {
            Ok(DslDataset {
                directory,
                creation_time: self.seconds(),
                creation_txg: TXG_BEFORE_ALL,
                guid: Guid(self.random_guid()?),
                fsid_guid: self.random_guid()? & ((1 << FSID_BITS) - 1),
                flags: FLAG_UNIQUE_ACCURATE,
                ..DslDataset::default()
            })
        };
        let names = self.create_table(ObjectType::DSL_DATASET_SNAP_MAP)?;
        self.set_number(names, b"$ORIGIN", snapshot.0)?;
        let phys = DslDataset {
            previous_snapshot: Some(snapshot),
            previous_snapshot_txg: TXG_BEFORE_ALL,
            snapshot_names: Some(names),
            deadlist: self.create_deadlist(&[Txg(0)])?,
            ..common()?
        };
        self.store_dataset(head, &phys)?;
        let phys = DslDataset {
            next_snapshot: Some(head),
            children: 1,
            deadlist: self.create_deadlist(&[])?,
            ..common()?
        };
        self.store_dataset(snapshot, &phys)?;
        self.change_directory(directory, |phys| phys.head_dataset = Some(head))
    }
}
