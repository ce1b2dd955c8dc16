//! Settings that depend on how much memory there is.

use super::table;
use crate::rt::with_world_settings;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The assumed memory until [`set_memory_bytes`] sets the real size.
const MEMORY_BYTES: u64 = 1 << 30;

/// Less could not hold a transaction of the largest block.
const DIRTY_BYTES_MIN: u64 = 16 << 20;

/// The names under which another world than the default one keeps both.
const MEMORY_OF_WORLD: &str = "memory_bytes";
const IS_SHORT_OF_WORLD: &str = "is_memory_short";

static MEMORY: AtomicU64 = AtomicU64::new(MEMORY_BYTES);
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// The memory of which percentages are taken, in bytes.
pub fn memory_bytes() -> u64 {
    let of_world = with_world_settings(|world| world.numbers.get(MEMORY_OF_WORLD).copied());
    match of_world {
        None => MEMORY.load(Ordering::Relaxed),
        Some(bytes) => bytes.unwrap_or(MEMORY_BYTES),
    }
}

/// Says how much memory there is.
pub fn set_memory_bytes(bytes: u64) {
    if !set_in_world(MEMORY_OF_WORLD, bytes) {
        MEMORY.store(bytes, Ordering::Relaxed);
    }
}

/// Whether the thread is in a world that keeps the number now.
fn set_in_world(name: &'static str, value: u64) -> bool {
    with_world_settings(|world| world.numbers.insert(name, value)).is_some()
}

/// Whether less than `zfs_arc_lotsfree_percent` of the memory is available.
pub fn is_memory_short() -> bool {
    let of_world = with_world_settings(|world| world.numbers.contains_key(IS_SHORT_OF_WORLD));
    of_world.unwrap_or_else(|| IS_SHORT.load(Ordering::Relaxed))
}

/// Says whether memory is short: while it is, a quarter of the usual bytes may be dirty.
pub fn set_memory_short(is_short: bool) {
    let of_world = with_world_settings(|world| match is_short {
        true => world.numbers.insert(IS_SHORT_OF_WORLD, 1),
        false => world.numbers.remove(IS_SHORT_OF_WORLD),
    });
    if of_world.is_none() {
        IS_SHORT.store(is_short, Ordering::Relaxed);
    }
}

/// The most that any setting may have of the memory: a quarter is left to everything else, so that
/// a number meant for a larger machine does not end in the kernel killing the process.
fn believable(bytes: u64) -> u64 {
    let memory = memory_bytes();
    bytes.min(memory - memory / 4)
}

/// Bytes that `zfs_arc_max` allows; `None` if it is not set.
pub fn arc_bytes_max() -> Option<u64> {
    let bytes = table::ARC_MAX.get();
    (bytes != 0).then(|| believable(bytes))
}

/// Bytes that `zfs_arc_min` has the caches keep; `None` if it is not set.
pub fn arc_bytes_min() -> Option<u64> {
    let bytes = table::ARC_MIN.get();
    (bytes != 0).then(|| believable(bytes))
}

/// Bytes of the machine's memory that `zfs_arc_sys_free` leaves alone, all of it at most; `None` if
/// it is not set.
pub fn free_bytes_min() -> Option<u64> {
    let bytes = table::ARC_SYS_FREE.get();
    (bytes != 0).then(|| bytes.min(memory_bytes()))
}

/// What is used in place of the value of the setting `name`, because there is not so much memory;
/// `None` where the value is used.
pub fn taken(name: &str) -> Option<u64> {
    let of_memory = [
        &table::ARC_MAX,
        &table::ARC_MIN,
        &table::ARC_SYS_FREE,
        &table::DIRTY_DATA_MAX,
        &table::DIRTY_DATA_MAX_MAX,
    ];
    let setting = of_memory.into_iter().find(|setting| setting.name == name)?;
    let bytes = setting.get();
    let taken = match name == table::ARC_SYS_FREE.name {
        true => bytes.min(memory_bytes()),
        false => believable(bytes),
    };
    Some(taken).filter(|taken| *taken < bytes)
}

/// Bytes that may be dirty in a pool: `zfs_dirty_data_max`, or if that is 0 the share of memory
/// of `zfs_dirty_data_max_percent`, at most `zfs_dirty_data_max_max`.
pub fn dirty_bytes_max() -> u64 {
    let memory = memory_bytes();
    let share = |percent: u64| memory / 100 * percent;
    let most = match table::DIRTY_DATA_MAX_MAX.get() {
        0 => share(table::DIRTY_DATA_MAX_MAX_PERCENT.get()).min(4 << 30),
        bytes => bytes,
    };
    let bytes = match table::DIRTY_DATA_MAX.get() {
        0 => share(table::DIRTY_DATA_MAX_PERCENT.get()).min(most),
        bytes => bytes,
    };
    let bytes = believable(bytes);
    let bytes = match is_memory_short() {
        true => bytes / 4,
        false => bytes,
    };
    bytes.max(DIRTY_BYTES_MIN)
}
