//! Requests about faults.

use super::table::{Fault, Injections, Target};
use cenote_base::{Guid, Level, ObjectId, ObjsetId};
use cenote_control::model::{
    ControlError, InjectAct, InjectRefusal, Injected, InjectedError, InjectedLabel,
    InjectedMetadata, InjectedPlace, InjectedWork, Injection, InjectionRow, Response,
};
use cenote_control::protocol::Peer;
use cenote_injection::{
    BlockError, BlockFault, Chance, Delay, LabelPart, LeafError, LeafFault, LeafFaults, Work,
};
use cenote_ondisk::ObjectType;
use cenote_pool::Pool;
use cenote_registry::errors::{of_dsl, of_sync, parse_name, unchanged};
use cenote_registry::events::Events;
use cenote_registry::imported::Imported;
use cenote_registry::table::Registry;
use std::sync::Arc;
use std::time::Duration;

/// A delay of a request: at least, at most, and its lanes at most.
const LATENCY_MS: std::ops::RangeInclusive<u64> = 1..=3_600_000;
const LANES_MAX: u32 = 1000;
/// The longest pause of an import or export: a day.
const PAUSE_SECONDS_MAX: u64 = 86_400;
/// Dnodes in a block of dnodes: 16 KiB of 512 bytes each.
const DNODES_IN_BLOCK: u64 = 32;
/// Block pointers are 2 to the power of this long.
const POINTER_SHIFT: u32 = 7;
/// The object directory of the meta object set.
const OBJECT_DIRECTORY: u64 = 1;

/// Finds a vdev of a pool by a name, and says whether it is a leaf.
pub type LeafNamed<'a> = &'a dyn Fn(&Pool, &str) -> Option<(Guid, bool)>;

/// What requests about faults act on.
#[derive(Clone, Copy)]
pub struct Drill<'a> {
    injections: &'a Injections,
    events: &'a Events,
    registry: &'a Registry,
    leaf_named: LeafNamed<'a>,
}

impl<'a> Drill<'a> {
    /// The faults, the events that report them, the pools, and what finds their vdevs.
    pub fn new(
        (injections, events): (&'a Injections, &'a Events),
        registry: &'a Registry,
        leaf_named: LeafNamed<'a>,
    ) -> Self {
        Self {
            injections,
            events,
            registry,
            leaf_named,
        }
    }

    /// Carries out a request about faults.
    ///
    /// # Errors
    /// If the user is not root, or there is no such pool, device, file or fault.
    pub fn carry_out(self, act: &InjectAct, peer: Peer) -> Result<Response, ControlError> {
        if peer.uid != 0 && *act != InjectAct::List {
            return Err(InjectRefusal::NotRoot.into());
        }
        let rows = match act {
            InjectAct::List => self.injections.list(),
            InjectAct::Add { pool, fault, flush } => vec![self.add(pool, fault, *flush)?],
            InjectAct::Cancel { id } => self.cancel(*id)?,
            InjectAct::Flush => {
                for imported in self.registry.all() {
                    flush_caches(&imported)?;
                }
                return Ok(Response::Done);
            }
            InjectAct::Blame {
                pool,
                device,
                fault,
            } => {
                let imported = self.registry.pool(pool)?;
                let leaf = self.leaf_of(&imported, device)?;
                let blamed = imported.pool.blame(leaf, *fault, || true);
                blamed.map_err(unchanged)?;
                return Ok(Response::Done);
            }
        };
        Ok(Response::Injections { rows })
    }

    fn cancel(self, id: Option<u64>) -> Result<Vec<InjectionRow>, ControlError> {
        let is_meant = |fault: &Fault| id.is_none_or(|id| id == fault.row.id);
        let ended = self.injections.end(is_meant);
        if let Some(id) = id.filter(|_| ended.is_empty()) {
            return Err(InjectRefusal::NoSuchFault { id }.into());
        }
        for row in &ended {
            self.tell("sysevent.cenote.drill_end", row);
        }
        Ok(ended)
    }

