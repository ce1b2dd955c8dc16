//! `zpool status -j`, and the parts about vdevs in other JSON output.

use cenote_control::model::{
    AllocationClass, CheckpointState, PoolStatus, RunState, Scan, ScanKind, SpareUse, Treatment,
    TreatmentState, Vdev, VdevAux, VdevNaming, VdevState,
};
use jiff::tz::TimeZone;

use super::numbers::Numbers;
use super::status_options::Options;
use super::status_texts::{article, status};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::property::Style;
use cenote_words::texts::{diagnosis_line, place_text};
use cenote_words::vdev_rows::{Section, healthy};

/// The classes in the order of JSON.
const CLASSES: [Section; 5] = [
    Section::Logs,
    Section::Special,
    Section::Dedup,
    Section::Cache,
    Section::Spares,
];

/// A class's key.
pub fn section_key(section: Section) -> &'static str {
    match section {
        Section::Cache => "l2cache",
        other => other.header(),
    }
}

/// All pools, by name or guid.
pub fn pools(pools: &[PoolStatus], options: &Options, zone: &TimeZone) -> Object {
    let numbers = Numbers {
        style: &options.style,
        zone,
    };
    let mut all = Object::new();
    for pool in pools {
        let well = pool
            .condition
            .as_ref()
            .is_none_or(|c| c.counts_as_healthy());
        if options.only_unhealthy && well {
            continue;
        }
        let key = if options.key_guid {
            pool.guid.to_string()
        } else {
            pool.name.clone()
        };
        all.put(&key, json_pool(pool, options, &numbers));
    }
    all
}

fn json_pool(pool: &PoolStatus, options: &Options, numbers: &Numbers<'_>) -> Object {
    let mut object = Object::new();
    object.put("name", pool.name.as_str());
    object.put("state", pool.health.word());
    object.put("pool_guid", numbers.exact(pool.guid));
    object.put("txg", numbers.exact(pool.txg));
    object.put("spa_version", numbers.exact(pool.version));
    object.put("zpl_version", numbers.exact(5));
    if let Some(condition) = &pool.condition {
        let (status, action) = status(condition);
        object.put("status", status.replace('\n', "\n\t") + "\n");
        object.put("action", action.replace('\n', "\n\t") + "\n");
        if let Some(id) = condition.message_id() {
            object.put("msgid", id);
            object.put("moreinfo", article(id));
        }
    }
    put_activities(&mut object, pool, numbers);
    put_vdevs(&mut object, pool, options, numbers);
    if !pool.outsiders.is_empty() {
        let lines = pool.outsiders.iter().map(diagnosis_line);
        object.put(
            "devices_not_used",
            lines.map(Json::from).collect::<Vec<Json>>(),
        );
    }
    if !pool.unread.is_empty() {
        let tables = pool.unread.iter().map(|table| Json::from(table.as_str()));
        object.put("damaged_metadata", tables.collect::<Vec<Json>>());
    }
    if !pool.stores.is_empty() {
        object.put("stores", cenote_words::stores::json(&pool.stores));
    }
    if let Some(dedup) = &pool.dedup {
        object.put("dedup_stats", super::status_dedup::json(dedup, numbers));
    }
    object.put("error_count", numbers.count(pool.error_count));
    if !pool.errors.is_empty() {
        let places = pool.errors.iter().map(|error| place_text(&error.place));
        object.put("errlist", places.map(Json::Text).collect::<Vec<_>>());
    }
    if !pool.intent_logs.is_empty() {
        object.put("intent_logs", json_intent_logs(pool, numbers));
    }
    object
}

fn json_intent_logs(pool: &PoolStatus, numbers: &Numbers<'_>) -> Object {
    let mut logs = Object::new();
    for report in &pool.intent_logs {
        let mut log = Object::new();
        log.put("records", numbers.exact(report.records));
        log.put("blocks", numbers.exact(report.blocks));
        log.put("bytes", numbers.exact(report.bytes));
        log.put("replayed", report.replayed);
        if let Some(applied) = report.applied {
            log.put("applied", numbers.exact(applied));
        }
        if let Some(reason) = &report.stopped {
            log.put("stopped", reason.as_str());
        }
        if let Some(reason) = &report.broken {
            log.put("broken", reason.as_str());
        }
        logs.put(&report.dataset, log);
    }
    logs
}

