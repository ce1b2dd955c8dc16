//! The open vdevs of a pool, as the layers above hold them.
//!
//! The tree itself never changes while somebody uses it: a change of the configuration makes a
//! new one, which those who come later get. Whoever is under way ends with the old one; devices,
//! counters and notes of what was missed belong to both.

use crate::batch::BatchRead;
use crate::check::CopyReport;
use crate::error::VdevError;
use crate::indirect::IndirectEntry;
use crate::labels_write::{LabelPhase, UberblockScope};
use crate::leaf::VdevCounters;
use crate::shape::Shape;
use crate::state::{VdevAux, VdevState};
use crate::trim::FreeSpaceAction;
use crate::write::{PreparedWrite, VdevWrite};
use crate::write_plan::WritePlan;
use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{BlockBuffer, Device};
use cenote_ondisk::uberblock::RaidzReflow;
use cenote_ondisk::{Dva, NvList, Uberblock, VdevConfig, VdevKind};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// What a top-level vdev's space is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocationClass {
    /// Everything that has no class of its own.
    #[default]
    Normal,
    /// Intent logs only.
    Log,
    /// Metadata, and small blocks if so configured.
    Special,
    /// Dedup tables.
    Dedup,
}

/// What opening needs to know beside configuration and devices.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Progress of a raidz expansion, from the uberblock.
    pub reflow: Option<RaidzReflow>,
    /// Why leaves cannot be used although their device was found.
    pub problems: HashMap<Guid, VdevAux>,
}

/// What a vdev did since it was opened: a copy of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in VdevCounters")]
pub struct VdevFigures {
    pub read_operations: u64,
    pub read_bytes: u64,
    pub read_errors: u64,
    pub write_operations: u64,
    pub write_bytes: u64,
    pub write_errors: u64,
    pub checksum_errors: u64,
    /// Requests that took longer than `zio_slow_io_ms`.
    pub slow_operations: u64,
}

impl From<&VdevCounters> for VdevFigures {
    fn from(counters: &VdevCounters) -> Self {
        let [read_errors, write_errors, checksum_errors, slow_operations] = counters.new_errors();
        Self {
            read_operations: counters.read_operations.get(),
            read_bytes: counters.read_bytes.get(),
            read_errors,
            write_operations: counters.write_operations.get(),
            write_bytes: counters.write_bytes.get(),
            write_errors,
            checksum_errors,
            slow_operations,
        }
    }
}

/// A vdev as `zpool status` and `zpool iostat` show it, with everything below.
#[derive(Clone, Debug)]
pub struct VdevStatus {
    /// The type.
    pub kind: VdevKind,
    /// The guid; 0 for holes.
    pub guid: Guid,
    /// Position among the siblings.
    pub id: Option<VdevId>,
    /// Parity, of raidz and draid.
    pub parity: u64,
    /// Where the configuration says the device was.
    pub path: Option<PathBuf>,
    /// What was opened, if anything.
    pub device: Option<String>,
    /// Size of that device in bytes, labels and all.
    pub device_size: Option<u64>,
    /// Health.
    pub state: VdevState,
    /// Why it is not healthy.
    pub aux: VdevAux,
    /// Of top-level vdevs, what the space is for.
    pub class: Option<AllocationClass>,
    /// A spare in use.
    pub is_spare: bool,
    /// What it did.
    pub figures: VdevFigures,
    /// The vdevs below, in order.
    pub children: Vec<VdevStatus>,
}

/// The open vdevs of a pool.
#[derive(Debug)]
pub struct Vdevs {
    shape: RwLock<Arc<Shape>>,
}

/// A way to write many blocks, on the vdevs as they were when it was got.
#[derive(Clone, Debug)]
pub struct VdevWriter {
    shape: Arc<Shape>,
}

impl VdevWriter {
    /// Splits a block into what goes to which leaf and computes its parity.
    ///
    /// # Errors
    /// If the address is none that can be written; missing devices are no error yet.
    pub fn prepare(&self, write: VdevWrite) -> Result<PreparedWrite, VdevError> {
        self.shape.prepare_write(write)
    }

    /// Joins the fragments of all these writes, which this writer has prepared, and notes what
    /// absent leaves miss.
    pub fn plan(&self, writes: Vec<PreparedWrite>) -> WritePlan {
        self.shape.plan_writes(writes)
    }

    /// Sends one chunk to its leaf. Each chunk of a plan must be sent once.
    pub fn send(&self, plan: &WritePlan, chunk: usize) {
        self.shape.write_chunk(plan, chunk);
    }

