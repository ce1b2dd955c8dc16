//! Properties of vdevs: `zpool get PROPERTY POOL VDEV`.

use crate::errors::of_dsl;
use crate::registry::sitting::AUTOSIT;
use cenote_base::{Guid, ObjectId};
use cenote_control::model::properties::{VDEV, is_user_property};
use cenote_control::model::{
    ControlError, Property, PropertySelection, Response, Source, Value, Vdev, VdevKind, VdevRow,
    VdevState,
};
use cenote_dsl::{Stored, property::StoredProperties};
use cenote_ondisk::label::allocatable_size;
use cenote_pool::Pool;

use super::tree::{all_vdevs, answers_to, display_name, vdev_tree};
use crate::registry::table::Registry;

/// A limit that is not set.
const UNSET: u64 = u64::MAX;

pub(crate) fn vdev_get(
    registry: &Registry,
    pool: &str,
    names: &[String],
    selection: &PropertySelection,
) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    let tree = vdev_tree(&imported.pool);
    let mut all = all_vdevs(&tree);
    all.insert(0, &tree.root);
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    if names.is_empty() {
        for vdev in &all {
            rows.push(row(&imported.pool, vdev, &all, selection)?);
        }
    }
    for name in names {
        match all.iter().find(|vdev| answers_to(vdev, name)) {
            Some(vdev) => rows.push(row(&imported.pool, vdev, &all, selection)?),
            None => unknown.push(name.clone()),
        }
    }
    Ok(Response::Vdevs {
        pool: Box::new(imported.row()),
        vdevs: rows,
        unknown,
    })
}

/// Keys of the system in the same ZAP, which have a colon, too.
pub(crate) fn is_internal(name: &str) -> bool {
    const OWNERS: [&str; 5] = [
        "com.delphix:",
        "com.klarasystems:",
        "com.datto:",
        "org.openzfs:",
        "org.zfsonlinux:",
    ];
    OWNERS.iter().any(|owner| name.starts_with(owner))
}

fn row(
    pool: &Pool,
    vdev: &Vdev,
    all: &[&Vdev],
    selection: &PropertySelection,
) -> Result<VdevRow, ControlError> {
    let set = stored_of(pool, vdev)?;
    let named = |name: &str| property(pool, vdev, all, &set, name);
    let properties = match selection {
        PropertySelection::All => {
            let listed = VDEV.iter().skip(1).map(|info| info.name);
            let own = set.user_names().filter(|name| !is_internal(name));
            listed.chain(own).filter_map(named).collect()
        }
        PropertySelection::Named(names) => names.iter().filter_map(|name| named(name)).collect(),
    };
    let mut vdev = vdev.clone();
    vdev.children = Vec::new();
    Ok(VdevRow { vdev, properties })
}

/// What is set on the vdev: in its top-level ZAP if it has one, else in its leaf's.
fn stored_of(pool: &Pool, vdev: &Vdev) -> Result<StoredProperties, ControlError> {
    let tree = pool.vdev_tree();
    let config = match vdev.kind {
        VdevKind::Root => Some(&*tree),
        _ => tree.walk().find(|config| config.guid == Guid(vdev.guid)),
    };
    let zap: Option<ObjectId> = config.and_then(|config| match vdev.kind {
        VdevKind::Root => config.root_zap,
        _ => config.top_zap.or(config.leaf_zap),
    });
    match zap {
        Some(zap) => Ok(pool.dsl().vdev_properties(zap).map_err(of_dsl)?),
        None => Ok(StoredProperties::default()),
    }
}