fn put_activities(object: &mut Object, pool: &PoolStatus, numbers: &Numbers<'_>) {
    if let Some(scan) = &pool.scan {
        object.put("scan_stats", json_scan(scan, numbers));
    }
    if let Some(removal) = &pool.removal {
        let mut stats = Object::new();
        stats.put("name", removal.vdev.clone().unwrap_or_default());
        stats.put("state", state_word(removal.state));
        stats.put("removing_vdev", numbers.exact(removal.vdev_id));
        stats.put("start_time", numbers.time(removal.start_time));
        stats.put("end_time", numbers.time(removal.end_time));
        stats.put("to_copy", numbers.bytes(removal.to_copy));
        stats.put("copied", numbers.bytes(removal.copied));
        stats.put("mapping_memory", numbers.bytes(removal.mapping_memory));
        object.put("removal_stats", stats);
    }
    if let Some(checkpoint) = pool.checkpoint {
        let mut stats = Object::new();
        match checkpoint {
            CheckpointState::Exists { time, space } => {
                stats.put("state", "EXISTS");
                stats.put("start_time", numbers.time(time));
                stats.put("space", numbers.bytes(space));
            }
            CheckpointState::Discarding { space } => {
                stats.put("state", "DISCARDING");
                stats.put("space", numbers.bytes(space));
            }
        }
        object.put("checkpoint_stats", stats);
    }
    if let Some(expand) = &pool.expand {
        let mut stats = Object::new();
        stats.put("name", expand.vdev.as_str());
        stats.put("state", state_word(expand.state));
        stats.put("start_time", numbers.time(expand.start_time));
        stats.put("end_time", numbers.time(expand.end_time));
        stats.put("to_reflow", numbers.bytes(expand.to_reflow));
        stats.put("reflowed", numbers.bytes(expand.reflowed));
        object.put("raidz_expand_stats", stats);
    }
}

fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "SCANNING",
        RunState::Finished => "FINISHED",
        RunState::Canceled => "CANCELED",
    }
}

fn json_scan(scan: &Scan, numbers: &Numbers<'_>) -> Object {
    let mut stats = Object::new();
    let (function, running) = match scan.kind {
        ScanKind::Scrub => ("SCRUB", "SCANNING"),
        ScanKind::Resilver => ("RESILVER", "SCANNING"),
        ScanKind::ErrorScrub => ("ERRORSCRUB", "ERRORSCRUBBING"),
    };
    stats.put("function", function);
    let state = match scan.state {
        RunState::Running => running,
        other => state_word(other),
    };
    stats.put("state", state);
    stats.put("start_time", numbers.time(scan.start_time));
    stats.put("end_time", numbers.time(scan.end_time));
    stats.put("to_examine", numbers.bytes(scan.to_examine));
    stats.put("examined", numbers.bytes(scan.examined));
    stats.put("skipped", numbers.bytes(scan.skipped));
    stats.put("processed", numbers.bytes(scan.processed));
    stats.put("errors", numbers.count(scan.errors));
    stats.put("bytes_per_scan", numbers.bytes(scan.pass_examined));
    stats.put("pass_start", numbers.exact(scan.pass_start));
    let pause = match scan.pause_time {
        0 if !numbers.style.exact => Json::from("-"),
        time => numbers.time(time),
    };
    stats.put("scrub_pause", pause);
    stats.put("scrub_spent_paused", numbers.exact(scan.paused_seconds));
    stats.put("issued_bytes_per_scan", numbers.bytes(scan.pass_issued));
    stats.put("issued", numbers.bytes(scan.issued));
    stats
}

