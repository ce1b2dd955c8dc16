//! Going back to the values that came with a stream (format/3a 11).

use crate::common::Bench;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{RevertProperty, SetProperties, Setting, SyncContext, SyncTask};
use cenote_dsl::{DatasetName, DslError, Property, Stored};
use cenote_pool::{Pool, VdevShape};
use cenote_vdev::AllocationClass::Normal;

/// Puts values where receiving a stream does.
struct Receive {
    name: DatasetName,
    values: Vec<(&'static str, u64)>,
}

impl SyncTask for Receive {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        let table = context.mos().zap(dataset.directory().phys().properties)?;
        table.update(context.tx, "$hasrecvd", &ZapValue::from_u64(0))?;
        for (name, value) in &self.values {
            let key = format!("{name}$recvd");
            table.update(context.tx, &key, &ZapValue::from_u64(*value))?;
        }
        Ok(())
    }
}

fn value(pool: &Pool, name: &DatasetName, property: Property) -> u64 {
    let dataset = pool.dsl().dataset(name).expect("there");
    dataset.stored_number(property).expect("readable")
}

fn revert(pool: &Pool, name: &DatasetName, property: &str) {
    let task = RevertProperty {
        name: name.clone(),
        property: property.to_owned(),
    };
    pool.run_task(task).expect("reverted");
}

#[test]
fn received_values_are_in_effect_again() {
    let mut bench = Bench::new("received");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    let name = DatasetName::parse("received").expect("a name");
    let quota = 64 << 20;
    let values = vec![("compression", 15), ("quota", quota)];
    let task = Receive {
        name: name.clone(),
        values,
    };
    pool.run_task(task).expect("received");
    assert_eq!(value(&pool, &name, Property::Compression), 15);
    let set = |property: &str, number: Option<u64>| {
        let settings = vec![Setting {
            name: property.to_owned(),
            value: number.map(Stored::Number),
        }];
        let name = name.clone();
        pool.run_task(SetProperties { name, settings })
            .expect("set");
    };
    set("compression", Some(2));
    set("quota", Some(quota / 2));
    assert_eq!(value(&pool, &name, Property::Compression), 2);
    revert(&pool, &name, "compression");
    revert(&pool, &name, "quota");
    assert_eq!(value(&pool, &name, Property::Compression), 15);
    let dataset = pool.dsl().dataset(&name).expect("there");
    assert_eq!(
        dataset.directory().phys().quota,
        quota,
        "obeyed, not only shown"
    );
    // Inheriting hides the received value, going back shows it again.
    set("compression", None);
    assert_eq!(value(&pool, &name, Property::Compression), 1);
    revert(&pool, &name, "compression");
    assert_eq!(value(&pool, &name, Property::Compression), 15);
    // Without a received value it is the default.
    set("atime", Some(0));
    revert(&pool, &name, "atime");
    assert_eq!(value(&pool, &name, Property::Atime), 1);
    pool.export().expect("written");
    drop(pool);
    bench.check();
}
