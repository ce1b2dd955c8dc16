//! Properties of pools: `zpool get` and `zpool list`.

use crate::errors::of_dsl;
use cenote_control::model::properties::{POOL, is_user_property};
use cenote_control::model::{
    ControlError, PoolRow, Property, PropertySelection, Response, Source, Value,
};
use cenote_dsl::{
    DatasetName, Dsl, FEATURE_VERSION, Stored, clone_totals, dedup_ratio, dedup_saved,
    dedup_table_size, dedup_totals,
};
use cenote_ondisk::features::FEATURES;
use std::path::Path;
use std::sync::Arc;

use super::compatibility::LATER_FEATURES;
use crate::devices::fragmentation::fragmentation;
use crate::devices::tree::{add_requests, shared_tree, vdev_tree};
use crate::registry::imported::Imported;
use crate::registry::table::Registry;

pub(crate) fn pool_list(
    registry: &Registry,
    names: &[String],
    selection: &PropertySelection,
    vdevs: bool,
) -> Result<Response, ControlError> {
    let (found, mut failures) = registry.named(names);
    let (mut pools, all) = (Vec::new(), registry.all());
    for imported in found {
        match pool_row(&imported, &all, selection, vdevs) {
            Ok(row) => pools.push(row),
            Err(error) => failures.push((imported.name().to_owned(), error)),
        }
    }
    Ok(Response::Pools { pools, failures })
}

/// A pool with the wanted properties, one of these `pools`.
pub(crate) fn pool_row(
    imported: &Imported,
    pools: &[Arc<Imported>],
    selection: &PropertySelection,
    vdevs: bool,
) -> Result<PoolRow, ControlError> {
    let pool = &imported.pool;
    let properties = match selection {
        PropertySelection::All => all_properties(imported)?,
        PropertySelection::Named(names) => {
            let mut properties = Vec::new();
            for name in names {
                properties.extend(property(imported, name)?);
            }
            properties
        }
    };
    Ok(PoolRow {
        properties,
        vdevs: vdevs.then(|| {
            let mut tree = shared_tree(pools, pool);
            add_requests(&mut tree.root, pool);
            let age = pool.env().monotonic().saturating_sub(imported.since);
            tree.root.counters.age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            tree
        }),
        ..imported.row()
    })
}

/// The last of the properties that `get all` shows.
const LAST_LISTED: &str = "last_scrubbed_txg";

fn all_properties(imported: &Imported) -> Result<Vec<Property>, ControlError> {
    let last = POOL.iter().position(|info| info.name == LAST_LISTED);
    let listed = &POOL[1..=last.unwrap_or(POOL.len() - 1)];
    let mut properties = Vec::new();
    for info in listed {
        properties.extend(property(imported, info.name)?);
    }
    for feature in FEATURES {
        let enabled = imported.dsl().features().get(feature.guid).is_some();
        if enabled || !LATER_FEATURES.contains(&feature.guid) {
            properties.extend(property(imported, &format!("feature@{}", feature.name))?);
        }
    }
    for (guid, feature) in imported.dsl().features().iter() {
        if cenote_ondisk::features::by_guid(guid).is_none() {
            properties.push(unsupported(imported.dsl(), guid, feature.is_active()));
        }
    }
    let set = imported.dsl().pool_properties().map_err(of_dsl)?;
    for name in set.user_names() {
        properties.extend(property(imported, name)?);
    }
    Ok(properties)
}

/// A feature that is unknown here.
fn unsupported(dsl: &Dsl, guid: &str, active: bool) -> Property {
    use cenote_dsl::FeatureTable;
    let table = dsl.features().get(guid).map(|feature| feature.table);
    let word = match (active, table) {
        (true, Some(FeatureTable::ForWrite)) => "readonly",
        _ => "inactive",
    };
    Property::new(&format!("unsupported@{guid}"), word, Source::Local)
}

/// One property; `None` for a name that no pool has.
fn property(imported: &Imported, name: &str) -> Result<Option<Property>, ControlError> {
    if let Some(feature) = name.strip_prefix("feature@") {
        return Ok(feature_property(imported.dsl(), name, feature));
    }
    if let Some(property) = size_property(imported, name)? {
        return Ok(Some(property));
    }
    if let Some(property) = import_property(imported, name) {
        return Ok(Some(property));
    }
    stored_property(imported.dsl(), name)
}

fn feature_property(dsl: &Dsl, name: &str, feature: &str) -> Option<Property> {
    let known = cenote_ondisk::features::by_name(feature);
    let guid = known.map_or(feature, |known| known.guid);
    let features = dsl.features();
    let state = features.get(guid);
    if known.is_none() && state.is_none() {
        return None;
    }
    Some(match state {
        Some(state) if state.is_active() => Property::new(name, "active", Source::Local),
        Some(_) => Property::new(name, "enabled", Source::Local),
        None => Property::new(name, "disabled", Source::Local),
    })
}

