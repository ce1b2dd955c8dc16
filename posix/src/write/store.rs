//! Storing attributes (format/3b 2).
//!
//! Most changes replace values of fixed length in place. Other changes write all attributes again,
//! in the bonus buffer and if need be a spill block, and register the layout if it is new. Legacy
//! znodes, of file systems before version 5, are in [`super::legacy`].

use super::change::Change;
use crate::attributes::AttributeTables;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{NewObject, Object, Transaction, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::acl::{self, Ace};
use cenote_ondisk::system_attributes::{Attribute, SaTables};
use cenote_ondisk::system_attributes_encode::{SaValues, patch};

/// Bytes of a dnode that neither a bonus buffer of system attributes nor a spill pointer has.
const DNODE_OVERHEAD: usize = 192;

/// A new value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Word(u64),
    Time(Timestamp),
    Bytes(Vec<u8>),
    /// The attribute is removed.
    Absent,
}

/// The stored form of a time.
pub(super) fn time_bytes(time: Timestamp) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&time.seconds.to_le_bytes());
    bytes[8..].copy_from_slice(&u64::from(time.nanoseconds).to_le_bytes());
    bytes
}

impl Value {
    /// Calls `take` with the stored form; `None` stands for absence.
    pub(super) fn with_bytes<R>(&self, take: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self {
            Self::Word(word) => take(Some(&word.to_le_bytes())),
            Self::Time(time) => take(Some(&time_bytes(*time))),
            Self::Bytes(bytes) => take(Some(bytes)),
            Self::Absent => take(None),
        }
    }
}

/// Changes of an object's attributes that are made together.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Vec<(Attribute, Value)>);

impl Changes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn word(mut self, attribute: Attribute, value: u64) -> Self {
        self.0.push((attribute, Value::Word(value)));
        self
    }

    pub(super) fn time(mut self, attribute: Attribute, value: Timestamp) -> Self {
        self.0.push((attribute, Value::Time(value)));
        self
    }

    pub(super) fn bytes(mut self, attribute: Attribute, value: Vec<u8>) -> Self {
        self.0.push((attribute, Value::Bytes(value)));
        self
    }

    pub(super) fn absent(mut self, attribute: Attribute) -> Self {
        self.0.push((attribute, Value::Absent));
        self
    }

    /// Each with its new value.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Attribute, Value)> {
        self.0.iter()
    }

    /// Whether they set this attribute.
    pub(super) fn sets(&self, attribute: Attribute) -> bool {
        self.0.iter().any(|(changed, _)| *changed == attribute)
    }

    /// With one more.
    pub(super) fn with(mut self, attribute: Attribute, value: Value) -> Self {
        self.0.push((attribute, value));
        self
    }

    /// The NFSv4 list.
    pub(super) fn access_list(self, aces: &[Ace]) -> Self {
        self.word(Attribute::DaclCount, aces.len() as u64)
            .bytes(Attribute::DaclAces, acl::encode(aces))
    }
}

impl FileSystem {
    /// Changes attributes of an object, whose lock is held, and forgets its znode.
    pub(super) fn change(
        &self,
        tx: &Change<'_>,
        id: ObjectId,
        changes: &Changes,
    ) -> Result<(), PosixError> {
        let mut with_read;
        let mut changes = changes;
        if let Some(read) = self.take_read(id, changes) {
            with_read = changes.clone();
            with_read = with_read.time(Attribute::Atime, read);
            changes = &with_read;
        }
        let object = self.newest(id)?;
        let result = match object.dnode().bonus_type {
            ObjectType::SYSTEM_ATTRIBUTES => self.change_system(tx, &object, changes),
            ObjectType::ZNODE => self.change_legacy(tx, &object, changes),
            _ => Err(PosixError::NoSuchZnode { object: id }),
        };
        self.forget(id);
        result
    }

