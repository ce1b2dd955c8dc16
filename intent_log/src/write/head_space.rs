//! The pool of an open object set, as its log writer sees it.

use super::space::{LogHold, LogSpace};
use cenote_base::{Env, Txg};
use cenote_device::BlockBuffer;
use cenote_dmu::{DmuError, ObjectSet, Transaction, TxCost, TxgGate};
use cenote_io::{AllocationClass, IoError, LogMark, ObjsetKeys, Writer};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Dirty data brings this share of itself in metadata, at most.
const METADATA_SHARE: u64 = 8;

/// A pool that is open for writing, for the log of one of its heads.
#[derive(Debug)]
pub struct HeadSpace {
    set: Arc<ObjectSet>,
    gate: Arc<TxgGate>,
    env: Arc<dyn Env>,
    writer: Arc<Writer>,
    /// Log devices are for others: `logbias=throughput`.
    avoids_log_devices: Arc<AtomicBool>,
}

impl HeadSpace {
    /// For the log of `set`, which is open for writing through `gate`, in the pool whose blocks
    /// `writer` writes; on its log devices, if it has any, unless these are avoided.
    pub fn new(
        set: Arc<ObjectSet>,
        gate: Arc<TxgGate>,
        env: Arc<dyn Env>,
        writer: Arc<Writer>,
        avoids_log_devices: Arc<AtomicBool>,
    ) -> Self {
        Self {
            set,
            gate,
            env,
            writer,
            avoids_log_devices,
        }
    }
}

/// A transaction in which nothing changes but the chain.
#[derive(Debug)]
struct HeadHold<'a> {
    space: &'a HeadSpace,
    tx: Transaction,
}

impl LogHold for HeadHold<'_> {
    fn txg(&self) -> Txg {
        self.tx.txg()
    }

    fn allocate(
        &self,
        size: u64,
        verifier: [u64; 4],
        keys: Option<&ObjsetKeys>,
    ) -> Result<BlockPointer, IoError> {
        let writer = &self.space.writer;
        // The group needs space for what is dirty, and for as much metadata as comes with it.
        let dirty = self.space.gate.dirty_bytes();
        let leaves = dirty.saturating_add(dirty / METADATA_SHARE);
        // What comes next where there are no log devices.
        let class = match self.space.avoids_log_devices.load(Ordering::Relaxed) {
            true => AllocationClass::Special,
            false => AllocationClass::Log,
        };
        writer.allocate_log_block(self.txg(), size, verifier, keys, (class, leaves))
    }
}

impl LogSpace for HeadSpace {
    fn hold(&self) -> Result<Box<dyn LogHold + '_>, DmuError> {
        let tx = self.gate.begin(TxCost::default())?;
        self.set.mark_dirty(&tx)?;
        Ok(Box::new(HeadHold { space: self, tx }))
    }

    fn write(&self, blocks: Vec<(BlockPointer, Arc<BlockBuffer>)>) -> Result<LogMark, IoError> {
        self.writer.pipeline().write_log_blocks(blocks)
    }

    fn flush(&self, mark: &LogMark) -> Result<(), IoError> {
        self.writer.pipeline().flush_log(mark)
    }

    fn durable_txg(&self) -> Txg {
        self.gate.synced_txg()
    }

    fn wait_durable(&self, txg: Txg) -> Result<(), DmuError> {
        self.gate.wait_synced(txg)
    }

    fn random_guid(&self) -> std::io::Result<[u64; 2]> {
        let mut bytes = [0; 16];
        self.env.fill_random(&mut bytes)?;
        let (first, second) = bytes.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        Ok([word(first), word(second)])
    }
}
