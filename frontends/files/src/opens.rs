//! How files are open, and which of the two caches that decides for.
//!
//! Data is cached once, here, and read and written past the kernel's cache
//! (`docs/decisions/003-direct-io.md`). A mapping needs the kernel's, and `write` and stores
//! through a mapping of the same page must not overwrite or miss each other. The kernel ensures
//! that by locking the page, if the write goes through its cache. So writes do that if the file
//! could already be mapped when it was opened.

use super::exchanges::stamped;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_fuse::{DataCache, Errno, Handle, Opened, SeekTarget};
use cenote_posix::Access;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// `O_DIRECT`.
const DIRECT: u64 = 1;
/// `O_DSYNC`, which `O_SYNC` has as well.
const SYNCHRONOUS: u64 = 1 << 1;
/// `O_RDONLY` or `O_RDWR`: what can be mapped.
const READS: u64 = 1 << 2;
/// `O_WRONLY` or `O_RDWR`.
const WRITES: u64 = 1 << 3;

/// The handle of a file that is opened with these flags.
fn handle_for(flags: u32) -> Handle {
    let bit = |bit, is_set: bool| if is_set { bit } else { 0 };
    let has = |flag: OFlags| flags & flag.bits() != 0;
    let mode = OFlags::from_bits_retain(flags) & OFlags::RWMODE;
    Handle(
        bit(DIRECT, has(OFlags::DIRECT))
            | bit(SYNCHRONOUS, has(OFlags::DSYNC))
            | bit(READS, mode != OFlags::WRONLY)
            | bit(WRITES, mode != OFlags::RDONLY),
    )
}

fn has(handle: Handle, bits: u64) -> bool {
    handle.0 & bits == bits
}

/// How the file of a handle is open.
pub(super) fn access_by(handle: Handle) -> Access {
    match has(handle, DIRECT) {
        false => Access::Buffered,
        true => Access::Direct,
    }
}

/// Whether changes made through a handle are to be on disk before the answer.
pub(super) fn is_synchronous(handle: Handle) -> bool {
    has(handle, SYNCHRONOUS)
}

/// What is answered to `open` of what is never written, and not counted.
pub(super) fn to_be_read(flags: u32) -> Opened {
    Opened {
        handle: handle_for(flags),
        cache: DataCache::Direct,
    }
}

/// Where data or a hole is, from `offset` on, as one may always say: all of a file is data, which
/// `lseek(2)` calls the simplest answer.
///
/// # Errors
/// `ENXIO` at the end of the file and beyond.
pub(super) fn without_holes(size: u64, offset: u64, target: SeekTarget) -> Result<u64, Errno> {
    match target {
        _ if offset >= size => Err(Errno::NXIO),
        SeekTarget::Data => Ok(offset),
        SeekTarget::Hole => Ok(size),
    }
}

/// How often a file is open in ways that let it be mapped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ways {
    /// To be read at least.
    reads: usize,
    /// To be read and written: only then a mapping can be stored to.
    stores: usize,
}

/// The files that are open through one mount and may be mapped.
#[derive(Debug, Default)]
pub(super) struct Opens(Mutex<HashMap<ObjectId, Ways>, ranks::OpenFiles>);

impl Opens {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Ways>> {
        self.0.lock()
    }

    /// A file is opened, until [`Self::end`]. With `is_shared` another mount may change what the
    /// kernel caches for this one; there were so many `exchanges`.
    pub(super) fn begin(
        &self,
        object: ObjectId,
        flags: u32,
        (is_shared, exchanges): (bool, u32),
    ) -> Opened {
        let handle = stamped(handle_for(flags), exchanges);
        let mut open = self.lock();
        let may_be_mapped = has(handle, READS) || open.contains_key(&object);
        if has(handle, READS) {
            let ways = open.entry(object).or_default();
            ways.reads += 1;
            ways.stores += usize::from(has(handle, WRITES));
        }
        let is_cached = has(handle, WRITES) && may_be_mapped && !has(handle, DIRECT) && !is_shared;
        Opened {
            handle,
            cache: match is_cached {
                true => DataCache::Kernel,
                false => DataCache::Direct,
            },
        }
    }

    /// A file is closed, which was open with this handle.
    pub(super) fn end(&self, object: ObjectId, handle: Handle) {
        if !has(handle, READS) {
            return;
        }
        if let Entry::Occupied(mut open) = self.lock().entry(object) {
            let ways = open.get_mut();
            ways.reads -= 1;
            ways.stores -= usize::from(has(handle, WRITES));
            if ways.reads == 0 {
                open.remove();
            }
        }
    }

    /// The files through whose mappings something may have been stored.
    pub(super) fn with_stores(&self) -> Vec<ObjectId> {
        let open = self.lock();
        let stores = open.iter().filter(|(_, ways)| ways.stores > 0);
        stores.map(|(object, _)| *object).collect()
    }

    /// These files are no more.
    pub(super) fn forget(&self, gone: &[ObjectId]) {
        self.lock().retain(|object, _| !gone.contains(object));
    }

    /// Whether stores through a mapping may wait in the kernel.
    pub(super) fn may_hold_stores(&self, object: ObjectId) -> bool {
        self.lock().get(&object).is_some_and(|ways| ways.stores > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId(7);
    const READ: u32 = 0;
    const WRITE: u32 = 1;
    const BOTH: u32 = 2;

    #[test]
    fn handles_remember_who_wants_no_cache_and_who_waits() {
        let [direct, all, data] = [OFlags::DIRECT, OFlags::SYNC, OFlags::DSYNC].map(|f| f.bits());
        let truncate = OFlags::TRUNC.bits();
        for (flags, access, waits) in [
            (0, Access::Buffered, false),
            (
                truncate | OFlags::APPEND.bits() | WRITE,
                Access::Buffered,
                false,
            ),
            (direct, Access::Direct, false),
            (direct | truncate | BOTH, Access::Direct, false),
            (data | BOTH, Access::Buffered, true),
            (all | direct | WRITE, Access::Direct, true),
        ] {
            let handle = handle_for(flags);
            assert_eq!(access_by(handle), access, "{flags:o}");
            assert_eq!(is_synchronous(handle), waits, "{flags:o}");
        }
    }

    #[test]
    fn the_kernel_caches_what_is_written_while_it_can_be_mapped() {
        let opens = Opens::default();
        let open = |flags| opens.begin(FILE, flags, (false, 0));
        assert_eq!(open(WRITE).cache, DataCache::Direct, "it cannot be mapped");
        let reader = open(READ);
        assert_eq!(reader.cache, DataCache::Direct, "it does not write");
        assert_eq!(open(WRITE).cache, DataCache::Kernel);
        assert!(!opens.may_hold_stores(FILE), "it is mapped to be read");
        let both = open(BOTH);
        assert_eq!(both.cache, DataCache::Kernel);
        assert!(opens.may_hold_stores(FILE) && !opens.may_hold_stores(ObjectId(8)));
        assert_eq!(open(WRITE | OFlags::DIRECT.bits()).cache, DataCache::Direct);
        assert_eq!(opens.begin(FILE, BOTH, (true, 0)).cache, DataCache::Direct);
        opens.end(FILE, both.handle);
        assert!(opens.may_hold_stores(FILE), "another mount has it open");
        opens.end(FILE, both.handle);
        assert!(!opens.may_hold_stores(FILE));
        opens.end(FILE, reader.handle);
        opens.end(FILE, handle_for(WRITE));
        assert!(opens.lock().is_empty());
    }
}