fn put_vdevs(object: &mut Object, pool: &PoolStatus, options: &Options, numbers: &Numbers<'_>) {
    let tree = &pool.vdevs;
    if options.flat {
        let mut flat = Object::new();
        put_flat(&mut flat, pool, options, numbers);
        object.put("vdevs", flat);
        return;
    }
    let mut root = json_vdev(&tree.root, None, Section::Normal, options, numbers);
    root.replace("name", pool.name.as_str());
    let children = json_vdevs(
        Section::Normal.vdevs(tree),
        Section::Normal,
        options,
        numbers,
    );
    if !children.is_empty() {
        root.put("vdevs", children);
    }
    let mut vdevs = Object::new();
    vdevs.put(&pool.name, root);
    object.put("vdevs", vdevs);
    for section in CLASSES {
        let members = json_vdevs(section.vdevs(tree), section, options, numbers);
        if !members.is_empty() {
            object.put(section_key(section), members);
        }
    }
}

/// The vdevs to show, by name.
fn json_vdevs<'a>(
    vdevs: impl IntoIterator<Item = &'a Vdev>,
    section: Section,
    options: &Options,
    numbers: &Numbers<'_>,
) -> Object {
    let mut shown = Object::new();
    for vdev in vdevs {
        if !(options.only_errors && healthy(vdev, options.slow)) {
            let nested = json_nested(vdev, section, options, numbers);
            shown.put(&vdev.name(options.naming), nested);
        }
    }
    shown
}

/// Puts all vdevs into one object, children before parents, each with the name of its parent. As in
/// OpenZFS, a parent repeats its children in the same form.
fn put_flat(flat: &mut Object, pool: &PoolStatus, options: &Options, numbers: &Numbers<'_>) {
    let mut root = json_vdev(&pool.vdevs.root, None, Section::Normal, options, numbers);
    root.replace("name", pool.name.as_str());
    let mut below = Object::new();
    for vdev in Section::Normal.vdevs(&pool.vdevs) {
        put_flat_vdev(
            &mut below,
            vdev,
            Some(&pool.name),
            Section::Normal,
            options,
            numbers,
        );
    }
    if !below.is_empty() {
        flat.append(below.clone());
        root.put("vdevs", below);
    }
    flat.put(&pool.name, root);
    for section in CLASSES {
        for vdev in section.vdevs(&pool.vdevs) {
            put_flat_vdev(flat, vdev, None, section, options, numbers);
        }
    }
}

/// Puts a vdev after all its descendants: the decoder limits trees to four levels.
fn put_flat_vdev(
    flat: &mut Object,
    vdev: &Vdev,
    parent: Option<&str>,
    section: Section,
    options: &Options,
    numbers: &Numbers<'_>,
) {
    if options.only_errors && healthy(vdev, options.slow) {
        return;
    }
    let name = vdev.name(options.naming);
    let mut object = json_vdev(vdev, parent, section, options, numbers);
    let mut below = Object::new();
    for child in &vdev.children {
        put_flat_vdev(&mut below, child, Some(&name), section, options, numbers);
    }
    if !below.is_empty() {
        flat.append(below.clone());
        object.put("vdevs", below);
    }
    flat.put(&name, object);
}

/// A vdev and all its descendants: the decoder limits trees to four levels.
fn json_nested(vdev: &Vdev, section: Section, options: &Options, numbers: &Numbers<'_>) -> Object {
    let mut object = json_vdev(vdev, None, section, options, numbers);
    let children = json_vdevs(&vdev.children, section, options, numbers);
    if !children.is_empty() {
        object.put("vdevs", children);
    }
    object
}

