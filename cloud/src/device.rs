//! The device as the layers above see it.

use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::device::Identity;
use crate::format::{Class, SECTOR};
use crate::local::Place;
use crate::open::{self, Known, LogAside};
use crate::options::{Drive, Options};
use crate::origin::Origin;
use crate::queue::Sequence;
use crate::space::{Counts, Space};
use crate::status::Status;
use crate::store::{Statistics, Store};
use crate::verify::Verified;
use cenote_base::Env;
use cenote_base::rt;
use cenote_base::rt::job::{Control, Next, guarded};
use cenote_device::{Device, DeviceError, DeviceKind, Nature, Purpose};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What happens to what is not in the store yet when a device is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// It is uploaded first, and the device is released: any machine may open it.
    Upload,
    /// It stays in the local log. Others that do not have that log need force to open the device.
    Keep,
}

/// A point in the order of all that is written to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadPoint(Sequence);

/// A disk that lives in an object store.
#[derive(Debug)]
pub struct CloudDevice {
    core: Arc<Core>,
    path: PathBuf,
    aside: Option<LogAside>,
    /// Whether what is not in the store stays in the log when the device is unlocked.
    keeps_rest: AtomicBool,
}

impl CloudDevice {
    /// Makes a device of `size` bytes in a store that has none. It is not opened.
    ///
    /// # Errors
    /// [`CloudError::Exists`] if there is one, [`CloudError::NoConditions`] if the store overwrites
    /// names that are taken, and what the store says.
    pub fn create(
        store: Arc<dyn Store>,
        size: u64,
        options: &Options,
        env: &Arc<dyn Env>,
    ) -> Result<Identity> {
        open::create(store, size, options, env)
    }

    /// Opens the device in a store. `place` is what it has on this side, if it has anything; it is
    /// asked for once the device is known.
    ///
    /// # Errors
    /// [`CloudError::Held`] if another writer has not released it and force is not used; whatever
    /// is wrong with store, objects or the local side.
    pub fn open(
        store: Arc<dyn Store>,
        place: impl FnOnce(&Identity) -> Result<Option<Arc<dyn Place>>>,
        options: Options,
        env: &Arc<dyn Env>,
    ) -> Result<Arc<Self>> {
        Self::open_known(store, place, options, env, None)
    }

