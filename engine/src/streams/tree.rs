//! A tree made like the sender's, before its increments are received (format/4 7.4).
//!
//! A package of a whole tree says which snapshots each dataset has. A local dataset corresponds to
//! one of the sender's if both have a snapshot with the same guid; names do not matter. The
//! comparison shows what the sender did since the last package: which clones were promoted, and
//! which snapshots and datasets were renamed or destroyed. The receive repeats these steps;
//! destroying needs `-F`.
//!
//! One step can block another: a name is still taken, a snapshot has a clone that will be
//! destroyed, a parent does not exist yet. So all due steps are tried again as long as one
//! succeeds. Names that block each other in a circle are resolved with temporary names. Steps that
//! fail are reported; the streams then show whether it matters.

use super::naming::name_here;
use super::nearest::{nearest, snapshot_by_guid};
use super::session::Session;
use super::steps::{Step, in_the_way};
use crate::datasets::destroy::{Destruction, destroy_dataset};
use crate::datasets::rename::{Renaming, rename_dataset};
use crate::errors::{of_dsl, parse_name};
use crate::registry::judge::Judge;
use crate::registry::walk::{is_within, walk_heads};
use crate::snapshots::change::change_snapshots;
use cenote_base::Guid;
use cenote_control::model::{Change, ControlError, ReceiveNaming, ReceiveNote, Response};
use cenote_dsl::{Dataset, DatasetName, Dsl, DslError};
use cenote_ondisk::stream::package::{Package, PackageDataset};
use cenote_ondisk::stream::{Begin, flags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most rounds of attempts for each dataset and snapshot.
const ROUNDS_EACH: usize = 2;

/// A dataset that is here.
#[derive(Debug)]
struct Local<'a> {
    name: DatasetName,
    /// The snapshot that it was cloned from.
    origin: Option<Guid>,
    /// Short names and guids.
    snapshots: Vec<(String, Guid)>,
    /// The package's entry for it.
    sent: Option<&'a PackageDataset>,
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    All,
    /// Datasets are renamed: parents that were missing are here now.
    Names,
}