/// Name, type, guid, path and class.
pub fn vdev_identity(vdev: &Vdev, section: Section, naming: VdevNaming, style: &Style) -> Object {
    let mut object = Object::new();
    object.put("name", vdev.name(naming));
    object.put("vdev_type", vdev.kind.word());
    object.put(
        "guid",
        cenote_words::format::json::number(vdev.guid, style.json_int),
    );
    if vdev.kind.is_leaf()
        && let Some(path) = &vdev.path
    {
        object.put("path", path.as_str());
    }
    if let Some(path) = &vdev.physical_path {
        object.put("phys_path", path.as_str());
    }
    if let Some(id) = &vdev.device_id {
        object.put("devid", id.as_str());
    }
    object.put("class", class_word(vdev, section));
    object
}

fn class_word(vdev: &Vdev, section: Section) -> &'static str {
    match (section, vdev.class) {
        (Section::Cache, _) => "l2cache",
        (Section::Spares, _) if vdev.state == VdevState::Online => "spare",
        (Section::Logs, _) | (_, AllocationClass::Log) => "log",
        (Section::Special, _) | (_, AllocationClass::Special) => "special",
        (Section::Dedup, _) | (_, AllocationClass::Dedup) => "dedup",
        _ => "normal",
    }
}

/// The state's name in JSON.
pub fn list_state(vdev: &Vdev) -> &'static str {
    match vdev.state {
        VdevState::Unknown => "UNKNOWN",
        VdevState::Closed => "CLOSED",
        VdevState::Offline => "OFFLINE",
        VdevState::Removed => "REMOVED",
        VdevState::CantOpen => "CANT_OPEN",
        VdevState::Faulted => "FAULTED",
        VdevState::Degraded => "DEGRADED",
        VdevState::Online => "ONLINE",
    }
}

fn json_vdev(
    vdev: &Vdev,
    parent: Option<&str>,
    section: Section,
    options: &Options,
    numbers: &Numbers<'_>,
) -> Object {
    let mut object = vdev_identity(vdev, section, options.naming, numbers.style);
    for (name, value) in options.said.get(&vdev.guid).into_iter().flatten() {
        object.put(name, value.as_str());
    }
    if section == Section::Spares {
        let state = match (&vdev.spare, vdev.state) {
            (Some(SpareUse::InUse | SpareUse::InUseBy(_)), _) => "INUSE",
            (_, VdevState::Online) => "AVAIL",
            _ => list_state(vdev),
        };
        object.put("state", state);
        if vdev.state != VdevState::Online && vdev.aux != VdevAux::None {
            object.put("aux", aux_key(vdev.aux));
        }
        put_treatments(&mut object, vdev, options, numbers);
        return object;
    }
    object.put("state", list_state(vdev));
    if let Some(parent) = parent {
        object.put("parent", parent);
    }
    let space = &vdev.space;
    let sizes = [
        ("alloc_space", space.allocated),
        ("total_space", space.total),
        ("def_space", space.deflated),
        ("rep_dev_size", space.replaceable),
        ("ex_dev_size", space.expandable),
        ("self_healed", vdev.counters.self_healed),
        ("phys_space", space.physical),
    ];
    for (key, size) in sizes.into_iter().filter(|(_, size)| *size != 0) {
        object.put(key, numbers.bytes(size));
    }
    object.put("read_errors", numbers.count(vdev.counters.read_errors));
    object.put("write_errors", numbers.count(vdev.counters.write_errors));
    let checksum_errors = numbers.count(vdev.counters.checksum_errors);
    object.put("checksum_errors", checksum_errors);
    if vdev.scan_processed != 0 {
        object.put("scan_processed", numbers.bytes(vdev.scan_processed));
    }
    if space.checkpoint != 0 {
        object.put("checkpoint_space", numbers.bytes(space.checkpoint));
    }
    if vdev.resilver_deferred {
        object.put("resilver_deferred", "true");
    }
    if vdev.kind.is_leaf() {
        object.put("slow_ios", numbers.count(vdev.counters.slow_ios));
    }
    put_condition(&mut object, vdev, numbers);
    if vdev.kind.is_leaf() {
        put_treatments(&mut object, vdev, options, numbers);
    }
    object
}

