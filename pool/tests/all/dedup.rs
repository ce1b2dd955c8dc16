//! Deduplicated blocks: written, shared, given up, in tables made here and by OpenZFS, and judged
//! by OpenZFS.

use crate::common::{self, Bench};
use cenote_base::{ObjectId, RealEnv};
use cenote_device::BlockBuffer;
use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{NewObject, Owner, OwnerHook, TxCost, Zap};
use cenote_dsl::write::{
    DestroyDataset, Head, SetPoolProperty, SetProperties, Setting, SyncContext, SyncTask,
};
use cenote_dsl::{DslError, Stored, dedup_totals, lost_dedup_figures};
use cenote_ondisk::ObjectType;
use cenote_ondisk::ddt::{DdtStatistics, HISTOGRAM_BUCKETS, histogram_to_words};
use cenote_ondisk::zap::fat_header::{FLAG_HASH64, FLAG_PRE_HASHED_KEY, FLAG_UINT64_KEY};
use cenote_pool::{Pool, VdevShape};
use cenote_tests::referee::judge;
use cenote_vdev::AllocationClass::Normal;
use std::path::Path;
use std::sync::Arc;

const RECORD: usize = 128 << 10;
/// Data whose objects no check looks into.
const DATA: ObjectType = ObjectType::OTHER_UINT8;
/// The values of the property: sha256 by default, and with a look at the bytes.
const ON: u64 = 1;
const VERIFY: u64 = 0x100 | 1;

#[derive(Debug)]
struct Nobody;

impl OwnerHook for Nobody {
    fn owner(&self, _: ObjectType, _: &[u8], _: Option<&[u8]>) -> Option<Owner> {
        None
    }
}

fn head(pool: &Pool) -> Arc<Head> {
    let root = pool.dsl().root().expect("read").head().expect("read");
    let dataset = root.expect("the root directory has a dataset");
    let gate = pool.gate().expect("open for writing");
    let head = pool.dsl().open_for_writing(&dataset, gate).expect("a head");
    head.set().set_owner_hook(Arc::new(Nobody));
    head
}

fn set(pool: &Pool, name: &str, value: u64) {
    let setting = Setting {
        name: name.to_owned(),
        value: Some(Stored::Number(value)),
    };
    let task = SetProperties {
        name: pool.dsl().pool_name().clone(),
        settings: vec![setting],
    };
    pool.run_task(task).expect("set");
}

/// Contents number `seed`; many compress.
fn record(seed: u64) -> BlockBuffer {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; RECORD];
    let filled = if seed.is_multiple_of(2) {
        RECORD
    } else {
        RECORD / 3
    };
    for chunk in bytes[..filled].chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    bytes.into()
}

/// Makes an object with these contents.
fn write(pool: &Pool, seeds: &[u64]) -> ObjectId {
    let head = head(pool);
    let tx = pool.gate().expect("writable").begin(TxCost::default());
    let tx = tx.expect("not suspended");
    let object = head
        .set()
        .allocate(&tx, NewObject::new(DATA, RECORD as u64));
    let object = object.expect("allocated");
    for (index, seed) in seeds.iter().enumerate() {
        let offset = (index * RECORD) as u64;
        object.write(&tx, offset, &record(*seed)).expect("written");
    }
    object.id()
}

fn sync(pool: &Pool) {
    let gate = pool.gate().expect("writable");
    gate.wait_synced(gate.request_sync()).expect("on disk");
}

fn free(pool: &Pool, id: ObjectId) {
    let head = head(pool);
    let tx = pool.gate().expect("writable").begin(TxCost::default());
    head.set()
        .free(&tx.expect("not suspended"), id)
        .expect("freed");
}

fn blocks(pool: &Pool) -> (u64, u64) {
    let totals = dedup_totals(pool.dsl()).expect("read");
    (totals.blocks, totals.referenced_blocks)
}