impl Session<'_> {
    /// Makes the tree below the target as the package says that the sender's is, as far as that
    /// can be done without the streams. `sent` is the sender's name of the topmost dataset.
    pub fn align(&self, package: &Package, sent: &str, extent: Extent) -> Result<(), ControlError> {
        if !package.recursive || package.from_snapshot.is_none() || self.asked.dry_run {
            return Ok(());
        }
        let mut failures = BTreeMap::new();
        let mut rounds = None;
        loop {
            let locals = self.locals(package, sent)?;
            let count = locals
                .iter()
                .map(|local| 1 + local.snapshots.len())
                .sum::<usize>();
            let left = rounds.get_or_insert(count * ROUNDS_EACH + 2);
            let steps = self.due(&locals, package, sent, extent)?;
            if steps.is_empty() || *left == 0 {
                break;
            }
            *left -= 1;
            let mut done = 0;
            failures.clear();
            for step in &steps {
                match self.take(step) {
                    Ok(()) => {
                        done += 1;
                        self.link
                            .tell(ReceiveNote::Detail(format!("{}\nsuccess", step.text())));
                    }
                    Err(error) => {
                        failures.insert(step.clone(), error);
                    }
                }
                // It changes whose snapshots are whose.
                if done > 0 && matches!(step, Step::Promote(_)) {
                    break;
                }
            }
            if done == 0 && !self.give_way(&steps, &locals)? {
                break;
            }
        }
        if extent == Extent::All {
            self.complain(&failures);
        }
        Ok(())
    }

    fn complain(&self, failures: &BTreeMap<Step, ControlError>) {
        for (step, error) in failures {
            // The stream may create the parent later: that is no failure.
            if let (Step::RenameDataset(..), ControlError::NoSuchDataset { .. }) = (step, error) {
                continue;
            }
            let text = format!("{}\nfailed: {error}", step.text());
            self.link.tell(ReceiveNote::Complaint(text));
        }
    }

    /// The dataset here that the topmost one of a package becomes.
    fn top(&self, sent: &str) -> Result<DatasetName, ControlError> {
        let name = name_here(self.asked, sent, &format!("{sent}@x"));
        Ok(parse_name(&name)?.dataset())
    }

    /// All datasets from the topmost one downwards.
    fn locals<'p>(&self, package: &'p Package, sent: &str) -> Result<Vec<Local<'p>>, ControlError> {
        let mut owners = HashMap::new();
        for dataset in &package.datasets {
            let guids = dataset.snapshots.iter().map(|snapshot| snapshot.guid);
            owners.extend(guids.map(|guid| (guid, dataset)));
        }
        let top = self.top(sent)?;
        let imported = self.context.registry.writable_pool(top.pool())?;
        let (mut locals, mut failure) = (Vec::new(), None);
        walk_heads(imported.dsl(), |head| {
            if !is_within(head.name(), &top) || failure.is_some() {
                return;
            }
            match Local::of(head, &owners) {
                Ok(local) => locals.push(local),
                Err(error) => failure = Some(of_dsl(error)),
            }
        });
        failure.map_or(Ok(locals), Err)
    }

    /// The datasets below the topmost one, parents first, each with the sender's one.
    pub fn copies_below<'p>(
        &self,
        package: &'p Package,
        sent: &str,
    ) -> Result<Vec<(DatasetName, &'p PackageDataset)>, ControlError> {
        let top = self.top(sent)?;
        let locals = self.locals(package, sent)?.into_iter();
        let below = locals.filter(|local| local.name != top);
        Ok(below
            .filter_map(|local| Some((local.name, local.sent?)))
            .collect())
    }

    /// The due steps, in order.
    fn due(
        &self,
        locals: &[Local<'_>],
        package: &Package,
        sent: &str,
        extent: Extent,
    ) -> Result<Vec<Step>, ControlError> {
        let known: BTreeSet<Guid> = package
            .datasets
            .iter()
            .flat_map(|dataset| dataset.snapshots.iter().map(|snapshot| snapshot.guid))
            .collect();
        let (mut promotions, mut steps) = (Vec::new(), Vec::new());
        let mut renames = Vec::new();
        for local in locals {
            if let Some(to) = self.name_wanted(local, sent)? {
                renames.push(Step::RenameDataset(local.name.to_string(), to));
            }
            if extent == Extent::Names {
                continue;
            }
            if local.is_to_be_promoted() {
                promotions.push(Step::Promote(local.name.to_string()));
            }
            let destroys = self.asked.force;
            steps.extend(
                local
                    .snapshot_steps(&known)
                    .filter(|step| destroys || !matches!(step, Step::DestroySnapshot(_))),
            );
        }
        if extent == Extent::All && self.asked.force {
            // Children come behind their parents, and go first.
            let top = self.top(sent)?;
            let gone = |local: &&Local<'_>| local.sent.is_none() && local.name != top;
            let gone = locals.iter().rev().filter(gone);
            steps.extend(gone.map(|local| Step::DestroyDataset(local.name.to_string())));
        }
        // Promote first: the other steps depend on which dataset has which snapshot.
        if !promotions.is_empty() {
            return Ok(promotions);
        }
        steps.extend(renames);
        Ok(steps)
    }

    /// The new name of a dataset, if it needs one.
    fn name_wanted(&self, local: &Local<'_>, sent: &str) -> Result<Option<String>, ControlError> {
        let Some(dataset) = local.sent else {
            return Ok(None);
        };
        let name = String::from_utf8_lossy(&dataset.name);
        let wanted = name_here(self.asked, sent, &format!("{name}@x"));
        let wanted = parse_name(&wanted)?.dataset();
        Ok((wanted != local.name).then(|| wanted.to_string()))
    }

    /// The dataset that a stream is for, whose name follows from the sender's. What could not be
    /// renamed yet, or is below something else here, is found by its snapshots.
    pub fn place_of(
        &self,
        begin: &Begin,
        package: Option<&PackageDataset>,
        name: DatasetName,
    ) -> Result<DatasetName, ControlError> {
        let imported = self.context.registry.writable_pool(name.pool())?;
        let is_there = |name: &DatasetName| match imported.dsl().dataset(name) {
            Ok(_) => Ok(true),
            Err(DslError::NoSuchDataset { .. }) => Ok(false),
            Err(error) => Err(of_dsl(error)),
        };
        // A complete name in the command is used as it is.
        let is_named = package.is_none() && self.asked.naming == ReceiveNaming::Below;
        if is_named || (package.is_some() && self.asked.dry_run) || is_there(&name)? {
            return Ok(name);
        }
        let top = parse_name(&self.asked.target)?.dataset();
        let is_increment = begin.from_guid.0 != 0 && begin.flags & flags::CLONE == 0;
        if is_increment {
            let found = owner_below(imported.dsl(), (&name, &top), begin.from_guid)?;
            let found = match found {
                Some(found) => Some(found),
                // It may have been moved out of the target; several copies would be a guess.
                None => only_owner(imported.dsl(), begin)?,
            };
            return Ok(found.unwrap_or(name));
        }
        let (Some(package), Some(parent)) = (package, name.parent()) else {
            return Ok(name);
        };
        if package.parent_from_snapshot.0 == 0 || is_there(&parent)? {
            return Ok(name);
        }
        let guid = package.parent_from_snapshot;
        match owner_below(imported.dsl(), (&parent, &top), guid)? {
            Some(parent) => parse_name(&format!("{parent}/{}", name.last_component())),
            None => Ok(name),
        }
    }

    /// Makes a dataset that the sender made since, as a clone, and promoted: its snapshots are here
    /// already, those of what it was cloned from. Without this it would come whole, and what it
    /// was cloned from would keep its snapshots, and be no clone.
    pub fn adopt(
        &self,
        package: &Package,
        (told, sent): (&PackageDataset, &str),
        name: &DatasetName,
    ) -> Result<(), ControlError> {
        if !package.recursive || package.from_snapshot.is_none() || self.asked.dry_run {
            return Ok(());
        }
        let locals = self.locals(package, sent)?;
        let is_same = |local: &Local<'_>| local.sent.is_some_and(|sent| sent.guid == told.guid);
        if locals
            .iter()
            .any(|local| is_same(local) || local.name == *name)
        {
            return Ok(());
        }
        let Some(origin) = locals.iter().find_map(|local| local.handed_over(told)) else {
            return Ok(());
        };
        let made = self.take(&Step::Clone(origin, name.to_string()));
        let promoted = made.and_then(|()| {
            let promote = Step::Promote(name.to_string());
            let promoted = self.take(&promote);
            if promoted.is_err() {
                self.take(&Step::DestroyDataset(name.to_string()))?;
            }
            promoted
        });
        match promoted {
            Ok(()) => {
                self.mount_new(name)?;
                // Snapshots of it may have other names.
                self.align(package, sent, Extent::All)
            }
            Err(error) => {
                let text = format!("{name} is not made as a clone, but received whole: {error}");
                self.link.tell(ReceiveNote::Complaint(text));
                Ok(())
            }
        }
    }

    /// Refuses a step if the user may not make such a change.
    fn check_step(&self, step: &Step) -> Result<(), ControlError> {
        let Some(rights) = &self.by.rights else {
            return Ok(());
        };
        let judge = Judge {
            registry: &self.context.registry,
            mounts: self.mounts,
            rights,
        };
        judge.change(&step.change())
    }

    fn take(&self, step: &Step) -> Result<(), ControlError> {
        self.check_step(step)?;
        let by = &self.by.unnoted();
        let (context, mounts) = (self.context, self.mounts);
        let force = self.asked.force_unmount;
        let answer = match step.change() {
            Change::Snapshots(change) => change_snapshots(context, mounts, change, by),
            Change::DestroyDataset { dataset, .. } => {
                self.refuse_children(&dataset)?;
                let how = Destruction {
                    recursive: true,
                    clones: false,
                    force,
                    dry_run: false,
                };
                destroy_dataset(context, mounts, &dataset, how, by)
            }
            Change::RenameDataset { from, to, .. } => {
                let how = Renaming {
                    parents: false,
                    force,
                    unmounted: false,
                };
                rename_dataset(context, mounts, &from, &to, how, by)
            }
            other => Err(ControlError::Internal {
                detail: format!("{other:?} is no step of a receive"),
            }),
        };
        match answer? {
            Response::Failures { mut failures, .. } if !failures.is_empty() => {
                Err(failures.swap_remove(0).1)
            }
            _ => Ok(()),
        }
    }

    /// A dataset that goes does not take what is below it along: that may be on its way elsewhere.
    fn refuse_children(&self, name: &str) -> Result<(), ControlError> {
        let below = self.context.registry.names_below(name, true)?;
        match below.len() {
            0 | 1 => Ok(()),
            _ => Err(ControlError::DatasetBusy {
                dataset: name.to_owned(),
            }),
        }
    }

    /// Gives a temporary name to one dataset or snapshot whose new name is taken, or is below its
    /// old one, so that its old name becomes free; or else to the one that has the name. Returns
    /// whether there was one.
    fn give_way(&self, steps: &[Step], locals: &[Local<'_>]) -> Result<bool, ControlError> {
        let number = std::process::id();
        let is_taken = |name: &String| {
            locals.iter().any(|local| {
                let is_snapshot =
                    |(short, _): &(String, Guid)| format!("{}@{short}", local.name) == *name;
                local.name.as_str() == name || local.snapshots.iter().any(is_snapshot)
            })
        };
        for name in in_the_way(steps, is_taken) {
            let at = name.rfind(['/', '@']);
            let Some((above, own)) = at.map(|at| name.split_at(at + 1)) else {
                continue;
            };
            // A name that is one of ours already would never come to an end; the topmost stays.
            if own.starts_with("recv-") || locals.first().is_some_and(|top| top.is_named(name)) {
                continue;
            }
            let step: fn(String, String) -> Step = match above.ends_with('@') {
                true => Step::RenameSnapshot,
                false => Step::RenameDataset,
            };
            for count in 1..=locals.len() as u64 + 1 {
                let to = format!("{above}recv-{number}-{count}");
                if !is_taken(&to) {
                    if self.take(&step(name.clone(), to)).is_ok() {
                        return Ok(true);
                    }
                    break;
                }
            }
        }
        Ok(false)
    }
}

/// The dataset with a snapshot of this guid that is nearest to `to`, among `top` and all below it.
fn owner_below(
    dsl: &Arc<Dsl>,
    (to, top): (&DatasetName, &DatasetName),
    guid: Guid,
) -> Result<Option<DatasetName>, ControlError> {
    let found = nearest(dsl, guid, (to, top), |_| Ok(true)).map_err(of_dsl)?;
    Ok(found.map(|snapshot| snapshot.name().dataset()))
}

/// The dataset of the pool with the snapshot that a stream builds upon, if there is exactly one
/// beside the sender's own.
fn only_owner(dsl: &Arc<Dsl>, begin: &Begin) -> Result<Option<DatasetName>, ControlError> {
    let sender = String::from_utf8_lossy(&begin.to_name).into_owned();
    let sender = sender.split('@').next().unwrap_or_default();
    let (mut owners, mut failure) = (Vec::new(), None);
    walk_heads(dsl, |head| {
        if head.name().as_str() == sender || failure.is_some() {
            return;
        }
        match snapshot_by_guid(head, begin.from_guid) {
            Ok(Some(_)) => owners.push(head.name().clone()),
            Ok(None) => {}
            Err(error) => failure = Some(of_dsl(error)),
        }
    });
    match (failure, owners.len()) {
        (Some(error), _) => Err(error),
        (None, 1) => Ok(owners.pop()),
        (None, _) => Ok(None),
    }
}

impl<'p> Local<'p> {
    fn of(head: &Dataset, owners: &HashMap<Guid, &'p PackageDataset>) -> Result<Self, DslError> {
        let mut snapshots = Vec::new();
        for entry in head.listed_snapshots()? {
            let guid = head.open_snapshot(&entry)?.phys().guid;
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            snapshots.push((name, guid));
        }
        let origin = match head.directory().origin() {
            Some(origin) => Some(head.dsl().dataset_of(origin)?.phys().guid),
            None => None,
        };
        // The newest snapshot decides: older ones may be about to move to a clone.
        let sent = snapshots
            .iter()
            .rev()
            .find_map(|(_, guid)| owners.get(guid));
        Ok(Self {
            name: head.name().clone(),
            origin,
            sent: sent.copied(),
            snapshots,
        })
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.as_str() == name
    }

    /// The snapshot of this that the sender has as one of `other`'s, of which it made this a clone.
    fn handed_over(&self, other: &PackageDataset) -> Option<String> {
        let origin = self.sent?.origin?;
        let is_other = |guid: Guid| other.snapshots.iter().any(|of| of.guid == guid);
        let own = self.snapshots.iter().find(|(_, guid)| *guid == origin);
        let (name, _) = own.filter(|_| is_other(origin))?;
        Some(format!("{}@{name}", self.name))
    }

    /// Whether the sender has what this is a clone of as a snapshot of this itself.
    fn is_to_be_promoted(&self) -> bool {
        let (Some(origin), Some(sent)) = (self.origin, self.sent) else {
            return false;
        };
        sent.snapshots
            .iter()
            .any(|snapshot| snapshot.guid == origin)
    }

    /// The due steps for its snapshots.
    fn snapshot_steps(&self, known: &BTreeSet<Guid>) -> impl Iterator<Item = Step> {
        self.snapshots.iter().filter_map(move |(name, guid)| {
            let full = format!("{}@{name}", self.name);
            if !known.contains(guid) {
                // A dataset that is destroyed takes its snapshots with it.
                return self.sent.map(|_| Step::DestroySnapshot(full));
            }
            let mut snapshots = self.sent?.snapshots.iter();
            let sent = snapshots.find(|snapshot| snapshot.guid == *guid)?;
            let wanted = String::from_utf8_lossy(&sent.name);
            let to = format!("{}@{wanted}", self.name);
            (wanted != *name).then_some(Step::RenameSnapshot(full, to))
        })
    }
}