    /// Notes among the events that a fault begins or ends.
    fn tell(self, class: &str, row: &InjectionRow) {
        if let Ok(imported) = self.registry.pool(&row.pool) {
            let about = vec![
                ("drill_id".to_owned(), format!("{:#x}", row.id)),
                ("drill".to_owned(), format!("\"{:?}\"", row.fault)),
            ];
            let _ = self.events.post_with(class, &imported.pool, about);
        }
        log::warn!("pool '{}': {class} {}: {:?}", row.pool, row.id, row.fault);
    }

    fn add(self, pool: &str, fault: &Injection, flush: bool) -> Result<InjectionRow, ControlError> {
        let pause = |seconds: u64| match (1..=PAUSE_SECONDS_MAX).contains(&seconds) {
            true => Ok(seconds),
            false => Err(ControlError::from(InjectRefusal::BadPause)),
        };
        let (injections, no_begin) = (self.injections, |_| ());
        let row = match fault {
            Injection::Import { seconds } => {
                let seconds = pause(*seconds)?;
                injections.add(pool, Injected::Import { seconds }, Target::Pause, no_begin)?
            }
            Injection::Export { seconds } => {
                let seconds = pause(*seconds)?;
                self.registry.pool(pool)?;
                injections.add(pool, Injected::Export { seconds }, Target::Pause, no_begin)?
            }
            _ => {
                let imported = self.registry.pool(pool)?;
                if flush {
                    flush_caches(&imported)?;
                }
                self.add_to_pool(&imported, fault)?
            }
        };
        self.tell("sysevent.cenote.drill_begin", &row);
        Ok(row)
    }

    /// The leaf that a name means.
    fn leaf_of(self, imported: &Imported, device: &str) -> Result<Guid, ControlError> {
        let device = device.to_owned();
        match (self.leaf_named)(&imported.pool, &device) {
            Some((guid, true)) => Ok(guid),
            Some(_) => Err(InjectRefusal::Group { device }.into()),
            None => Err(ControlError::NoSuchDevice {
                device,
                pool: imported.name().to_owned(),
            }),
        }
    }

    fn add_to_pool(
        self,
        imported: &Arc<Imported>,
        fault: &Injection,
    ) -> Result<InjectionRow, ControlError> {
        match fault {
            Injection::Device {
                device,
                error,
                work,
                label,
                per_million,
            } => {
                let leaf_fault = LeafFault {
                    error: leaf_error(*error),
                    work: leaf_work(*work),
                    chance: Chance::per_million(*per_million),
                    label: label.map(label_part),
                };
                let injected = |guid| Injected::Device {
                    guid,
                    error: *error,
                    work: *work,
                    label: *label,
                    per_million: *per_million,
                };
                self.add_to_leaf((imported, device), injected, |faults, id| {
                    faults.add(id, leaf_fault);
                })
            }
            Injection::Delay {
                device,
                latency_ms,
                lanes,
                work,
            } => {
                if !LATENCY_MS.contains(latency_ms) || !(1..=LANES_MAX).contains(lanes) {
                    return Err(InjectRefusal::BadDelay.into());
                }
                let delay = Delay {
                    latency: Duration::from_millis(*latency_ms),
                    lanes: *lanes,
                    work: leaf_work(*work),
                };
                let injected = |guid| Injected::Delay {
                    guid,
                    latency_ms: *latency_ms,
                    lanes: *lanes,
                };
                self.add_to_leaf((imported, device), injected, |faults, id| {
                    faults.add_delay(id, delay);
                })
            }
            Injection::Blocks {
                place,
                error,
                per_million,
                copies,
            } => add_to_blocks(
                self.injections,
                imported,
                place,
                (*error, *per_million, *copies),
            ),
            Injection::Import { .. } | Injection::Export { .. } => {
                unreachable!("pauses are in the list only")
            }
        }
    }

