//! The writer of a pool, and the steps of a write, over many blocks at once.
//!
//! Blocks are taken in *batches*. All cores encode the blocks of a batch; then one thread gives
//! them addresses in order, so that neighbours in a file become neighbours on the devices; then
//! their parity is computed and their joined fragments are handed to threads that wait for
//! devices. Meanwhile the next batch is being encoded. The bytes under way are bounded.

use super::encode::{Encoded, Encoder, Encoding, Stored};
use super::flight::{Carried, Flight};
use super::place::Placer;
use super::squeeze::Units;
use super::{Allocator, DedupTable, WriteRequest};
use crate::error::IoError;
use crate::pipeline::Pipeline;
use crate::repair_space::RepairSpace;
use cenote_base::{Env, Txg};
use cenote_ondisk::BlockPointer;
use cenote_vdev::{AllocationClass, VdevWrite};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Logical bytes of a batch, unless there are fewer blocks than cores in it.
const BATCH_BYTES: usize = 4 << 20;
/// Blocks of a batch at most.
const BATCH_BLOCKS: usize = 512;
/// Blocks of a batch at least, however large they are.
const BATCH_BLOCKS_MIN: usize = 4;
/// Stored bytes of metadata that may be on their way after the call.
const PENDING_BYTES_MAX: usize = 256 << 10;
/// Stored bytes that may be on their way to devices while more is being encoded.
const FLIGHT_BYTES_MAX: usize = 48 << 20;

/// A block's way through a call.
type Outcome = Option<Result<BlockPointer, IoError>>;

/// What a [`Writer`] is made of.
#[derive(Debug)]
pub struct WriterParts {
    /// The pool's pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Where salts and initialization vectors come from.
    pub env: Arc<dyn Env>,
    /// The allocator.
    pub allocator: Arc<dyn Allocator>,
    /// The tables of deduplicated blocks, if there are any.
    pub dedup: Option<Arc<dyn DedupTable>>,
    /// Keeps the space of blocks during repairs: what reads find wrong is written again from now
    /// on. `None` where nothing is repaired.
    pub repairs: Option<Arc<dyn RepairSpace>>,
}

/// Writes the blocks of a pool. A pool without one is only read.
#[derive(Debug)]
pub struct Writer {
    pipeline: Arc<Pipeline>,
    pub(super) allocator: Arc<dyn Allocator>,
    dedup: Option<Arc<dyn DedupTable>>,
    pub(super) encoding: Arc<Encoding>,
}

impl Writer {
    /// The writer of a pool, which is writable from now on.
    pub fn new(parts: WriterParts) -> Self {
        if let Some(space) = parts.repairs {
            parts.pipeline.healing.begin(space);
        }
        Self {
            pipeline: parts.pipeline,
            allocator: parts.allocator,
            encoding: Arc::new(Encoding::new(parts.env, parts.dedup.is_some())),
            dedup: parts.dedup,
        }
    }

