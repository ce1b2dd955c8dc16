//! Making a volume's contents (format/3c 5, "zvol objects").

use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{DmuError, NewObject, ObjectSet, Transaction, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::volume_objects::{VOLUME_DATA, VOLUME_PROPERTIES, VOLUME_SIZE};
use std::sync::Arc;

/// Makes an empty volume of `size` bytes, in blocks of `block_size`, in an empty object set.
///
/// # Errors
/// If the block size is none that an object can have.
pub fn format_new(
    set: &Arc<ObjectSet>,
    tx: &Transaction,
    size: u64,
    block_size: u64,
) -> Result<(), DmuError> {
    set.allocate_at(
        tx,
        VOLUME_DATA,
        NewObject::new(ObjectType::ZVOL, block_size),
    )?;
    let new = NewObject::new(ObjectType::ZVOL_PROP, 512);
    let properties = set.allocate_at(tx, VOLUME_PROPERTIES, new)?;
    let zap = Zap::initialize(&properties, tx, NewZap::default())?;
    zap.insert(tx, VOLUME_SIZE, &ZapValue::from_u64(size))
}

/// Gives a volume of `before` bytes another size; what lies behind a smaller one is freed.
///
/// # Errors
/// If its objects cannot be changed.
pub(crate) fn resize(
    set: &Arc<ObjectSet>,
    tx: &Transaction,
    before: u64,
    size: u64,
) -> Result<(), DmuError> {
    if size < before {
        set.object(VOLUME_DATA)?.free_range(tx, size, u64::MAX)?;
    }
    set.zap(VOLUME_PROPERTIES)?
        .update(tx, VOLUME_SIZE, &ZapValue::from_u64(size))
}
