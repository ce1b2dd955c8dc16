//! Draws changes: most of them possible, some to be refused.

use super::change::{Change, Reach};
use super::model::Model;
use crate::random::Random;

/// Names of snapshots are drawn from so many, so that they meet when clones are promoted.
const SNAPSHOTS: u64 = 14;
/// Datasets; above this, more are destroyed than made.
const SETS_MAX: usize = 14;
/// Snapshots of all datasets; above this, more are destroyed than made.
const SNAPS_MAX: usize = 90;
/// Names of datasets have at most so many components: no name gets too long.
const DEPTH_MAX: usize = 5;

/// Draws one change of `model`; `None` if there is nothing that it could change.
pub fn draw(model: &Model, random: &mut Random, serial: u64) -> Option<Change> {
    let ours = || model.sets.values().filter(|set| !set.is_foreign);
    let (snaps, sets) = (
        ours().map(|set| set.snaps.len()).sum::<usize>(),
        ours().count(),
    );
    let is_crowded = snaps > SNAPS_MAX;
    match random.below(100) {
        0..26 if !is_crowded => Some(snapshot(model, random)),
        0..46 => destroy_snapshots(model, random),
        46..54 if sets <= SETS_MAX => clone_or_create(model, random, serial),
        46..57 => destroy(model, random),
        57..63 => promote(model, random),
        63..69 => roll_back(model, random),
        69..75 => rename(model, random, serial),
        75..79 => rename_snapshots(model, random),
        79..87 => hold(model, random),
        87..94 => bookmark(model, random, serial),
        _ => Some(Change::Quota {
            of: any_file_system(model, random),
            mebibytes: *random.choose(&[0, 500, 700]),
        }),
    }
}

/// A dataset of ours; the root is one.
fn any(model: &Model, random: &mut Random) -> String {
    let ours = model.sets.iter().filter(|(_, set)| !set.is_foreign);
    let ours: Vec<&String> = ours.map(|(name, _)| name).collect();
    (*random.choose(&ours)).clone()
}

pub(super) fn any_file_system(model: &Model, random: &mut Random) -> String {
    loop {
        let name = any(model, random);
        if !model.sets[&name].is_volume {
            return name;
        }
    }
}

/// A dataset and a place among its snapshots, if one is found.
fn any_snapshot(model: &Model, random: &mut Random) -> Option<(String, usize)> {
    for _ in 0..10 {
        let name = any(model, random);
        let count = model.sets[&name].snaps.len();
        if count > 0 {
            return Some((name, random.index(count)));
        }
    }
    None
}

/// The names of a dataset and a snapshot that does not wait to be destroyed.
fn lasting_snapshot(model: &Model, random: &mut Random) -> Option<(String, String)> {
    let (of, at) = any_snapshot(model, random)?;
    let snap = &model.sets[&of].snaps[at];
    (!snap.is_deferred).then(|| (of, snap.name.clone()))
}

fn snapshot_name(random: &mut Random) -> String {
    format!("o{}", random.below(SNAPSHOTS))
}

fn new_place(model: &Model, random: &mut Random, kind: char, serial: u64) -> Option<String> {
    let parent = any_file_system(model, random);
    let is_deep = parent.split('/').count() >= DEPTH_MAX;
    (!is_deep).then(|| format!("{parent}/{kind}{serial}"))
}

fn snapshot(model: &Model, random: &mut Random) -> Change {
    let recursive = random.below(4) == 0;
    let mut of = vec![any(model, random)];
    if !recursive && random.below(3) == 0 {
        let other = any(model, random);
        if other != of[0] {
            of.push(other);
        }
    }
    let name = snapshot_name(random);
    Change::Snapshot {
        of,
        name,
        recursive,
    }
}

fn destroy_snapshots(model: &Model, random: &mut Random) -> Option<Change> {
    let mut ranges = Vec::new();
    let (of, first) = any_snapshot(model, random)?;
    let snaps = &model.sets[&of].snaps;
    for turn in 0..=random.below(2) {
        let first = match turn {
            0 => first,
            _ => random.index(snaps.len()),
        };
        let count = random.below(4) as usize;
        let last = (first + count).min(snaps.len() - 1);
        ranges.push((snaps[first].name.clone(), snaps[last].name.clone()));
    }
    Some(Change::DestroySnapshots {
        of,
        ranges,
        recursive: random.below(5) == 0,
        defer: random.below(4) == 0,
    })
}