    fn add_to_leaf(
        self,
        (imported, device): (&Arc<Imported>, &str),
        injected: impl FnOnce(u64) -> Injected,
        begin: impl FnOnce(&LeafFaults, u64),
    ) -> Result<InjectionRow, ControlError> {
        let guid = self.leaf_of(imported, device)?;
        let faults = imported.pool.vdevs().faults_of(guid).cloned();
        let faults = faults.ok_or_else(|| ControlError::NoSuchDevice {
            device: device.to_owned(),
            pool: imported.name().to_owned(),
        })?;
        let target = Target::Leaf(Arc::downgrade(imported), Arc::clone(&faults));
        let begin = |id| begin(&faults, id);
        self.injections
            .add(imported.name(), injected(guid.0), target, begin)
    }
}

/// Empties the caches of a pool, so that what is read next comes from devices.
fn flush_caches(imported: &Imported) -> Result<(), ControlError> {
    // What is not on disk yet would be read from memory.
    sync(imported)?;
    imported.pool.cache().forget_all();
    Ok(())
}

fn sync(imported: &Imported) -> Result<(), ControlError> {
    if !imported.pool.is_writable() || imported.pool.suspended().is_some() {
        return Ok(());
    }
    let synced = imported.pool.sync();
    synced.map_err(|error| of_sync(imported.name(), error))
}

fn add_to_blocks(
    injections: &Injections,
    imported: &Arc<Imported>,
    place: &InjectedPlace,
    (error, per_million, copies): (InjectedError, u32, u8),
) -> Result<InjectionRow, ControlError> {
    // A file may have been written just now.
    sync(imported)?;
    let blocks = Blocks::of(imported, place)?;
    let fault = blocks.fault(error, per_million, copies)?;
    let injected = blocks.injected(error, per_million, copies);
    let target = Target::Blocks(Arc::downgrade(imported));
    let faults = imported.pool.cache().pipeline().faults();
    let begin = |id| faults.add(id, fault);
    injections.add(imported.name(), injected, target, begin)
}

fn leaf_error(error: InjectedError) -> LeafError {
    match error {
        InjectedError::Io => LeafError::Io,
        InjectedError::Nxio => LeafError::NoDevice,
        InjectedError::Checksum => LeafError::Checksum,
        InjectedError::Decompress => LeafError::Decompress,
        InjectedError::Decrypt => LeafError::Decrypt,
        InjectedError::Corrupt => LeafError::Corrupt,
        InjectedError::Dtl => LeafError::Missed,
        InjectedError::Noop => LeafError::Noop,
    }
}

fn leaf_work(work: InjectedWork) -> Option<Work> {
    match work {
        InjectedWork::All => None,
        InjectedWork::Read => Some(Work::Read),
        InjectedWork::Write => Some(Work::Write),
        InjectedWork::Free => Some(Work::Free),
        InjectedWork::Flush => Some(Work::Flush),
        InjectedWork::Probe => Some(Work::Probe),
    }
}

fn label_part(label: InjectedLabel) -> LabelPart {
    match label {
        InjectedLabel::Nvlist => LabelPart::Config,
        InjectedLabel::Pad1 => LabelPart::Pad1,
        InjectedLabel::Pad2 => LabelPart::Pad2,
        InjectedLabel::Uber => LabelPart::Uberblocks,
    }
}

/// The blocks that are meant, by their numbers.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    objset: u64,
    object: Option<u64>,
    kind: Option<ObjectType>,
    level: u8,
    range: Option<(u64, u64)>,
}