    /// The pipeline that it writes through.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Writes blocks that are born in `txg`; results in the order of the requests.
    ///
    /// `pass` counts from 1 how often the txg's metadata has been written: from the second pass on
    /// blocks that were born in the same txg are rewritten in place where they fit. What was
    /// written is durable after [`settle`](Pipeline::settle) and the next flush of the vdevs.
    ///
    /// # Errors
    /// For each block by itself: no space, keys that are not loaded, or too few devices that took
    /// it; for a little metadata the last is reported later. The space of a block that failed stays
    /// taken until its txg is over.
    pub fn write(
        &self,
        txg: Txg,
        pass: u32,
        requests: Vec<WriteRequest>,
    ) -> Vec<Result<BlockPointer, IoError>> {
        let pipeline = &*self.pipeline;
        let encoder = Arc::new(self.encoder(txg, pass));
        let placer = Placer {
            allocator: self.allocator.as_ref(),
            txg,
            units: encoder.units,
            salt: pipeline.salt.get(),
            dedup: self.dedup.as_deref(),
            pipeline,
            fresh: RefCell::default(),
        };
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(requests.len());
        let mut flights: VecDeque<Flight> = VecDeque::new();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            if pipeline.writing.unflushed.is_full() {
                // If that fails for good, the commit says so.
                let _ = pipeline.make_durable();
            }
            let batch = take_batch(&mut requests);
            let is_last = requests.peek().is_none();
            let is_pending = is_last && batch.iter().all(is_metadata_block);
            let flight = self.launch(&encoder, &placer, batch, &mut outcomes, !is_pending);
            match is_pending && flight.bytes() <= PENDING_BYTES_MAX {
                true => pipeline.writing.pending.add(txg, flight, pipeline),
                false => flights.push_back(flight),
            }
            while flights.iter().map(Flight::bytes).sum::<usize>() > FLIGHT_BYTES_MAX {
                let landed = flights.pop_front().expect("something is under way");
                self.land(landed, &mut outcomes);
            }
        }
        for flight in flights {
            self.land(flight, &mut outcomes);
        }
        let results = outcomes.into_iter();
        results
            .map(|outcome| outcome.expect("each block was given a pointer or refused"))
            .collect()
    }

    fn encoder(&self, txg: Txg, pass: u32) -> Encoder {
        let vdevs = self.pipeline.vdevs();
        let concrete = vdevs.writable_tops();
        let is_normal = |vdev: &&_| vdevs.class(**vdev) == Some(AllocationClass::Normal);
        let sizes = concrete.iter().filter(is_normal);
        let sizes = sizes.filter_map(|vdev| vdevs.allocation_min(*vdev));
        Encoder {
            txg,
            pass,
            units: Units::of(sizes.map(|size| size as u64)),
            salt: self.pipeline.salt.get().cloned(),
            concrete,
            encoding: Arc::clone(&self.encoding),
        }
    }

    /// Encodes and places a batch and sends it off. Outcomes are added for all its blocks; those
    /// on their way are taken back if the flight fails.
    fn launch(
        &self,
        encoder: &Arc<Encoder>,
        placer: &Placer<'_>,
        batch: Vec<WriteRequest>,
        outcomes: &mut Vec<Outcome>,
        is_awaited: bool,
    ) -> Flight {
        let mut writes: Vec<(usize, VdevWrite)> = Vec::with_capacity(batch.len());
        let mut carried: Vec<Carried> = Vec::with_capacity(batch.len());
        let first = outcomes.len();
        let mut is_in_place = false;
        for (request, encoded) in self.encode(encoder, batch) {
            let index = outcomes.len();
            carried.push((request.bookmark, None));
            outcomes.push(Some(encoded.and_then(|encoded| match encoded {
                Encoded::Pointer(pointer) => Ok(pointer),
                Encoded::Stored(stored) => {
                    let Stored { bytes, .. } = &stored;
                    is_in_place |= stored.in_place_of.is_some();
                    self.pipeline.counters().blocks_written.add(1);
                    self.pipeline
                        .counters()
                        .bytes_written
                        .add(bytes.len() as u64);
                    let (pointer, own) = placer.place(&request, stored)?;
                    if !own.is_empty() {
                        carried[index - first].1 = Some(pointer);
                    }
                    writes.extend(own.into_iter().map(|write| (index, write)));
                    Ok(pointer)
                }
            })));
        }
        if is_in_place {
            self.pipeline.arrive();
        }
        Flight::start(&self.pipeline, writes, first, carried, is_awaited)
    }

    /// Waits for a batch to arrive and takes back the pointers of blocks that did not.
    fn land(&self, flight: Flight, outcomes: &mut [Outcome]) {
        for (index, error) in flight.land(&self.pipeline) {
            outcomes[index] = Some(Err(error));
        }
    }

    /// Encodes the blocks of a batch on all cores.
    fn encode(
        &self,
        encoder: &Arc<Encoder>,
        batch: Vec<WriteRequest>,
    ) -> Vec<(WriteRequest, Result<Encoded, IoError>)> {
        let encode = |encoder: &Encoder, request: WriteRequest| {
            let encoded = encoder.encode(&request);
            (request, encoded)
        };
        if batch.len() == 1 {
            let requests = batch.into_iter();
            return requests.map(|request| encode(encoder, request)).collect();
        }
        let encoder = Arc::clone(encoder);
        let workers = self.pipeline.writing.encoders();
        workers.map(batch, move |request| encode(&encoder, request))
    }
}

impl Pipeline {
    /// Waits until every write has arrived at the devices or failed. Then the vdevs know the leaves
    /// that missed it. [`settle`](Self::settle) says whether too many did.
    pub fn arrive(&self) {
        self.writing.pending.wait(self);
    }

    /// Waits until everything that was written has arrived at the devices.
    ///
    /// # Errors
    /// If too few devices took some metadata; its group must not be committed.
    pub fn settle(&self) -> Result<(), IoError> {
        self.writing.pending.settle(self)
    }
}

fn is_metadata_block(request: &WriteRequest) -> bool {
    request.level.0 > 0 || request.object_type.is_metadata()
}

/// The next blocks that are encoded together.
fn take_batch(requests: &mut impl Iterator<Item = WriteRequest>) -> Vec<WriteRequest> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for request in requests {
        bytes += request.data.len();
        batch.push(request);
        let is_full = bytes >= BATCH_BYTES && batch.len() >= BATCH_BLOCKS_MIN;
        if is_full || batch.len() >= BATCH_BLOCKS {
            break;
        }
    }
    batch
}