fn clone_or_create(model: &Model, random: &mut Random, serial: u64) -> Option<Change> {
    if random.below(3) == 0 {
        let is_volume = random.below(4) == 0;
        let kind = if is_volume { 'v' } else { 'd' };
        let name = new_place(model, random, kind, serial)?;
        return Some(Change::Create { name, is_volume });
    }
    let origin = lasting_snapshot(model, random)?;
    // A promoted clone of an encryption root becomes that root. Other clones that are not below it
    // cannot be promoted any more. Another test covers keys.
    let is_root = model.is_encrypted && !origin.0.contains('/');
    let name = new_place(model, random, 'c', serial)?;
    (!is_root).then_some(Change::Clone { origin, name })
}

fn destroy(model: &Model, random: &mut Random) -> Option<Change> {
    let name = any(model, random);
    let reach = *random.choose(&[Reach::Alone, Reach::Below, Reach::Clones, Reach::Clones]);
    name.contains('/')
        .then_some(Change::Destroy { name, reach })
}

fn promote(model: &Model, random: &mut Random) -> Option<Change> {
    let clones = model
        .sets
        .iter()
        .filter(|(_, set)| set.origin.is_some() && !set.is_foreign);
    let clones: Vec<&String> = clones.map(|(name, _)| name).collect();
    if clones.is_empty() || random.below(20) == 0 {
        let name = any(model, random);
        return Some(Change::Promote { name });
    }
    let name = (*random.choose(&clones)).clone();
    Some(Change::Promote { name })
}

fn roll_back(model: &Model, random: &mut Random) -> Option<Change> {
    let (of, at) = any_snapshot(model, random)?;
    let snaps = &model.sets[&of].snaps;
    let at = match random.below(2) {
        0 => snaps.len() - 1,
        _ => at,
    };
    (!snaps[at].is_deferred).then(|| Change::Rollback {
        to: snaps[at].name.clone(),
        with_newer: random.below(2) == 0,
        of,
    })
}

fn rename(model: &Model, random: &mut Random, serial: u64) -> Option<Change> {
    let from = any(model, random);
    let kind = from.rsplit('/').next().and_then(|own| own.chars().next());
    let to = new_place(model, random, kind?, serial)?;
    let depth = |name: &String| name.split('/').count();
    let deepest = model.below(&from).iter().map(depth).max()?;
    let is_deep = deepest - depth(&from) + depth(&to) > DEPTH_MAX + 1;
    (from.contains('/') && !is_deep).then_some(Change::Rename { from, to })
}

fn rename_snapshots(model: &Model, random: &mut Random) -> Option<Change> {
    let (of, from) = lasting_snapshot(model, random)?;
    let to = snapshot_name(random);
    let recursive = random.below(3) == 0;
    (from != to).then_some(Change::RenameSnapshots {
        of,
        from,
        to,
        recursive,
    })
}

fn hold(model: &Model, random: &mut Random) -> Option<Change> {
    let (of, at) = any_snapshot(model, random)?;
    let snap = &model.sets[&of].snaps[at];
    let is_release = !snap.tags.is_empty() && random.below(4) > 0;
    let tag = match snap.tags.first() {
        Some(tag) if is_release => tag.clone(),
        _ => format!("t{}", random.below(2)),
    };
    let is_drawn = is_release || !snap.is_deferred;
    is_drawn.then(|| Change::Hold {
        of: (of, snap.name.clone()),
        tag,
        is_release,
    })
}

fn bookmark(model: &Model, random: &mut Random, serial: u64) -> Option<Change> {
    let marked = model
        .sets
        .iter()
        .filter(|(_, set)| !set.marks.is_empty() && !set.is_foreign);
    let marked: Vec<&String> = marked.map(|(name, _)| name).collect();
    if !marked.is_empty() && random.below(2) == 0 {
        let of = (*random.choose(&marked)).clone();
        let marks: Vec<&String> = model.sets[&of].marks.keys().collect();
        let name = (*random.choose(&marks)).clone();
        return Some(Change::DestroyBookmark { of, name });
    }
    let of = lasting_snapshot(model, random)?;
    let name = format!("m{serial}");
    Some(Change::Bookmark { of, name })
}