fn import(dir: &Path) -> Pool {
    let candidates = common::candidates(dir);
    let options = cenote_pool::ImportOptions {
        force: true,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imported")
}

#[test]
fn equal_blocks_are_stored_once() {
    for (name, value, copies) in [("dedup", ON, 1), ("dedupverify", VERIFY, 2)] {
        let mut bench = Bench::new(name);
        let vdev = bench.vdev(VdevShape::Mirror, Normal, 2);
        let pool = bench.create(vec![vdev]);
        set(&pool, "dedup", value);
        set(&pool, "copies", copies);
        let first = write(&pool, &[1, 2, 3, 4, 1]);
        sync(&pool);
        assert_eq!(blocks(&pool), (4, 5));
        let second = write(&pool, &[4, 3, 2, 9]);
        sync(&pool);
        assert_eq!(blocks(&pool), (5, 9));
        let set_of = head(&pool);
        let object = set_of.set().object(second).expect("there");
        let mut back = vec![0; RECORD];
        object.read(0, &mut back).expect("readable");
        assert!(record(4)[..] == back);
        pool.close().expect("written");
        drop((object, set_of, pool));
        bench.check();

        let pool = import(bench.dir.path());
        let third = write(&pool, &[1, 9]);
        free(&pool, first);
        sync(&pool);
        assert_eq!(blocks(&pool), (5, 6));
        pool.close().expect("written");
        drop(pool);
        bench.check();

        let pool = import(bench.dir.path());
        free(&pool, second);
        free(&pool, third);
        sync(&pool);
        assert_eq!(blocks(&pool), (0, 0), "the tables are gone");
        pool.close().expect("written");
        drop(pool);
        bench.check();
    }
}

/// Blocks that are known are shared all the same.
#[test]
fn full_tables_take_no_new_blocks() {
    let mut bench = Bench::new("dedupquota");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    let quota = |bytes: u64| {
        let task = SetPoolProperty {
            name: "dedup_table_quota".to_owned(),
            value: Stored::Number(bytes),
        };
        pool.run_task(task).expect("set");
    };
    set(&pool, "dedup", ON);
    write(&pool, &[1, 2, 3]);
    sync(&pool);
    assert_eq!(blocks(&pool), (3, 3));
    quota(4096);
    let file = write(&pool, &[1, 20, 21, 20]);
    sync(&pool);
    assert_eq!(
        blocks(&pool),
        (3, 4),
        "a known one, and three new ones apart"
    );
    quota(1 << 30);
    write(&pool, &[30, 30]);
    sync(&pool);
    assert_eq!(blocks(&pool), (4, 6));
    quota(4096);
    free(&pool, file);
    write(&pool, &[40]);
    sync(&pool);
    assert_eq!(blocks(&pool), (4, 5));
    quota(0);
    write(&pool, &[40]);
    sync(&pool);
    assert_eq!(blocks(&pool), (5, 6), "0 is none");
    pool.close().expect("written");
    bench.check();
}

const EMPTY: &str = "DDT-sha256-zap-duplicate";

fn named(context: &SyncContext<'_>, name: &str) -> Result<Zap, DslError> {
    let directory = context.mos().zap(ObjectId(1))?;
    let id = directory.lookup_u64(name)?.expect("in the directory");
    Ok(context.mos().zap(ObjectId(id))?)
}

/// Makes an empty table that has figures.
struct MakeEmpty;

impl SyncTask for MakeEmpty {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut new = NewObject::new(ObjectType::DDT_ZAP, 1 << 15);
        new.indirect_shift = 15;
        let object = context.mos().allocate(context.tx, new)?;
        let shape = NewZap {
            normflags: 0,
            flags: FLAG_HASH64 | FLAG_UINT64_KEY | FLAG_PRE_HASHED_KEY,
            block_shift: 15,
        };
        Zap::initialize(&object, context.tx, shape)?;
        let home = named(context, "DDT-sha256")?;
        home.insert_u64(context.tx, EMPTY.as_bytes(), object.id().0)?;
        let figures = histogram_to_words(&vec![DdtStatistics::default(); HISTOGRAM_BUCKETS]);
        let figures = ZapValue::from_u64s(&figures);
        named(context, "DDT-statistics")?.update(context.tx, EMPTY.as_bytes(), &figures)?;
        Ok(())
    }
}

/// A table that is not there has no figures.
struct IsGone;

impl SyncTask for IsGone {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for place in ["DDT-sha256", "DDT-statistics"] {
            let found = named(context, place)?.lookup(EMPTY.as_bytes())?;
            assert!(found.is_none(), "still in {place}");
        }
        Ok(())
    }

    fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }
}

/// OpenZFS leaves a table empty while another one of the same function has entries. A bug kept its
/// statistics when it was removed, and OpenZFS aborted when it created the table again.
#[test]
fn an_empty_table_goes_with_its_figures() {
    let mut bench = Bench::new("emptytable");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    set(&pool, "dedup", ON);
    write(&pool, &[1, 2]);
    sync(&pool);
    pool.run_task(MakeEmpty).expect("made");
    pool.close().expect("written");
    drop(pool);
    let pool = import(bench.dir.path());
    write(&pool, &[3]);
    sync(&pool);
    pool.run_task(IsGone).expect("gone");
    assert_eq!(blocks(&pool), (3, 3));
    pool.close().expect("written");
    drop(pool);
    bench.check();
}

/// Figures of a table that is not there.
struct MakeLost;

const LOST: &str = "DDT-skein-zap-unique";

impl SyncTask for MakeLost {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut figures = vec![DdtStatistics::default(); HISTOGRAM_BUCKETS];
        figures[0].blocks = 7;
        let figures = ZapValue::from_u64s(&histogram_to_words(&figures));
        named(context, "DDT-statistics")?.update(context.tx, LOST.as_bytes(), &figures)?;
        Ok(())
    }
}

/// Pools that were written before have such figures: they go with the next import.
#[test]
fn lost_figures_are_forgotten_at_import() {
    let mut bench = Bench::new("lostfigures");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    set(&pool, "dedup", ON);
    write(&pool, &[1, 2, 2]);
    sync(&pool);
    pool.run_task(MakeLost).expect("made");
    assert_eq!(blocks(&pool).0, 2 + 7);
    pool.close().expect("written");
    drop(pool);
    let pool = import(bench.dir.path());
    sync(&pool);
    assert_eq!(lost_dedup_figures(pool.dsl()).expect("read").len(), 0);
    assert_eq!(blocks(&pool), (2, 3));
    pool.close().expect("written");
    drop(pool);
    bench.check();
}

/// Destroys datasets of pools that OpenZFS made, with tables of both forms.
#[test]
fn tables_of_openzfs_are_kept_right() {
    for (kind, dataset) in [
        ("dedup", "gold_dedup/skein"),
        ("dedup", "gold_dedup/verify"),
        ("dedup-legacy", "gold_deduplegacy/data"),
    ] {
        let Some((dir, _)) = common::golden(kind) else {
            return;
        };
        let pool = import(dir.path());
        let before = blocks(&pool);
        let name = dataset.parse().expect("a dataset's name");
        pool.run_task(DestroyDataset { name }).expect("destroyed");
        // The blocks go in the background.
        (0..6).for_each(|round| common::change(&pool, round).expect("changed"));
        let after = blocks(&pool);
        println!("{dataset}: {before:?} {after:?}");
        assert!(after.1 < before.1, "{dataset}");
        let name = pool.name().to_owned();
        pool.export().expect("written");
        drop(pool);
        judge(dir.path(), &name);
    }
}