fn property(
    pool: &Pool,
    vdev: &Vdev,
    all: &[&Vdev],
    set: &StoredProperties,
    name: &str,
) -> Option<Property> {
    if let Some(property) = nature(pool, vdev, all, name) {
        return Some(property);
    }
    let word = |flag: bool| if flag { "on" } else { "off" };
    Some(match name {
        "name" => Property::read_only(name, display_name(vdev)),
        "read_errors" => Property::read_only(name, vdev.counters.read_errors),
        "write_errors" => Property::read_only(name, vdev.counters.write_errors),
        "checksum_errors" => Property::read_only(name, vdev.counters.checksum_errors),
        "slow_ios" => Property::read_only(name, vdev.counters.slow_ios),
        "removing" => Property::read_only(name, word(vdev.removing)),
        "allocating" if is_below_top(vdev, all) => Property::read_only(name, Value::None),
        "allocating" => {
            let source = if vdev.no_allocation {
                Source::Local
            } else {
                Source::Default
            };
            Property::new(name, word(!vdev.no_allocation), source)
        }
        "failfast" => stored_flag(set, name, true),
        AUTOSIT if !matches!(vdev.kind, VdevKind::Raidz { .. } | VdevKind::Draid { .. }) => {
            return None;
        }
        AUTOSIT => stored_flag(set, name, false),
        "sit_out" => {
            let sits_out = pool.vdevs().sits_out(Guid(vdev.guid))?;
            let source = if sits_out {
                Source::Local
            } else {
                Source::Default
            };
            Property::new(name, word(sits_out), source)
        }
        "checksum_n" | "checksum_t" | "io_n" | "io_t" | "slow_io_n" | "slow_io_t" => {
            match set.get(name) {
                Some(Stored::Number(number)) if *number != UNSET => {
                    Property::new(name, *number, Source::Local)
                }
                _ => Property::new(name, Value::None, Source::Default),
            }
        }
        "raidz_expanding" if !matches!(vdev.kind, VdevKind::Raidz { .. }) => return None,
        "raidz_expanding" => Property::read_only(name, word(expanding(pool, vdev))),
        "trim_support" if vdev.kind.is_leaf() => {
            let word = if vdev.trim_unsupported { "off" } else { "on" };
            Property::read_only(name, word)
        }
        "trim_support" => Property::read_only(name, Value::None),
        name if name.ends_with("_ops") || name.ends_with("_bytes") => figures(pool, vdev, name),
        "initialize_errors" | "trim_errors" => Property::read_only(name, 0),
        name => return stored_text(set, name),
    })
}

/// What a vdev is, where, and how large.
fn nature(pool: &Pool, vdev: &Vdev, all: &[&Vdev], name: &str) -> Option<Property> {
    let space = vdev.space;
    let text = |text: Option<String>| match text {
        Some(text) => Property::read_only(name, text),
        None => Property::new(name, Value::None, Source::Default),
    };
    Some(match name {
        "capacity" => Property::read_only(
            name,
            space.allocated.saturating_mul(100) / space.total.max(1),
        ),
        "size" => Property::read_only(name, space.total),
        "allocated" => Property::read_only(name, space.allocated),
        "free" => Property::read_only(name, space.total.saturating_sub(space.allocated)),
        "state" => Property::read_only(name, state_word(vdev)),
        "guid" => Property::read_only(name, vdev.guid),
        "ashift" => Property::read_only(name, vdev.ashift),
        "asize" => Property::read_only(name, asize(pool, vdev)),
        "psize" => Property::read_only(name, space.physical),
        // OpenZFS shows by how much a vdev can grow in lists only.
        "expandsize" => Property::read_only(name, 0),
        "bootsize" => Property::new(name, 0, Source::Default),
        "fragmentation" => {
            let has_none = vdev.kind == VdevKind::Root || is_below_top(vdev, all);
            let unknown = if has_none { 0 } else { UNSET };
            Property::read_only(name, space.fragmentation.unwrap_or(unknown))
        }
        "parity" => Property::read_only(name, parity(vdev)),
        "path" => text(vdev.path.clone()),
        "devid" => text(vdev.device_id.clone()),
        "physpath" => text(vdev.physical_path.clone()),
        "encpath" | "fru" => text(None),
        "parent" => text(parent(pool, vdev, all)),
        "children" => {
            let names: Vec<_> = vdev.children.iter().map(display_name).collect();
            text(Some(names.join(",")).filter(|names| !names.is_empty()))
        }
        "numchildren" => Property::read_only(name, vdev.children.len() as u64),
        _ => return None,
    })
}