    /// The same where something is known already, by [`Self::take_known`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_known(
        store: Arc<dyn Store>,
        place: impl FnOnce(&Identity) -> Result<Option<Arc<dyn Place>>>,
        options: Options,
        env: &Arc<dyn Env>,
        known: Option<Known>,
    ) -> Result<Arc<Self>> {
        let path = PathBuf::from(store.name());
        let (core, aside) = open::open(store, place, options, env, known)?;
        let device = Arc::new(Self {
            core: Arc::new(core),
            path,
            aside,
            keeps_rest: AtomicBool::new(false),
        });
        if device.core.options.drive == Drive::Thread && !device.core.options.is_read_only {
            let core = Arc::clone(&device.core);
            let failing = Arc::downgrade(&core);
            let work = move |_: &Control| core.next();
            let work = guarded(work, move |words| {
                if let Some(core) = failing.upgrade() {
                    core.fail(CloudError::Panicked(words.to_owned()));
                }
            });
            let started = device.core.job.start("cloud", work);
            started.map_err(|source| DeviceError::Open {
                path: device.path.clone(),
                source,
            })?;
        }
        Ok(device)
    }

    /// Ends the use of a device that was opened for reading, for what it knows.
    pub fn take_known(&self) -> Option<Known> {
        self.core.take_known()
    }

    /// Does one thing that is due, with [`Drive::Manual`]; says whether there was one.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn step(&self) -> std::result::Result<bool, Arc<CloudError>> {
        self.core.step()
    }

    /// Returns once everything that was written before is in the store.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn upload(&self) -> std::result::Result<(), Arc<CloudError>> {
        let sequence = self.core.order_point()?;
        self.core.wait_for(sequence)
    }

    /// Has everything that was written before uploaded without waiting for company, and does not
    /// wait for it either; [`Self::is_uploaded`] tells when it is done.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn begin_upload(&self) -> std::result::Result<UploadPoint, Arc<CloudError>> {
        let sequence = self.core.order_point()?;
        self.core.want(sequence);
        Ok(UploadPoint(sequence))
    }

    /// Whether everything up to a point is in the store.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn is_uploaded(&self, point: UploadPoint) -> std::result::Result<bool, Arc<CloudError>> {
        self.core.check()?;
        Ok(self.core.state().queue.is_committed(point.0))
    }

    /// Ends the use of the device.
    ///
    /// # Errors
    /// What kept the rest from being uploaded, or the device from being released.
    pub fn close(&self, how: Close) -> std::result::Result<(), Arc<CloudError>> {
        let result = self.finish(how);
        self.stop();
        result
    }

    /// Says what [`Device::unlock`] does with what is not in the store yet.
    pub fn set_close(&self, how: Close) {
        self.keeps_rest.store(how == Close::Keep, Ordering::Relaxed);
    }

    /// Bytes that went to the store so far, those of requests under way too.
    pub fn sent_bytes(&self) -> u64 {
        self.core.client.sent_bytes()
    }

    /// What was asked of the store.
    pub fn statistics(&self) -> &Statistics {
        self.core.client.statistics()
    }

    /// Whether it takes changes: not closed, and nothing has gone wrong for good.
    pub fn is_usable(&self) -> bool {
        self.core.check().is_ok() && !self.core.state().is_ending
    }

    /// As [`Self::close`] with [`Close::Upload`], as long as requests to the store take no longer
    /// than `patience`. What is not in the store then stays in the local log.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub fn close_within(&self, patience: Duration) -> std::result::Result<(), Arc<CloudError>> {
        self.core.client.set_patience(Some(patience));
        self.close(Close::Upload)
    }

    fn finish(&self, how: Close) -> std::result::Result<(), Arc<CloudError>> {
        if self.core.options.is_read_only {
            return Ok(());
        }
        match how {
            Close::Keep => self.core.flush(),
            Close::Upload => {
                self.core.order_point()?;
                let released = self.core.release();
                released.map_err(|error| self.core.fail(error))
            }
        }
    }

    fn stop(&self) {
        self.core.is_stopping.store(true, Ordering::Relaxed);
        self.core.client.close();
        self.core.changed.notify_all();
        self.core.job.close();
        self.core.cache.save();
    }

    /// A log that was put aside at the opening, because another writer had taken the device over.
    pub fn log_aside(&self) -> Option<&LogAside> {
        self.aside.as_ref()
    }

    /// Writes bytes of which it is known what they are: metadata is kept apart from contents, and
    /// stays in the read cache.
    ///
    /// # Errors
    /// As [`Device::write_at`].
    pub fn write_as(
        &self,
        class: Class,
        offset: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), DeviceError> {
        self.write(offset, bytes, Some(class))
    }

    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        class: Option<Class>,
    ) -> std::result::Result<(), DeviceError> {
        let length = bytes.len() as u64;
        self.check_range(offset, length)?;
        let written = self.core.write(offset, bytes, class);
        written.map_err(|error| DeviceError::Write {
            path: self.path.clone(),
            offset,
            length,
            source: io_error(&error),
        })
    }

    /// Fetches ranges, all at once, so that later reads of them find them in memory.
    ///
    /// # Errors
    /// As reads.
    pub fn prefetch(&self, ranges: &[Range<u64>]) -> std::result::Result<(), Arc<CloudError>> {
        self.prefetch_from(ranges, Origin::Nearest)
    }

    fn prefetch_from(
        &self,
        ranges: &[Range<u64>],
        origin: Origin,
    ) -> std::result::Result<(), Arc<CloudError>> {
        for range in ranges {
            let length = range.end.saturating_sub(range.start);
            let checked = self.check_range(range.start, length);
            checked.map_err(|error| Arc::new(error.into()))?;
        }
        self.core.prefetch(ranges, origin).map_err(Arc::new)
    }

    /// The parts of `[offset, offset + length)` that were written and not discarded: everything
    /// else reads as zeros. Whole sectors, in order.
    ///
    /// # Errors
    /// As reads.
    pub fn mapped(
        &self,
        offset: u64,
        length: u64,
    ) -> std::result::Result<Vec<Range<u64>>, Arc<CloudError>> {
        let checked = self.check_range(offset, length);
        checked.map_err(|error| Arc::new(error.into()))?;
        let start = offset / SECTOR;
        let sectors = (offset + length).div_ceil(SECTOR) - start;
        let found = self.core.mapped(start, sectors).map_err(Arc::new)?;
        let bytes = |range: Range<u64>| range.start * SECTOR..range.end * SECTOR;
        Ok(found.into_iter().map(bytes).collect())
    }

    /// Checks that everything that is needed is in the store, and is what was put. `goes_on` gets
    /// the number of bytes done and in total; verification stops when it returns `false`.
    ///
    /// # Errors
    /// What keeps the store from being read. What is wrong with objects is no error.
    pub fn verify(
        &self,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> std::result::Result<Verified, Arc<CloudError>> {
        self.core.verify(goes_on).map_err(Arc::new)
    }

    /// Puts again what is known to be damaged or missing in the store, as far as this side still
    /// has it; [`Status::damaged`] has what is left.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn put_again(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.core.repair()
    }

    /// Has objects compacted now of which little is needed; [`Self::is_compacting`] tells when that
    /// is done.
    ///
    /// # Errors
    /// What keeps the device from being changed any more.
    pub fn compact(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.core.check()?;
        self.core.wants_compaction.store(true, Ordering::Relaxed);
        self.core.job.wake();
        Ok(())
    }

    /// Whether something is being compacted, or about to be.
    pub fn is_compacting(&self) -> bool {
        // A device that has failed completes nothing.
        if !self.is_usable() {
            return false;
        }
        if self.core.wants_compaction.load(Ordering::Relaxed) {
            return true;
        }
        match self.core.work.try_lock() {
            Some(work) => !work.compaction.is_empty(),
            // The uploader is busy; a later call will know.
            None => true,
        }
    }

    /// How much of it is stored, and how much of that is needed.
    pub fn space(&self) -> Space {
        self.core.space()
    }

    /// What was done with it since it was opened.
    pub fn counts(&self) -> Counts {
        self.core.counts()
    }

    /// How the device is.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    fn read_from(
        &self,
        offset: u64,
        buffer: &mut [u8],
        origin: Origin,
    ) -> std::result::Result<(), DeviceError> {
        rt::assert_io_allowed();
        let length = buffer.len() as u64;
        self.check_range(offset, length)?;
        let read = self.core.read(offset, buffer, origin);
        read.map_err(|error| DeviceError::Read {
            path: self.path.clone(),
            offset,
            length,
            source: io_error(&error),
        })
    }

    fn check_range(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        let size = self.size();
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(DeviceError::OutOfRange {
                path: self.path.clone(),
                offset,
                length,
                size,
            }),
        }
    }
}