    /// Says which writes are on enough leaves to be safe, in the order of the plan.
    pub fn finish(&self, plan: &WritePlan) -> Vec<Result<(), VdevError>> {
        self.shape.finish_writes(plan)
    }
}

impl Vdevs {
    /// Opens the tree below `root` over the devices that were found, by guid.
    ///
    /// Missing devices are no error: [`Self::status`] tells what is left. Errors are trees that
    /// no software of ours can read.
    pub fn open(
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
        options: &OpenOptions,
    ) -> Result<Self, VdevError> {
        let shape = Shape::open(root, opened, options)?;
        let shape = RwLock::new(Arc::new(shape));
        Ok(Self { shape })
    }

    /// Goes over to the tree below `root`, with devices for what is new in it.
    ///
    /// Vdevs that were there before, by guid, keep their open devices, counters, mappings and
    /// missed txgs. Reads and writes under way end on the tree as it was; that is right for
    /// additions, whereas who takes something away must see to it that nothing refers to it.
    ///
    /// # Errors
    /// As [`Self::open`]; then nothing has changed.
    pub fn change(
        &self,
        root: &VdevConfig,
        opened: &HashMap<Guid, Arc<dyn Device>>,
    ) -> Result<(), VdevError> {
        let mut shape = self.shape.write().unwrap_or_else(PoisonError::into_inner);
        *shape = Arc::new(shape.changed(root, opened)?);
        Ok(())
    }

    /// Goes on with other devices for leaves whose own were gone: `root` is the tree as it is.
    ///
    /// A device that was away may have lost what it had taken and not yet made durable. If others
    /// have the same, the leaf counts as having missed that; if not, `is_complete`, which is asked
    /// in any case and with the new devices in place, has to know that nothing of it is lost.
    ///
    /// # Errors
    /// [`VdevError::Unflushed`] if something is; then nothing has changed. Otherwise as
    /// [`Self::open`].
    pub fn reopen(
        &self,
        root: &VdevConfig,
        devices: &HashMap<Guid, Arc<dyn Device>>,
        is_complete: impl FnOnce() -> bool,
    ) -> Result<(), VdevError> {
        let before = self.shape();
        self.set_shape(Arc::new(before.changed(root, devices)?));
        let is_complete = is_complete();
        let forgotten = before.forget_unflushed(devices.keys());
        if forgotten.is_err() && !is_complete {
            self.set_shape(before);
            return forgotten;
        }
        Ok(())
    }