fn stored_text(set: &StoredProperties, name: &str) -> Option<Property> {
    match set.get(name) {
        Some(Stored::Text(text)) => Some(Property::new(name, text.as_str(), Source::Local)),
        Some(Stored::Number(number)) if is_user_property(name) => {
            Some(Property::new(name, *number, Source::Local))
        }
        _ => {
            let can_be_set = name == "comment" || is_user_property(name);
            can_be_set.then(|| Property::new(name, Value::None, Source::Default))
        }
    }
}

fn stored_flag(set: &StoredProperties, name: &str, default: bool) -> Property {
    let words = ["off", "on", "inherit"];
    match set.get(name) {
        Some(Stored::Number(number)) => {
            let word = usize::try_from(*number).ok().and_then(|at| words.get(at));
            Property::new(name, word.copied().unwrap_or("on"), Source::Local)
        }
        _ => Property::new(name, words[usize::from(default)], Source::Default),
    }
}

fn state_word(vdev: &Vdev) -> &'static str {
    match vdev.state {
        VdevState::Online => "ONLINE",
        VdevState::Degraded => "DEGRADED",
        VdevState::Faulted => "FAULTED",
        VdevState::Offline => "OFFLINE",
        VdevState::Removed => "REMOVED",
        VdevState::CantOpen | VdevState::Closed | VdevState::Unknown => "UNAVAIL",
    }
}

/// Whether a vdev is neither the root nor a top-level one; `all` begins with the root.
fn is_below_top(vdev: &Vdev, all: &[&Vdev]) -> bool {
    let root = all[0];
    vdev.guid != root.guid && root.children.iter().all(|top| top.guid != vdev.guid)
}

/// What the configuration says, and of devices below top-level vdevs what they have.
fn asize(pool: &Pool, vdev: &Vdev) -> u64 {
    let tree = pool.vdev_tree();
    let mut configs = tree.walk();
    let config = configs.find(|config| config.guid == Guid(vdev.guid));
    match config.map_or(0, |config| config.asize) {
        0 => allocatable_size(vdev.space.physical).unwrap_or(0),
        asize => asize,
    }
}

fn parity(vdev: &Vdev) -> u64 {
    match vdev.kind {
        VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => parity,
        _ => 0,
    }
}

fn parent(pool: &Pool, vdev: &Vdev, all: &[&Vdev]) -> Option<String> {
    let holds = |parent: &&&Vdev| parent.children.iter().any(|child| child.guid == vdev.guid);
    let parent = all.iter().find(holds)?;
    Some(match parent.kind {
        VdevKind::Root => pool.name().to_owned(),
        _ => display_name(parent),
    })
}

fn expanding(pool: &Pool, vdev: &Vdev) -> bool {
    let tree = pool.vdev_tree();
    let mut configs = tree.walk();
    configs.any(|config| config.guid == Guid(vdev.guid) && config.raidz_expanding)
}

/// Operations and bytes since import, summed over what is below.
fn figures(pool: &Pool, vdev: &Vdev, name: &str) -> Property {
    let status = pool.vdevs().status();
    let mut stack = vec![(&status, vdev.kind == VdevKind::Root)];
    let mut sum = 0u64;
    while let Some((node, within)) = stack.pop() {
        let within = within || node.guid == Guid(vdev.guid);
        if within && node.children.is_empty() {
            sum = sum.saturating_add(match name {
                "read_ops" => node.figures.read_operations,
                "read_bytes" => node.figures.read_bytes,
                "write_ops" => node.figures.write_operations,
                "write_bytes" => node.figures.write_bytes,
                _ => 0,
            });
        }
        stack.extend(node.children.iter().map(|child| (child, within)));
    }
    Property::read_only(name, sum)
}
