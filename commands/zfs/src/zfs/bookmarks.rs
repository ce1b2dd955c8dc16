//! `zfs bookmark`, and `zfs destroy` of bookmarks.

use super::change::ask;
use cenote_control::model::{
    Change, DatasetKind, Depth, KindSet, PropertySelection, Request, SnapshotChange,
};
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::with_context;

/// Prefixes a name without dataset with the dataset of `other`.
fn completed(name: &str, other: &str) -> String {
    match name.starts_with(['@', '#']) {
        true => {
            let dataset = other.split(['@', '#']).next().unwrap_or(other);
            format!("{dataset}{name}")
        }
        false => name.to_owned(),
    }
}

/// `zfs bookmark [-r] SNAPSHOT|BOOKMARK BOOKMARK`
pub fn create(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [source, bookmark] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    let (source, bookmark) = (completed(source, bookmark), completed(bookmark, source));
    let what = format!("cannot create bookmark '{bookmark}'");
    if !source.contains(['@', '#']) {
        return usage(format!(
            "invalid source name '{source}': must contain a '@' or '#'"
        ));
    }
    if !bookmark.contains('#') {
        return usage(format!(
            "invalid bookmark name '{bookmark}': must contain a '#'"
        ));
    }
    let recursive = parsed.has("r");
    if recursive && !source.contains('@') {
        return usage(format!(
            "invalid source name '{source}': -r needs a snapshot"
        ));
    }
    // The reference answers a missing source with the usage.
    if super::select::require(std::slice::from_ref(&source), context).is_err() {
        return usage("");
    }
    let change = Change::Snapshots(SnapshotChange::Bookmark {
        source,
        bookmark,
        recursive,
    });
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(&what, &error)),
    }
}

/// `zfs destroy [-npv] DATASET#BOOKMARK`
pub fn destroy(name: &str, parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    parsed.only(&["n", "p", "v"])?;
    let request = Request::DatasetList {
        roots: vec![name.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::of(DatasetKind::Bookmark),
        properties: PropertySelection::Named(Vec::new()),
    };
    let found = context.ask_datasets(request);
    if found.is_ok_and(|found| found.rows.is_empty()) {
        return failed(format!("bookmark '{name}' does not exist."));
    }
    let (dry_run, parsable) = (parsed.has("n"), parsed.has("p"));
    match (parsable, parsed.has("v"), dry_run) {
        (true, ..) => context.line(&format!("destroy\t{name}")),
        (false, true, true) => context.line(&format!("would destroy {name}")),
        (false, true, false) => context.line(&format!("will destroy {name}")),
        (false, false, _) => {}
    }
    if dry_run {
        return Ok(0);
    }
    let names = vec![name.to_owned()];
    let change = Change::Snapshots(SnapshotChange::DestroyBookmarks { names });
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(
            &format!("cannot destroy bookmark '{name}'"),
            &error,
        )),
    }
}
