//! The tables of one checksum function: found, read, changed, made and taken away.
//!
//! A table is a ZAP for each class of entries: those with one reference and those with more. It has
//! one of two forms. The *traditional* one is in the pool's object directory and keeps blocks of
//! one, two and three copies apart. The *fast* one has a directory of its own and possibly logs, in
//! which entries wait to be moved into the ZAPs. Here the logs are only read: the first change
//! moves all their entries.

use cenote_base::{ObjectId, Txg};
use cenote_codec::compress::{Compression, compress, decompress};
use cenote_dmu::zap::NewZap;
use cenote_dmu::zap::ZapValue;
use cenote_dmu::{DmuError, NewObject, ObjectSet, Zap};
use cenote_dsl::write::SyncContext;
use cenote_dsl::{DslError, waiting_entries};
use cenote_ondisk::ddt::{self, DdtClass, DdtEntry, DdtKey, DdtLogHeader, DdtPhys, DdtValue};
use cenote_ondisk::features;
use cenote_ondisk::object_directory::OBJECT_DIRECTORY;
use cenote_ondisk::zap::fat_header::{FLAG_HASH64, FLAG_PRE_HASHED_KEY, FLAG_UINT64_KEY};
use cenote_ondisk::{ChecksumKind, ObjectType};
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLE_BLOCK_SHIFT: u32 = 15;

/// An entry that was changed in this txg.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    pub entry: DdtEntry,
    /// Its class in the tables.
    pub class: Option<DdtClass>,
    /// The entry that the tables' statistics count.
    pub counted: Option<DdtEntry>,
}

/// The tables of one checksum function.
#[derive(Debug)]
pub(super) struct Table {
    pub kind: ChecksumKind,
    is_flat: bool,
    /// Whether there is anything on disk.
    pub exists: bool,
    /// The directory of the fast form.
    directory: Option<ObjectId>,
    zaps: BTreeMap<DdtClass, ObjectId>,
    logs: Vec<ObjectId>,
    pub changed: BTreeMap<DdtKey, Changed>,
    /// Whether anything but the logs has changed.
    pub is_dirty: bool,
}

fn object(zap: &Zap, name: &str) -> Result<Option<ObjectId>, DmuError> {
    let id = zap.lookup_u64(name)?.filter(|id| *id != 0);
    Ok(id.map(ObjectId))
}

impl Table {
    /// The name of the table of a class, also in the statistics.
    pub(super) fn name(&self, class: DdtClass) -> String {
        format!("DDT-{}-zap-{}", self.kind.name(), class.name())
    }

    /// Finds the tables of a checksum function; those that are not there yet will have the fast
    /// form if `fast`.
    pub(super) fn open(
        mos: &Arc<ObjectSet>,
        kind: ChecksumKind,
        fast: bool,
    ) -> Result<Self, DslError> {
        let mut table = Self {
            kind,
            is_flat: fast,
            exists: false,
            directory: None,
            zaps: BTreeMap::new(),
            logs: Vec::new(),
            changed: BTreeMap::new(),
            is_dirty: false,
        };
        let pool_directory = mos.zap(OBJECT_DIRECTORY)?;
        table.directory = object(&pool_directory, &format!("DDT-{}", kind.name()))?;
        let home = match table.directory {
            Some(id) => mos.zap(id)?,
            None => pool_directory,
        };
        for class in DdtClass::ALL {
            if let Some(id) = object(&home, &table.name(class))? {
                table.zaps.insert(class, id);
            }
        }
        table.exists = table.directory.is_some() || !table.zaps.is_empty();
        if table.directory.is_some() {
            let flags = home.lookup_u64("flags")?.unwrap_or(0);
            table.is_flat = flags & ddt::DIRECTORY_FLAG_FLAT != 0;
            for index in 0..2 {
                let name = format!("DDT-log-{}-{index}", kind.name());
                table.logs.extend(object(&home, &name)?);
            }
            table.load_logs(mos)?;
        } else if table.exists {
            table.is_flat = false;
        }
        Ok(table)
    }

    /// Takes the entries of the logs as changed ones, the active log's over the other's.
    fn load_logs(&mut self, mos: &Arc<ObjectSet>) -> Result<(), DslError> {
        for (key, record) in waiting_entries(mos, &self.logs)? {
            let changed = Changed {
                entry: record.entry,
                class: record.class,
                // What is in a log is not in the statistics.
                counted: None,
            };
            self.changed.insert(key, changed);
        }
        Ok(())
    }

    /// The entry of a key; an empty one if there is none.
    pub(super) fn entry(
        &mut self,
        mos: &Arc<ObjectSet>,
        key: DdtKey,
    ) -> Result<&mut Changed, DslError> {
        if !self.changed.contains_key(&key) {
            let stored = self.stored(mos, key)?;
            let empty = match self.is_flat {
                true => DdtEntry::Flat {
                    phys: DdtPhys::default(),
                    class_start: 0,
                },
                false => DdtEntry::Traditional([DdtPhys::default(); 4]),
            };
            let changed = Changed {
                entry: stored.map_or(empty, |(_, entry)| entry),
                class: stored.map(|(class, _)| class),
                counted: stored.map(|(_, entry)| entry),
            };
            self.changed.insert(key, changed);
        }
        Ok(self
            .changed
            .get_mut(&key)
            .expect("it was there or was just added"))
    }