/// Sizes, ratios and counts.
fn size_property(imported: &Imported, name: &str) -> Result<Option<Property>, ControlError> {
    let dsl = imported.dsl();
    let space = || vdev_tree(&imported.pool).root.space;
    let number = match name {
        "size" => space().total,
        "allocated" => space().allocated,
        "free" => {
            let space = space();
            space.total.saturating_sub(space.allocated)
        }
        "capacity" => {
            let space = space();
            let used = u128::from(space.allocated) * 100;
            let total = u128::from(space.total.max(1));
            u64::try_from(used / total).unwrap_or(100)
        }
        "fragmentation" => fragmentation(&imported.pool, None).unwrap_or(u64::MAX),
        "expandsize" => imported.pool.expandable().values().sum(),
        "freeing" => dsl.freeing().map_err(of_dsl)?,
        "leaked" => dsl.leaked().map_err(of_dsl)?,
        "checkpoint" => {
            let space = imported.pool.space();
            space.values().map(|space| space.checkpoint).sum()
        }
        "dedupratio" => dedup_ratio(&dedup_totals(dsl).map_err(of_dsl)?),
        "dedupused" => dedup_totals(dsl).map_err(of_dsl)?.allocated,
        "dedupsaved" => dedup_saved(&dedup_totals(dsl).map_err(of_dsl)?),
        "dedup_table_size" => dedup_table_size(dsl).map_err(of_dsl)?,
        "bcloneused" => clone_totals(dsl).map_err(of_dsl)?.used,
        "bclonesaved" => clone_totals(dsl).map_err(of_dsl)?.saved,
        "bcloneratio" => clone_totals(dsl).map_err(of_dsl)?.ratio(),
        "last_scrubbed_txg" => dsl.last_scrubbed_txg().map_err(of_dsl)?.0,
        "usable" => dsl.usable_space().map_err(of_dsl)?,
        "used" => dsl.root().map_err(of_dsl)?.phys().used_bytes,
        "available" => dsl.root().map_err(of_dsl)?.available().map_err(of_dsl)?,
        "maxblocksize" => 16 << 20,
        "maxdnodesize" => 16 << 10,
        _ => return Ok(None),
    };
    Ok(Some(Property::read_only(name, number)))
}

/// What the import decided and the configuration says.
fn import_property(imported: &Imported, name: &str) -> Option<Property> {
    let pool = &imported.pool;
    let unset = || Property::new(name, Value::None, Source::Default);
    Some(match name {
        "name" => Property::read_only(name, pool.name()),
        "health" => Property::read_only(name, imported.health().word()),
        "guid" => Property::read_only(name, pool.guid().0),
        "load_guid" => Property::read_only(name, imported.load_guid),
        "readonly" => match pool.is_writable() {
            true => Property::read_only(name, "off"),
            false => Property::read_only(name, "on"),
        },
        "version" => match pool.uberblock().version {
            FEATURE_VERSION => unset(),
            version => Property::new(name, version, Source::Local),
        },
        "altroot" => match &imported.altroot {
            Some(root) => {
                let root = root.to_string_lossy().into_owned();
                Property::new(name, root, Source::Local)
            }
            None => unset(),
        },
        "cachefile" => match imported.cache_file() {
            // As by OpenZFS: the file that a pool without the property is in.
            Some(file) if imported.default_cache_file.as_deref() == Some(Path::new(&file)) => {
                unset()
            }
            Some(file) => Property::new(name, file, Source::Local),
            None => unset(),
        },
        "comment" => match &pool.remarks().0 {
            Some(comment) => Property::new(name, comment.as_str(), Source::Local),
            None => unset(),
        },
        "compatibility" => match &pool.remarks().1 {
            Some(text) => Property::new(name, text.as_str(), Source::Local),
            None => Property::new(name, "off", Source::Default),
        },
        _ => return None,
    })
}

const OFF_ON: [&str; 2] = ["off", "on"];
const FAIL_MODES: [&str; 3] = ["wait", "continue", "panic"];

/// What is set in the pool's properties, and user properties.
fn stored_property(dsl: &Arc<Dsl>, name: &str) -> Result<Option<Property>, ControlError> {
    let set = dsl.pool_properties().map_err(of_dsl)?;
    let stored = set.get(name);
    let words: &[&str] = match name {
        "delegation" | "autoreplace" | "listsnapshots" | "autoexpand" | "autotrim"
        | "multihost" => &OFF_ON,
        "failmode" => &FAIL_MODES,
        "dedup_table_quota" | "bootfs" | "ashift" => &[],
        name if is_user_property(name) => {
            return Ok(match stored {
                Some(Stored::Text(text)) => Some(Property::new(name, text.as_str(), Source::Local)),
                Some(Stored::Number(number)) => Some(Property::new(name, *number, Source::Local)),
                None => None,
            });
        }
        _ => return Ok(None),
    };
    let default = match name {
        "delegation" => 1,
        "dedup_table_quota" => u64::MAX,
        _ => 0,
    };
    let number = match stored {
        Some(Stored::Number(number)) => *number,
        _ => default,
    };
    let value = match usize::try_from(number).ok().and_then(|at| words.get(at)) {
        Some(word) => Value::from(*word),
        None if name == "bootfs" => boot_file_system(dsl, number).into(),
        None => Value::Number(number),
    };
    let source = match number == default {
        true => Source::Default,
        false => Source::Local,
    };
    Ok(Some(Property::new(name, value, source)))
}

fn boot_file_system(dsl: &Arc<Dsl>, object: u64) -> Option<String> {
    let dataset = dsl.dataset_of(cenote_base::ObjectId(object)).ok()?;
    let name: &DatasetName = dataset.name();
    Some(name.as_str().to_owned())
}
