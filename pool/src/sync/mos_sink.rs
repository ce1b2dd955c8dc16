//! Where the blocks of the meta object set go, and how they are stored.

use cenote_base::Txg;
use cenote_base::rt::{Mutex, ranks};
use cenote_dmu::{BlockKind, BlockSink, PolicySource};
use cenote_dsl::write::PoolServices;
use cenote_dsl::{Dsl, DslError};
use cenote_io::{IoError, WritePolicy, WriteRequest};
use cenote_ondisk::ObjectType;
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind};
use cenote_vdev::AllocationClass;

/// From this pass on nothing is compressed, so that sizes stop changing (format/1d.5).
const PLAIN_PASS: u32 = 8;

/// How the blocks of the meta object set are stored (format/1d.7).
#[derive(Debug)]
pub(crate) struct MosPolicy {
    policy: WritePolicy,
    is_plain: bool,
}

impl MosPolicy {
    pub fn new(dsl: &Dsl, pass: u32) -> Self {
        let has = |guid| dsl.features().is_active(guid);
        let compression = match has(features::LZ4_COMPRESS) {
            true => CompressionKind::Lz4,
            false => CompressionKind::Lzjb,
        };
        let policy = WritePolicy {
            checksum: ChecksumKind::Fletcher4,
            compression,
            copies: 3,
            embed: has(features::EMBEDDED_DATA),
            hole_birth: has(features::HOLE_BIRTH),
            class: AllocationClass::Special,
            ..WritePolicy::default()
        };
        Self {
            policy,
            is_plain: pass >= PLAIN_PASS,
        }
    }
}

impl PolicySource for MosPolicy {
    fn policy(&self, block: &BlockKind) -> WritePolicy {
        let compression = match self.is_plain {
            true => CompressionKind::Off,
            false => block.compression.unwrap_or(self.policy.compression),
        };
        let class = match is_dedup_table(block) {
            true => AllocationClass::Dedup,
            false => self.policy.class,
        };
        WritePolicy {
            checksum: block.checksum.unwrap_or(self.policy.checksum),
            compression,
            class,
            ..self.policy
        }
    }
}

fn is_dedup_table(block: &BlockKind) -> bool {
    block.object_type == ObjectType::DDT_ZAP
}

/// What a pass gained and lost.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub born: Vec<BlockPointer>,
    pub died: Vec<BlockPointer>,
}

/// Writes the blocks of one pass.
pub(crate) struct MosSink<'a> {
    pool: &'a dyn PoolServices,
    exchange: Mutex<Exchange, ranks::MosExchange>,
    failure: Mutex<Option<DslError>, ranks::MosFailure>,
}

impl<'a> MosSink<'a> {
    pub fn new(pool: &'a dyn PoolServices) -> Self {
        Self {
            pool,
            exchange: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// What the pass gained and lost, or why a block could not be freed.
    pub fn finish(self) -> Result<Exchange, DslError> {
        let failure = self.failure.into_inner();
        match failure {
            Some(error) => Err(error),
            None => Ok(self.exchange.into_inner()),
        }
    }
}

/// Whether a block was written in the place of the one before.
fn took_over(previous: &BlockPointer, pointer: &BlockPointer) -> bool {
    let is_block = |pointer: &BlockPointer| !pointer.is_hole() && !pointer.is_embedded();
    is_block(previous)
        && is_block(pointer)
        && previous.physical_birth() == pointer.physical_birth()
        && previous.dva(0) == pointer.dva(0)
}

impl BlockSink for MosSink<'_> {
    fn write(&self, txg: Txg, requests: Vec<WriteRequest>) -> Vec<Result<BlockPointer, IoError>> {
        let previous: Vec<_> = requests.iter().map(|request| request.previous).collect();
        let results = self.pool.writer().write(txg, self.pool.pass(), requests);
        let mut exchange = self.exchange.lock();
        for (previous, result) in previous.iter().zip(&results) {
            let Ok(pointer) = result else { continue };
            if let Some(previous) = previous.filter(|previous| took_over(previous, pointer)) {
                exchange.died.push(previous);
            }
            exchange.born.push(*pointer);
        }
        results
    }

    fn free(&self, txg: Txg, pointer: &BlockPointer) {
        if pointer.is_hole() {
            return;
        }
        self.exchange.lock().died.push(*pointer);
        if let Err(error) = self.pool.free(txg, pointer) {
            self.failure.lock().get_or_insert(error);
        }
    }
}
