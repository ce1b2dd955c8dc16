//! Whether a dataset may grow: quotas, reservations, and the space of the pool.
//!
//! The check runs in each transaction that makes a dataset larger. The ledger of
//! [room](cenote_dsl::Rooms) answers it from memory: from the space on disk, and from the space in
//! flight below each limited directory. If there may be room after more groups are on disk, the
//! transaction ends without a change, and another one begins after the next group.

use crate::error::{DatasetError, SpaceRefusal};
use cenote_base::{ObjectId, Txg};
use cenote_dmu::{DmuError, Transaction, TxCost, TxgGate};
use cenote_dsl::write::Head;
use cenote_dsl::{Answer, Dsl, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Data brings this share of itself in metadata, at most.
const METADATA_SHARE: u64 = 16;
/// Bytes that a transaction may take beside its data: a dnode, and a part of a directory.
const TRANSACTION_BYTES: u64 = 4 << 10;
/// The size of blocks if nothing else is known.
const BLOCK_SIZE: u64 = 128 << 10;

/// Says whether a dataset may grow.
#[derive(Debug)]
pub struct SpacePolicy {
    dsl: Arc<Dsl>,
    gate: Arc<TxgGate>,
    head: Arc<Head>,
    block_size: AtomicU64,
}

impl SpacePolicy {
    /// The policy of a head that is open.
    pub fn new(dsl: &Arc<Dsl>, gate: &Arc<TxgGate>, head: &Arc<Head>) -> Self {
        Self {
            dsl: Arc::clone(dsl),
            gate: Arc::clone(gate),
            head: Arc::clone(head),
            block_size: AtomicU64::new(BLOCK_SIZE),
        }
    }

    fn id(&self) -> ObjectId {
        self.head.id()
    }

    /// The size of the blocks that contents are written in.
    pub(crate) fn set_block_size(&self, bytes: u64) {
        self.block_size.store(bytes, Ordering::Relaxed);
    }

    /// Says how many bytes of contents there can be at most.
    pub(crate) fn set_most(&self, bytes: u64) {
        let copies = u64::from(self.head.policy().copies);
        let most = bytes.saturating_mul(copies);
        self.dsl.rooms().set_most(self.id(), most);
    }

    /// What `bytes` of contents take at worst: all copies, with parity and metadata.
    fn at_worst(&self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let block = self.block_size.load(Ordering::Relaxed);
        let copies = u64::from(self.head.policy().copies);
        let data = self.dsl.block_cost(bytes, block).saturating_mul(copies);
        data.saturating_add(data / METADATA_SHARE)
            .saturating_add(TRANSACTION_BYTES)
    }

    /// Begins a transaction that makes the dataset larger by about as much as `bytes` says of its
    /// group. Waits for groups that may give space back.
    pub(crate) fn begin(
        &self,
        bytes: impl Fn(Txg) -> u64,
        cost: TxCost,
    ) -> Result<Transaction, DatasetError> {
        let request = |txg| Request {
            bytes: self.at_worst(bytes(txg)),
            ..Request::default()
        };
        self.begin_request(request, cost)
    }

    /// The same for references to blocks that are stored already: they take no space of the pool,
    /// and count for quotas.
    pub(crate) fn begin_sharing(
        &self,
        bytes: u64,
        cost: TxCost,
    ) -> Result<Transaction, DatasetError> {
        let request = Request {
            bytes,
            is_shared: true,
            ..Request::default()
        };
        self.begin_request(|_| request, cost)
    }

    fn begin_request(
        &self,
        request: impl Fn(Txg) -> Request,
        cost: TxCost,
    ) -> Result<Transaction, DatasetError> {
        let mut first = None;
        loop {
            let tx = self.gate.begin(cost)?;
            let first = *first.get_or_insert(tx.txg());
            let rooms = self.dsl.rooms();
            match rooms.reserve(self.id(), tx.txg(), request(tx.txg()), first) {
                Answer::Fits => return Ok(tx),
                Answer::Refused(limit) => return Err(SpaceRefusal::from(limit).into()),
                Answer::Wait => drop(tx),
            }
            wait_for_group(&self.gate)?;
        }
    }

    /// Begins a transaction that makes the dataset smaller, or changes little.
    pub(crate) fn begin_freeing(&self, cost: TxCost) -> Result<Transaction, DmuError> {
        let tx = self.gate.begin(cost)?;
        self.dsl.rooms().note(self.id(), tx.txg());
        Ok(tx)
    }

    /// Whether so many bytes more can be written, of which nothing is taken. Waits as
    /// [`Self::begin`] does.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), DatasetError> {
        let request = Request {
            bytes,
            is_whole: true,
            ..Request::default()
        };
        let first = self.gate.open_txg();
        loop {
            match self.dsl.rooms().ask(self.id(), request, first) {
                Answer::Fits => return Ok(()),
                Answer::Refused(limit) => return Err(SpaceRefusal::from(limit).into()),
                Answer::Wait => wait_for_group(&self.gate)?,
            }
        }
    }

    /// Whether anything of the dataset is in flight.
    pub(crate) fn is_changing(&self) -> bool {
        self.dsl.rooms().is_changing(self.id())
    }
}

/// Waits for the next group to be on disk.
pub(crate) fn wait_for_group(gate: &TxgGate) -> Result<(), DmuError> {
    let Txg(synced) = gate.synced_txg();
    gate.wait_synced(Txg(synced + 1))
}