    fn change_system(
        &self,
        tx: &Change<'_>,
        object: &Object,
        changes: &Changes,
    ) -> Result<(), PosixError> {
        let malformed = |source| PosixError::from(object.malformed(source));
        let tables = self.require_tables(tx, changes)?;
        let tables = &tables.tables;
        let dnode = object.dnode();
        let mut bonus = dnode.bonus.clone();
        let mut in_place = true;
        for (attribute, value) in &changes.0 {
            let patched = value.with_bytes(|bytes| match bytes {
                Some(bytes) => patch(tables, &mut bonus, *attribute, bytes),
                None => Ok(false),
            });
            in_place = in_place && patched.map_err(malformed)?;
        }
        if in_place {
            object.set_bonus(tx, ObjectType::SYSTEM_ATTRIBUTES, bonus)?;
            return Ok(());
        }
        let mut values = SaValues::new();
        if !dnode.bonus.is_empty() {
            let taken = values.take_buffer(tables, &dnode.bonus);
            taken.map_err(malformed)?;
        }
        if let Some(spill) = object.spill()? {
            values.take_buffer(tables, &spill).map_err(malformed)?;
        }
        set_values(tables, &mut values, changes);
        self.store_values(tx, object, &values)
    }

    /// Lays values out in the bonus buffer and the spill block.
    fn store_values(
        &self,
        tx: &Change<'_>,
        object: &Object,
        values: &SaValues,
    ) -> Result<(), PosixError> {
        let dnode = object.dnode();
        let space = dnode.slots() * 512 - DNODE_OVERHEAD;
        let (bonus, spill) = self.lay_out(tx, values, space)?;
        let bonus_type = ObjectType::SYSTEM_ATTRIBUTES;
        match spill.is_some() || dnode.spill.is_some() {
            true => object.set_bonus_and_spill(tx, bonus_type, bonus, spill)?,
            false => object.set_bonus(tx, bonus_type, bonus)?,
        }
        Ok(())
    }

    /// The bonus buffer and spill block of values, with their layouts registered.
    fn lay_out(
        &self,
        tx: &Change<'_>,
        values: &SaValues,
        space: usize,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), PosixError> {
        let tables = self.tables().ok_or(PosixError::ReadOnly)?;
        let split = values.split(&tables.tables, space);
        let numbers: Vec<u16> = values.numbers().collect();
        let layout = self.layout(tx, &numbers[..split])?;
        let too_large = || PosixError::AttributesTooLarge;
        let tables = self.tables().ok_or(PosixError::ReadOnly)?;
        let tables = &tables.tables;
        let bonus = values.encode(tables, layout, 0..split);
        let bonus = bonus.ok_or_else(too_large)?;
        if split == numbers.len() {
            return Ok((bonus, None));
        }
        let layout = self.layout(tx, &numbers[split..])?;
        let spill = values.encode(tables, layout, split..numbers.len());
        Ok((bonus, Some(spill.ok_or_else(too_large)?)))
    }

    /// The buffers for a new object in a dnode with this many slots.
    pub(super) fn new_buffers(
        &self,
        tx: &Change<'_>,
        attributes: &Changes,
        slots: usize,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), PosixError> {
        let tables = self.require_tables(tx, attributes)?;
        let values = new_values(&tables.tables, attributes);
        self.lay_out(tx, &values, slots * 512 - DNODE_OVERHEAD)
    }

    /// The tables, with every attribute of `changes` registered.
    fn require_tables(
        &self,
        tx: &Change<'_>,
        changes: &Changes,
    ) -> Result<std::sync::Arc<AttributeTables>, PosixError> {
        let tables = self.tables().ok_or(PosixError::ReadOnly)?;
        let has = |tables: &AttributeTables| {
            let mut needed = changes
                .0
                .iter()
                .filter(|(_, value)| *value != Value::Absent);
            needed.all(|(attribute, _)| tables.tables.number(*attribute).is_some())
        };
        if has(&tables) {
            return Ok(tables);
        }
        let writer = self.require_writer()?;
        let _guard = writer.tables.lock();
        let mut new = self.tables().ok_or(PosixError::ReadOnly)?.tables.clone();
        if !has(&AttributeTables::new(new.clone())) {
            tx.apart(|| {
                let registry = self.sa_zap(tx, "REGISTRY", ObjectType::SA_REGISTRY)?;
                register_missing(tx, &registry, &mut new)
            })?;
            self.set_tables(AttributeTables::new(new));
        }
        self.tables().ok_or(PosixError::ReadOnly)
    }