impl Blocks {
    fn of(imported: &Imported, place: &InjectedPlace) -> Result<Self, ControlError> {
        match place {
            InjectedPlace::File {
                dataset,
                object,
                level,
                bytes,
            } => Self::of_file(imported, dataset, (*object, *level), *bytes),
            InjectedPlace::Dnode {
                dataset,
                object,
                level,
            } => {
                let dataset = imported.dsl().dataset(&parse_name(dataset)?);
                let first = object / DNODES_IN_BLOCK;
                Ok(Self {
                    objset: dataset.map_err(of_dsl)?.objset_id().0,
                    object: Some(0),
                    kind: None,
                    level: *level,
                    range: (*level == 0).then_some((first, first)),
                })
            }
            InjectedPlace::Metadata {
                kind,
                level,
                blocks,
            } => {
                let (object, kind) = match kind {
                    InjectedMetadata::Mos => (None, None),
                    InjectedMetadata::Mosdir => (Some(OBJECT_DIRECTORY), None),
                    InjectedMetadata::Config => (None, Some(ObjectType::PACKED_NVLIST)),
                    InjectedMetadata::Bpobj => (None, Some(ObjectType::BPOBJ)),
                    InjectedMetadata::Spacemap => (None, Some(ObjectType::SPACE_MAP)),
                    InjectedMetadata::Metaslab => (None, Some(ObjectType::OBJECT_ARRAY)),
                    InjectedMetadata::Errlog => (None, Some(ObjectType::ERROR_LOG)),
                };
                Ok(Self {
                    objset: 0,
                    object,
                    kind,
                    level: *level,
                    range: *blocks,
                })
            }
            InjectedPlace::Bookmark {
                objset,
                object,
                level,
                start,
                end,
            } => Ok(Self {
                objset: *objset,
                object: Some(*object),
                kind: None,
                level: *level,
                range: Some((*start, *end)),
            }),
        }
    }

    fn of_file(
        imported: &Imported,
        dataset: &str,
        (object, level): (u64, u8),
        bytes: Option<(u64, u64)>,
    ) -> Result<Self, ControlError> {
        let refused = |reason: String| InjectRefusal::NoObject { object, reason };
        let dataset = imported.dsl().dataset(&parse_name(dataset)?);
        let dataset = dataset.map_err(of_dsl)?;
        let set = dataset.object_set().map_err(of_dsl)?;
        let dnode = set.dnode(ObjectId(object));
        let dnode = dnode.map_err(|error| refused(error.to_string()))?;
        let dnode = dnode.ok_or_else(|| refused("it does not exist".to_owned()))?;
        let number = |byte: u64| {
            let block = byte / dnode.data_block_size.max(1);
            let shift = u32::from(dnode.indirect_shift).saturating_sub(POINTER_SHIFT);
            block.checked_shr(shift * u32::from(level)).unwrap_or(0)
        };
        Ok(Self {
            objset: dataset.objset_id().0,
            object: Some(object),
            kind: None,
            level,
            range: bytes.map(|(first, last)| (number(first), number(last.max(first)))),
        })
    }

    fn fault(
        &self,
        error: InjectedError,
        per_million: u32,
        copies: u8,
    ) -> Result<BlockFault, ControlError> {
        let (start, end) = self.range.unwrap_or((0, u64::MAX));
        Ok(BlockFault {
            error: match error {
                InjectedError::Io => BlockError::Io,
                InjectedError::Checksum => BlockError::Checksum,
                InjectedError::Decompress => BlockError::Decompress,
                InjectedError::Decrypt => BlockError::Decrypt,
                _ => return Err(InjectRefusal::NotForBlocks.into()),
            },
            chance: Chance::per_million(per_million),
            objset: ObjsetId(self.objset),
            object: self.object.map(ObjectId),
            kind: self.kind,
            level: Level(self.level),
            blocks: start..=end,
            copies,
        })
    }

    fn injected(&self, error: InjectedError, per_million: u32, copies: u8) -> Injected {
        Injected::Blocks {
            objset: self.objset,
            object: self.object,
            object_type: self.kind.map(|kind| kind.0),
            level: self.level,
            blocks: self.range,
            error,
            per_million,
            copies,
        }
    }
}