impl Drop for CloudDevice {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Core {
    /// What the uploader does: a step, and when the next one is due.
    fn next(&self) -> Next {
        match self.step() {
            Ok(true) => Next::Now,
            // The device has failed for good; waiting callers got the error.
            Err(_) => Next::Done,
            Ok(false) => self.due_at().map_or(Next::WhenAsked, |due| {
                let left = due.saturating_sub(self.now());
                Next::After(left.max(Duration::from_millis(1)))
            }),
        }
    }
}

/// What is stored together with bytes of a purpose.
fn class_of(purpose: Purpose) -> Option<Class> {
    match purpose {
        Purpose::Unknown => None,
        Purpose::Metadata => Some(Class::Metadata),
        Purpose::Contents => Some(Class::Contents),
    }
}

/// The error for callers that know only the system's errors.
fn io_error(error: &Arc<CloudError>) -> io::Error {
    let kind = match &**error {
        CloudError::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
        CloudError::Closed => io::ErrorKind::NotConnected,
        CloudError::Fenced { .. } | CloudError::Held { .. } => io::ErrorKind::ResourceBusy,
        error if error.damaged_object().is_some() => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, Arc::clone(error))
}

impl Device for CloudDevice {
    fn size(&self) -> u64 {
        self.core.state().tip.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        self.read_from(offset, buffer, Origin::Nearest)
    }

    fn read_medium(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        self.read_from(offset, buffer, Origin::Stored)
    }

    fn prefetch_medium(&self, ranges: &[Range<u64>]) {
        // What is wrong with them, the reads tell.
        let _ = self.prefetch_from(ranges, Origin::Stored);
    }

    /// Objects that lead to the data are verified here: no read of the device is about them. What
    /// is wrong with them is listed.
    fn begin_verification(&self) {
        self.core.forget_fetched();
        // A store that does not answer is reported by the reads that follow.
        let _ = self.core.verify_map();
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        // What is wrong with them, the reads tell.
        let _ = Self::prefetch(self, ranges);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.write(offset, bytes, None)
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        purpose: Purpose,
    ) -> std::result::Result<(), DeviceError> {
        rt::assert_io_allowed();
        let class = class_of(purpose);
        match buffers {
            [] => Ok(()),
            [only] => self.write(offset, only, class),
            // What is written together is stored together, as one.
            _ => {
                let slices: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
                self.write(offset, &slices.concat(), class)
            }
        }
    }

    fn complete_group(&self, txg: u64) {
        // A device that cannot be changed says so at the flush that follows.
        let _ = self.core.complete_group(txg);
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.core.flush().map_err(|error| DeviceError::Flush {
            path: self.path.clone(),
            source: io_error(&error),
        })
    }

    fn discard(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        self.check_range(offset, length)?;
        let discarded = self.core.discard(offset, length);
        discarded.map_err(|error| DeviceError::Discard {
            path: self.path.clone(),
            offset,
            length,
            source: io_error(&error),
        })
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Store,
            logical_block_size: 512,
            rotational: Some(false),
        }
    }

    /// Uploads everything and releases the device, unless [`Self::set_close`] says otherwise. What
    /// cannot be uploaded stays in the local log, from which its owner resumes; [`Status`] has the
    /// reason.
    fn unlock(&self) {
        let how = match self.keeps_rest.load(Ordering::Relaxed) {
            true => Close::Keep,
            false => Close::Upload,
        };
        // Nothing is lost by a failure: the log has it, and the device is not released.
        let _ = self.close(how);
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_writable(&self) -> bool {
        !self.core.options.is_read_only
    }
}