/// The errors and special conditions of a vdev.
fn put_condition(object: &mut Object, vdev: &Vdev, numbers: &Numbers<'_>) {
    if let (true, Some(path)) = (vdev.not_present, &vdev.path) {
        object.put("not_present", numbers.exact(1));
        object.put("was", path.as_str());
    } else if vdev.aux != VdevAux::None {
        object.put("aux", aux_key(vdev.aux));
    }
    if vdev.ashift < vdev.physical_ashift && vdev.kind.is_leaf() {
        object.put("configured_ashift", numbers.exact(vdev.ashift));
        object.put("physical_ashift", numbers.exact(vdev.physical_ashift));
    }
    if vdev.removing {
        object.put("removing", numbers.exact(1));
    } else if vdev.no_allocation {
        object.put("noalloc", numbers.exact(1));
    }
}

/// The progress of a device's initialization and trim, if requested.
fn put_treatments(object: &mut Object, vdev: &Vdev, options: &Options, numbers: &Numbers<'_>) {
    const INITIALIZE: [&str; 5] = [
        "init_state",
        "initialized",
        "to_initialize",
        "init_time",
        "init_errors",
    ];
    const TRIM: [&str; 5] = [
        "trim_state",
        "trimmed",
        "to_trim",
        "trim_time",
        "trim_errors",
    ];
    let mut put = |keys: [&str; 5], treatment: Option<&Treatment>, never: &str| {
        let Some(treatment) = treatment else {
            object.put(keys[0], never);
            return;
        };
        let state = match treatment.state {
            TreatmentState::Active => "ACTIVE",
            TreatmentState::Canceled => "CANCELED",
            TreatmentState::Suspended => "SUSPENDED",
            TreatmentState::Complete => "COMPLETE",
        };
        object.put(keys[0], state);
        object.put(keys[1], numbers.bytes(treatment.done));
        object.put(keys[2], numbers.bytes(treatment.total));
        object.put(keys[3], numbers.time(treatment.time));
        // A trim or initialization that meets an error is suspended, and the error counts as the
        // device's.
        object.put(keys[4], numbers.exact(0));
    };
    if options.initialize {
        put(INITIALIZE, vdev.initialize.as_ref(), "UNINITIALIZED");
    }
    if options.trim {
        let is_unsupported = vdev.trim_unsupported && vdev.trim.is_none();
        if !is_unsupported {
            put(TRIM, vdev.trim.as_ref(), "UNTRIMMED");
        }
        object.put("trim_notsup", numbers.exact(u64::from(is_unsupported)));
    }
}

fn aux_key(aux: VdevAux) -> &'static str {
    match aux {
        VdevAux::None => "NONE",
        VdevAux::OpenFailed => "OPEN_FAILED",
        VdevAux::CorruptData => "CORRUPT_DATA",
        VdevAux::NoReplicas => "NO_REPLICAS",
        VdevAux::BadGuidSum => "BAD_GUID_SUM",
        VdevAux::TooSmall => "TOO_SMALL",
        VdevAux::BadLabel => "BAD_LABEL",
        VdevAux::VersionNewer => "VERSION_NEWER",
        VdevAux::VersionOlder => "VERSION_OLDER",
        VdevAux::UnsupportedFeature => "UNSUP_FEAT",
        VdevAux::Spared => "SPARED",
        VdevAux::TooManyErrors => "ERR_EXCEEDED",
        VdevAux::IoFailure => "IO_FAILURE",
        VdevAux::BadLog => "BAD_LOG",
        VdevAux::External => "EXTERNAL",
        VdevAux::SplitPool => "SPLIT_POOL",
        VdevAux::BadAshift => "BAD_ASHIFT",
        VdevAux::ExternalPersistent => "EXTERNAL_PERSIST",
        VdevAux::Active => "ACTIVE",
        VdevAux::ChildrenOffline => "CHILDREN_OFFLINE",
        VdevAux::AshiftTooBig => "ASHIFT_TOO_BIG",
        VdevAux::Replaced => "REPLACED",
        VdevAux::Deleted => "DELETED",
    }
}