    fn stored(
        &self,
        mos: &Arc<ObjectSet>,
        key: DdtKey,
    ) -> Result<Option<(DdtClass, DdtEntry)>, DslError> {
        for (class, id) in &self.zaps {
            let zap = mos.zap(*id)?;
            let Some(value) = zap.lookup_words(&key.to_words())? else {
                continue;
            };
            let zle = |bytes: &[u8], size| {
                let mut out = vec![0; size];
                let decoded = decompress(Compression::Zle, bytes, &mut out);
                decoded.is_ok().then_some(out)
            };
            let entry = DdtValue::decode(value.as_bytes().unwrap_or(&[]))
                .and_then(|value| value.entry(self.is_flat, zle));
            let entry = entry.map_err(|source| zap.object().malformed(source))?;
            return Ok(Some((*class, entry)));
        }
        Ok(None)
    }

    /// Puts an entry where it belongs now, away from where it was.
    pub(super) fn store(
        &mut self,
        context: &SyncContext<'_>,
        key: DdtKey,
        changed: &Changed,
        class: Option<DdtClass>,
    ) -> Result<(), DslError> {
        let words = key.to_words();
        if let Some(old) = changed.class.filter(|old| Some(*old) != class)
            && let Some(id) = self.zaps.get(&old)
        {
            context.mos().zap(*id)?.remove(context.tx, &words[..])?;
        }
        let Some(class) = class else { return Ok(()) };
        let id = self.zap(context, class)?;
        let zap = context.mos().zap(id)?;
        let zle = |bytes: &[u8]| {
            let mut out = vec![0; bytes.len()];
            let length = compress(Compression::Zle, 0, bytes, bytes.len() - 1, &mut out)?;
            out.truncate(length);
            Some(out)
        };
        let value = DdtValue::encode(&changed.entry, zle);
        Ok(zap.update(context.tx, &words[..], &ZapValue::from_bytes(&value))?)
    }

    /// The ZAP of a class, which is made if there is none.
    fn zap(&mut self, context: &SyncContext<'_>, class: DdtClass) -> Result<ObjectId, DslError> {
        if let Some(id) = self.zaps.get(&class) {
            return Ok(*id);
        }
        let home = self.home(context)?;
        let mut flags = FLAG_HASH64 | FLAG_UINT64_KEY;
        if self.kind.is_dedup_strong() {
            flags |= FLAG_PRE_HASHED_KEY;
        }
        let mut new = NewObject::new(ObjectType::DDT_ZAP, 1 << TABLE_BLOCK_SHIFT);
        new.indirect_shift = TABLE_BLOCK_SHIFT as u8;
        let object = context.mos().allocate(context.tx, new)?;
        let shape = NewZap {
            normflags: 0,
            flags,
            block_shift: TABLE_BLOCK_SHIFT,
        };
        Zap::initialize(&object, context.tx, shape)?;
        let name = self.name(class);
        let home = context.mos().zap(home)?;
        home.insert_u64(context.tx, name.as_bytes(), object.id().0)?;
        self.zaps.insert(class, object.id());
        Ok(object.id())
    }

    /// Where the tables are named: the directory of the fast form, which is made if there is
    /// nothing yet, or the pool's.
    fn home(&mut self, context: &SyncContext<'_>) -> Result<ObjectId, DslError> {
        if let Some(id) = self.directory {
            return Ok(id);
        }
        if self.exists || !self.is_flat {
            self.exists = true;
            return Ok(OBJECT_DIRECTORY);
        }
        let id = context.create_table(ObjectType::ZAP_METADATA)?;
        let directory = context.mos().zap(id)?;
        directory.insert_u64(context.tx, "version", ddt::DIRECTORY_VERSION)?;
        directory.insert_u64(context.tx, "flags", ddt::DIRECTORY_FLAG_FLAT)?;
        context.set_directory_number(&format!("DDT-{}", self.kind.name()), id.0)?;
        context.feature_changed(features::FAST_DEDUP, 1)?;
        (self.directory, self.exists) = (Some(id), true);
        Ok(id)
    }

    /// Makes the logs empty, once their entries are in the tables.
    pub(super) fn empty_logs(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for id in &self.logs {
            let log = context.mos().object(*id)?;
            let header = DdtLogHeader::decode(&log.dnode().bonus);
            let header = header.map_err(|source| log.malformed(source))?;
            if header.length == 0 {
                continue;
            }
            log.free_range(context.tx, 0, u64::MAX)?;
            let bonus = DdtLogHeader {
                length: 0,
                checkpoint: None,
                first_txg: Txg(context.txg().0),
                ..header
            };
            log.set_bonus(
                context.tx,
                ObjectType::UINT64_METADATA,
                bonus.encode().to_vec(),
            )?;
        }
        Ok(())
    }

    /// Takes away tables without entries; returns their names.
    pub(super) fn destroy_empty(
        &mut self,
        context: &SyncContext<'_>,
    ) -> Result<Vec<String>, DslError> {
        let mut destroyed = Vec::new();
        let home = self.directory.unwrap_or(OBJECT_DIRECTORY);
        for (class, id) in self.zaps.clone() {
            if context.mos().zap(id)?.count() > 0 {
                continue;
            }
            let name = self.name(class);
            context
                .mos()
                .zap(home)?
                .remove(context.tx, name.as_bytes())?;
            context.mos().free(context.tx, id)?;
            self.zaps.remove(&class);
            destroyed.push(name);
        }
        if !self.zaps.is_empty() {
            return Ok(destroyed);
        }
        self.exists = false;
        if let Some(directory) = self.directory.take() {
            for log in std::mem::take(&mut self.logs) {
                context.mos().free(context.tx, log)?;
            }
            context.mos().free(context.tx, directory)?;
            context.remove_directory_entry(&format!("DDT-{}", self.kind.name()))?;
            context.feature_changed(features::FAST_DEDUP, -1)?;
        }
        Ok(destroyed)
    }
}