    fn set_shape(&self, shape: Arc<Shape>) {
        *self.shape.write().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Leaves in use whose devices do not answer: not even their first bytes can be read.
    pub fn silent_leaves(&self) -> Vec<Guid> {
        self.shape().silent_leaves()
    }

    /// Whether a top-level vdev, readable when it was opened, has so many devices that do not
    /// answer that it no longer is.
    pub fn has_gone(&self, vdev: VdevId) -> bool {
        self.shape().has_gone(vdev)
    }

    fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets whom to ask how much of what may be dirty is dirty, in percent; only the first call
    /// counts. The more, the more writes of transaction groups go at once.
    pub fn set_write_load(&self, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        self.shape().load.set(ask);
    }

    /// A way to write many blocks at once.
    pub fn writer(&self) -> VdevWriter {
        VdevWriter {
            shape: self.shape(),
        }
    }

    /// Top-level vdevs, with holes and removed ones.
    pub fn top_count(&self) -> usize {
        self.shape().top_count()
    }

    /// State of a top-level vdev.
    pub fn top_state(&self, vdev: VdevId) -> Option<(VdevState, VdevAux)> {
        self.shape().top_state(vdev)
    }

    /// State of the whole pool.
    pub fn state(&self) -> (VdevState, VdevAux) {
        self.shape().state()
    }

    /// Stored bytes of the smallest allocation on a vdev, which is the size of its dynamic gang
    /// headers (format/1d 6).
    pub fn allocation_min(&self, vdev: VdevId) -> Option<usize> {
        self.shape().allocation_min(vdev)
    }

    /// Whether blocks on a vdev have parity beside them.
    pub fn has_parity(&self, vdev: VdevId) -> bool {
        self.shape().has_parity(vdev)
    }

    /// log2 of a vdev's allocation unit.
    pub fn ashift(&self, vdev: VdevId) -> Option<u32> {
        self.shape().ashift(vdev)
    }

    /// Bytes that `size` stored bytes take on a vdev when born in `birth` (format/1c 1 to 4).
    ///
    /// `None` without such a vdev, and for more bytes than a block can have.
    pub fn asize(&self, vdev: VdevId, size: u64, birth: Txg) -> Option<u64> {
        self.shape().asize(vdev, size, birth)
    }

    /// Accounted 512-byte units per 512 bytes of a vdev's space (format/1c 5).
    pub fn deflate_ratio(&self, vdev: VdevId) -> Option<u64> {
        self.shape().deflate_ratio(vdev)
    }

    /// Start and length in bytes of a vdev's metaslab.
    pub fn metaslab(&self, vdev: VdevId, index: u64) -> Option<(u64, u64)> {
        self.shape().metaslab(vdev, index)
    }

    /// Allocatable bytes that a top-level vdev could have by what its devices have become; `None`
    /// if one of them is not there, or the vdev is none that can grow now.
    pub fn asize_by_now(&self, vdev: VdevId) -> Option<u64> {
        self.shape().asize_by(vdev, |device| device.size_now())
    }

    /// The same by what of that was taken note of: what can be written to.
    pub fn asize_as_noted(&self, vdev: VdevId) -> Option<u64> {
        self.shape().asize_by(vdev, |device| device.size())
    }

    /// Bytes that a leaf's device has gained since that was taken note of; `None` if it is not
    /// there.
    pub fn gain_of_leaf(&self, leaf: Guid) -> Option<u64> {
        self.shape().gain_of_leaf(leaf)
    }

    /// Takes note of what the devices of a top-level vdev have become, and makes the labels at
    /// their ends anew, durably.
    ///
    /// # Errors
    /// If a device does not take them.
    pub fn move_labels(&self, vdev: VdevId) -> Result<(), VdevError> {
        self.shape().move_labels(vdev)
    }

    /// What a top-level vdev's space is for.
    pub fn class(&self, vdev: VdevId) -> Option<AllocationClass> {
        self.shape().class(vdev)
    }

    /// Sets what a top-level vdev's space is for, once its ZAP was read.
    pub fn set_class(&self, vdev: VdevId, class: AllocationClass) {
        self.shape().set_class(vdev, class)
    }

    /// Sets the txgs that a leaf missed: what was born in them is read from it last.
    ///
    /// A guid that is no leaf's is ignored.
    pub fn set_dtl(&self, leaf: Guid, missed: &[Range<Txg>]) {
        self.shape().set_dtl(leaf, missed)
    }

    /// The whole tree with states and figures.
    pub fn status(&self) -> VdevStatus {
        self.shape().status()
    }

    /// Reads the `size` stored bytes at `dva` of a block physically born in `birth`.
    ///
    /// All redundancy is used until `verify` accepts. Of a gang block, `size` is that of the
    /// header, whatever the address's own size says.
    pub fn read(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, VdevError> {
        self.shape().read(dva, size, birth, verify)
    }

    /// As [`Self::read`], of a block that may never have been written: when nobody has the right
    /// bytes, no checksum error is counted. The ends of intent logs are found this way.
    pub fn read_speculative(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, VdevError> {
        self.shape().read_speculative(dva, size, birth, verify)
    }

    /// Reads the blocks without verifying them; `None` where a healthy leaf did not give one.
    pub fn read_batch(&self, reads: &[BatchRead]) -> Vec<Option<BlockBuffer>> {
        self.shape().read_batch(reads)
    }

    /// Reads and judges all copies and all parity of the block at `dva`; arguments as for
    /// [`Vdevs::read`].
    ///
    /// Wrong copies are counted as checksum errors of their leaves. An error means that the
    /// address itself is bad; a block that cannot be read is reported without data.
    pub fn check_copies(
        &self,
        dva: Dva,
        size: usize,
        birth: Txg,
        verify: &dyn Fn(&[u8]) -> bool,
    ) -> Result<CopyReport, VdevError> {
        self.shape().check_copies(dva, size, birth, verify)
    }

    /// Stops using a leaf, as an administrator may demand; `false` if the pool needs it.
    pub fn fault(&self, leaf: Guid) -> bool {
        self.shape().fault(leaf)
    }

    /// Forgets the errors of a leaf, or of all: counters start anew, and what was given up is used
    /// again. What it missed meanwhile stays noted.
    pub fn clear_errors(&self, leaf: Option<Guid>) {
        self.shape().clear_errors(leaf)
    }

    /// The txgs that a leaf missed, in order; empty for a leaf that missed nothing.
    pub fn dtl(&self, leaf: Guid) -> Vec<Range<Txg>> {
        self.shape().dtl(leaf)
    }

    /// The leaves whose missed txgs changed since the last call, with all that they missed: to be
    /// stored with the pool before the leaf is used again.
    pub fn take_changed_dtls(&self) -> Vec<(Guid, Vec<Range<Txg>>)> {
        self.shape().take_changed_dtls()
    }

    /// Lets others open the devices for writing: nothing more will be written here.
    pub fn unlock(&self) {
        self.shape().unlock();
    }

    /// Makes durable everything that was written before.
    ///
    /// A leaf that fails counts as having missed what it was given since its last flush.
    ///
    /// # Errors
    /// If so many leaves failed that blocks may be lost.
    pub fn flush(&self) -> Result<(), VdevError> {
        self.shape().flush()
    }

    /// Writes each leaf's configuration into two of its labels and makes them durable.
    ///
    /// Leaves that have no device are passed over, and so are guids that are no leaf's.
    ///
    /// # Errors
    /// If a top-level vdev, log devices excepted, has no leaf left with the new labels.
    pub fn write_labels(
        &self,
        configs: &[(Guid, NvList)],
        phase: LabelPhase,
        txg: Txg,
    ) -> Result<(), VdevError> {
        self.shape().write_labels(configs, phase, txg)
    }

    /// Writes the uberblock into its slot of all labels of the leaves in scope and makes it
    /// durable.
    ///
    /// # Errors
    /// If not a single leaf took it.
    pub fn write_uberblock(
        &self,
        uberblock: &Uberblock,
        scope: UberblockScope,
        multihost: bool,
    ) -> Result<(), VdevError> {
        self.shape().write_uberblock(uberblock, scope, multihost)
    }

    /// Writes a heartbeat into one label of one leaf, both chosen by `pick`, and returns how many
    /// leaves there are to choose from.
    ///
    /// # Errors
    /// If the leaf did not take it, or there is none.
    pub fn write_heartbeat(&self, uberblock: &Uberblock, pick: u64) -> Result<usize, VdevError> {
        self.shape().write_heartbeat(uberblock, pick)
    }

    /// Positions of the top-level vdevs that can be written to, with holes and removed ones left
    /// out.
    pub fn writable_tops(&self) -> Vec<VdevId> {
        self.shape().writable_tops()
    }

    /// Writes blocks, one after the other where threads are not at hand; see [`crate::WritePlan`]
    /// for many at once. A result is an error if too few leaves took the block.
    pub fn write(&self, writes: Vec<VdevWrite>) -> Vec<Result<(), VdevError>> {
        self.shape().write(writes)
    }

    /// Does something to a free range of a top-level vdev's space, in bytes.
    ///
    /// Leaves that cannot be written to are passed over; devices that do not discard ignore it.
    ///
    /// # Errors
    /// If the range is not within the vdev, or a device fails.
    pub fn treat_free_space(
        &self,
        vdev: VdevId,
        range: Range<u64>,
        action: FreeSpaceAction,
    ) -> Result<(), VdevError> {
        self.shape().treat_free_space(vdev, range, action)
    }

    /// The same to one leaf, and only behind the first `from` bytes of its allocatable area.
    /// Returns the bytes of the leaf that were treated.
    ///
    /// # Errors
    /// As [`Self::treat_free_space`], and if the leaf cannot be written to.
    pub fn treat_leaf_space(
        &self,
        vdev: VdevId,
        leaf: Guid,
        range: Range<u64>,
        from: u64,
        action: FreeSpaceAction,
    ) -> Result<u64, VdevError> {
        self.shape()
            .treat_leaf_space(vdev, leaf, range, from, action)
    }

    /// What of a range of a top-level vdev's space lies on one leaf behind the first `from` bytes
    /// of its allocatable area: how many bytes, and where the last of them ends.
    ///
    /// # Errors
    /// If the range is not within the vdev.
    pub fn leaf_extent(
        &self,
        vdev: VdevId,
        leaf: Guid,
        range: Range<u64>,
        from: u64,
    ) -> Result<(u64, u64), VdevError> {
        self.shape().leaf_extent(vdev, leaf, range, from)
    }

    /// Whether a leaf's device takes note of discards; `None` if it is not open.
    pub fn can_discard(&self, leaf: Guid) -> Option<bool> {
        self.shape().can_discard(leaf)
    }

    /// Where a range of a removed vdev's space was copied to, in order and by one step: a target
    /// may have been removed later. `None` if the vdev was not removed.
    ///
    /// # Errors
    /// If the mapping does not cover the range.
    pub fn mapped(
        &self,
        vdev: VdevId,
        range: Range<u64>,
    ) -> Result<Option<Vec<IndirectEntry>>, VdevError> {
        self.shape().mapped(vdev, range)
    }

    /// Gives a removed vdev the mapping of its space, from the MOS, in any order of vdevs.
    pub fn set_indirect_mapping(
        &self,
        vdev: VdevId,
        entries: Vec<IndirectEntry>,
    ) -> Result<(), VdevError> {
        self.shape().set_indirect_mapping(vdev, entries)
    }
}
