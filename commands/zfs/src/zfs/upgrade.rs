//! `zfs upgrade`: the versions of file systems.

use cenote_control::model::{
    Change, Dataset, DatasetKind, Depth, KindSet, PropertySelection, Request, Response,
};

use super::select::{self, Selection};
use cenote_words::context::{Context, Outcome, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::with_context;

/// What each version added, from version 1 on.
const VERSIONS: [&str; 5] = [
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
];
/// The version of new file systems.
const CURRENT: u64 = VERSIONS.len() as u64;

/// `zfs upgrade [-v]`, `zfs upgrade [-r] [-V VERSION] -a|FILESYSTEM…`
pub fn upgrade(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    if parsed.has("v") {
        parsed.only(&["v"])?;
        if !parsed.operands.is_empty() {
            return usage("too many arguments");
        }
        list_versions(context);
        return Ok(0);
    }
    let wanted = match parsed.last("V") {
        None | Some("current") => CURRENT,
        Some(text) => match text.parse() {
            Ok(version @ 1..=CURRENT) => version,
            _ => return usage(format!("invalid version {text}")),
        },
    };
    let all = parsed.has("a");
    if all && !parsed.operands.is_empty() {
        return usage("too many arguments");
    }
    if !all && parsed.operands.is_empty() {
        parsed.only(&["V"])?;
        return list_outdated(context);
    }
    let depth = parsed.has("r").then_some(Depth::All).filter(|_| !all);
    let (rows, mut failed) = file_systems(&parsed.operands, depth, context);
    let (mut outdated, mut same) = (Vec::new(), 0);
    for row in rows {
        match version_of(&row) {
            Some(version) if version < wanted => outdated.push(row.name),
            Some(version) if version == wanted => same += 1,
            Some(version) => {
                let name = &row.name;
                context.complain(&format!(
                    "{name}: can not be downgraded; it is already at version {version}"
                ));
                failed = true;
            }
            None => {}
        }
    }
    let (upgraded, all_done) = set_version(&outdated, wanted, command, context);
    context.line(&format!("{upgraded} filesystems upgraded"));
    if same > 0 {
        context.line(&format!("{same} filesystems already at this version"));
    }
    Ok(u8::from(failed || !all_done))
}

/// Requests the change. Returns how many were changed, and whether all succeeded.
fn set_version(
    datasets: &[String],
    version: u64,
    command: String,
    context: &mut Context,
) -> (usize, bool) {
    if datasets.is_empty() {
        return (0, true);
    }
    let change = Change::SetProperties {
        datasets: datasets.to_vec(),
        properties: vec![("version".to_owned(), version.to_string())],
        unmounted: true,
    };
    let what = |name: &str| format!("cannot set property for '{name}'");
    match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&what(name), error));
            }
            let done = datasets.len().saturating_sub(failures.len());
            (done, failures.is_empty())
        }
        Ok(_) => (datasets.len(), true),
        Err(error) => {
            context.complain(&with_context(&what(&datasets[0]), &error));
            (0, false)
        }
    }
}

/// The named file systems, or all, and whether any was not found.
fn file_systems(
    operands: &[String],
    depth: Option<Depth>,
    context: &mut Context,
) -> (Vec<Dataset>, bool) {
    let only = KindSet::of(DatasetKind::Filesystem);
    let selection = Selection {
        operands: operands.to_vec(),
        kinds: only,
        operand_kinds: KindSet::HEADS,
        properties: PropertySelection::Named(vec!["version".to_owned()]),
        depth,
        paths: false,
        keys: Vec::new(),
    };
    let selected = select::select(&selection, context);
    let mut failed = selected.failed;
    let mut rows = selected.rows;
    rows.retain(|row| {
        let is_one = row.kind == DatasetKind::Filesystem;
        if !is_one && operands.contains(&row.name) {
            // As in OpenZFS: no file system with this name exists.
            context.complain(&format!(
                "cannot open '{}': dataset does not exist",
                row.name
            ));
            failed = true;
        }
        is_one
    });
    (rows, failed)
}

fn version_of(row: &Dataset) -> Option<u64> {
    let version = row.property("version")?;
    version.value.number()
}

fn list_versions(context: &mut Context) {
    context.line("The following filesystem versions are supported:\n");
    context.line("VER  DESCRIPTION");
    context.line("---  --------------------------------------------------------");
    for (words, version) in VERSIONS.iter().zip(1..) {
        context.line(&format!("{version:2}   {words}"));
    }
    context.line("\nFor more information on a particular version, including supported releases,");
    context.line("see the ZFS Administration Guide.\n");
}

fn list_outdated(context: &mut Context) -> Outcome {
    let (rows, failed) = file_systems(&[], None, context);
    context.line(&format!(
        "This system is currently running ZFS filesystem version {CURRENT}.\n"
    ));
    let outdated = rows.iter().filter_map(|row| {
        let version = version_of(row)?;
        (version < CURRENT).then(|| format!("{version:2}   {}", row.name))
    });
    let outdated: Vec<String> = outdated.collect();
    if outdated.is_empty() {
        context.line("All filesystems are formatted with the current version.");
        return Ok(u8::from(failed));
    }
    context.line(
        "The following filesystems are out of date, and can be upgraded.  After being\n\
         upgraded, these filesystems (and any 'zfs send' streams generated from\n\
         subsequent snapshots) will no longer be accessible by older software versions.\n\n\n\
         VER  FILESYSTEM\n\
         ---  ------------",
    );
    for line in outdated {
        context.line(&line);
    }
    Ok(u8::from(failed))
}