    /// The number of a layout, which is registered if it is new.
    fn layout(&self, tx: &Change<'_>, numbers: &[u16]) -> Result<u16, PosixError> {
        let known = |tables: &AttributeTables| tables.tables.layout_number(numbers);
        if let Some(number) = self.tables().as_deref().and_then(known) {
            return Ok(number);
        }
        let writer = self.require_writer()?;
        let _guard = writer.tables.lock();
        let tables = self.tables().ok_or(PosixError::ReadOnly)?;
        if let Some(number) = known(&tables) {
            return Ok(number);
        }
        let mut new = tables.tables.clone();
        let number = tx.apart(|| {
            let layouts = self.sa_zap(tx, "LAYOUTS", ObjectType::SA_LAYOUTS)?;
            add_layout(tx, &layouts, &mut new, numbers)
        })?;
        self.set_tables(AttributeTables::new(new));
        Ok(number)
    }

    /// One of the two tables on disk, made if it is not there.
    fn sa_zap(
        &self,
        tx: &Change<'_>,
        key: &str,
        object_type: ObjectType,
    ) -> Result<Zap, PosixError> {
        let master = self.attribute_master();
        let master = self.set().zap(master.ok_or(PosixError::ReadOnly)?)?;
        if let Some(id) = master.lookup_u64(key)? {
            return Ok(self.set().zap(ObjectId(id))?);
        }
        let object = self.set().allocate(tx, NewObject::new(object_type, 512))?;
        // A replay would give its number to another.
        self.log_nothing(tx);
        let zap = Zap::initialize(&object, tx, NewZap::default())?;
        master.insert_u64(tx, key, object.id().0)?;
        Ok(zap)
    }
}

/// The values of a new object.
pub(super) fn new_values(tables: &SaTables, attributes: &Changes) -> SaValues {
    let mut values = SaValues::new();
    for (attribute, value) in &attributes.0 {
        let number = tables.number(*attribute).expect("it was registered");
        value.with_bytes(|bytes| values.set(number, bytes.expect("new objects have values")));
    }
    values
}

/// Makes changes in a list of values. A project id is put where it belongs.
fn set_values(tables: &SaTables, values: &mut SaValues, changes: &Changes) {
    for (attribute, value) in &changes.0 {
        let Some(number) = tables.number(*attribute) else {
            continue;
        };
        value.with_bytes(|bytes| match bytes {
            None => {
                values.remove(number);
            }
            Some(bytes) if *attribute == Attribute::ProjectId && values.get(number).is_none() => {
                let links = tables.number(Attribute::Links).unwrap_or(u16::MAX);
                values.insert_behind(links, number, bytes);
            }
            Some(bytes) => values.set(number, bytes),
        });
    }
}

/// Registers every attribute that a new file system has and this one lacks.
pub(super) fn register_missing(
    tx: &Transaction,
    registry: &Zap,
    tables: &mut SaTables,
) -> Result<(), PosixError> {
    for attribute in Attribute::registered() {
        if tables.number(*attribute).is_some() {
            continue;
        }
        let mut definition = attribute.standard_definition();
        while tables.definition(definition.number).is_some() {
            definition.number += 1;
        }
        let value = definition.encode();
        registry.insert_u64(tx, attribute.name(), value)?;
        let added = tables.add_attribute(attribute.name(), value);
        added.map_err(|source| registry.object().malformed(source))?;
    }
    Ok(())
}

/// Adds a layout under the next number.
pub(super) fn add_layout(
    tx: &Transaction,
    layouts: &Zap,
    tables: &mut SaTables,
    numbers: &[u16],
) -> Result<u16, PosixError> {
    let number = tables
        .next_layout_number()
        .ok_or(PosixError::AttributesTooLarge)?;
    let name = number.to_string();
    layouts.insert(tx, &name, &ZapValue::from_u16s(numbers))?;
    let added = tables.add_layout(&name, numbers.to_vec());
    added.map_err(|source| layouts.object().malformed(source))?;
    Ok(number)
}
