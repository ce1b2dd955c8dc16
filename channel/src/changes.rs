//! What a program changes: each change is the task of a command, checked and carried out at once.

use super::view::View;
use cenote_dsl::property::parse::{SettingError, inherit_setting, parse_setting};
use cenote_dsl::write::{
    CreateBookmarks, CreateSnapshots, DestroyDataset, DestroySnapshots, PromoteDataset,
    RenameSnapshots, RollbackDataset, SetProperties, SyncContext, SyncTask,
};
use cenote_dsl::{Dataset, DatasetName, DslError, NameError, NameKind};
use cenote_program::{Answer, Errno, Operation};
use cenote_registry::approvals::ACTING;
use cenote_registry::values::purpose_of;

/// A change was not made.
pub(super) enum Refusal {
    /// The program gets this.
    Answer(Answer),
    /// The pool's metadata cannot be read in the middle of the change.
    Fatal(DslError),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Answer(Answer::refused(error))
    }
}

/// The numbers by which OpenZFS's programs know refusals.
fn errno_of(error: &DslError) -> Errno {
    match error {
        DslError::NoSuchDataset { .. } => Errno::ENOENT,
        DslError::DatasetExists { .. }
        | DslError::BookmarkExists { .. }
        | DslError::HasChildren { .. }
        | DslError::HasClones { .. }
        | DslError::MoreRecent { .. }
        | DslError::ConflictingSnapshots { .. } => Errno::EEXIST,
        DslError::Busy { .. }
        | DslError::Held { .. }
        | DslError::HasSnapshots { .. }
        | DslError::RootDataset { .. }
        | DslError::KeyBusy { .. } => Errno::EBUSY,
        DslError::NextGroup { .. } | DslError::SnapshotsOfSame { .. } => Errno::EAGAIN,
        DslError::NoSpaceFor { .. } | DslError::NoRoom { .. } => Errno::ENOSPC,
        DslError::AboveRefquota { .. } | DslError::LimitReached { .. } => Errno::EDQUOT,
        DslError::NameTooLong { .. } => Errno::ENAMETOOLONG,
        DslError::FeatureDisabled { .. } | DslError::Remapped { .. } => Errno::ENOTSUP,
        DslError::KeyRequired { .. } | DslError::KeyRefused { .. } => Errno::EACCES,
        error if error.is_damage() => Errno::EIO,
        _ => Errno::EINVAL,
    }
}

impl From<DslError> for Refusal {
    fn from(error: DslError) -> Self {
        let mut answer = Answer::refused(errno_of(&error));
        if let DslError::ConflictingSnapshots { names, .. } = error {
            answer.details = names;
        }
        Self::Answer(answer)
    }
}

/// Checks a task, and unless it is only that, carries it out.
fn carry_out(
    context: &SyncContext<'_>,
    mut task: impl SyncTask,
    is_dry: bool,
) -> Result<(), Refusal> {
    task.check(context)?;
    match is_dry {
        true => Ok(()),
        false => task.sync(context).map_err(Refusal::Fatal),
    }
}

/// A name of the pool.
fn name_of(view: &View<'_>, text: &str) -> Result<DatasetName, Refusal> {
    let name = match DatasetName::parse(text) {
        Ok(name) => name,
        Err(NameError::TooLong) => return Err(Errno::ENAMETOOLONG.into()),
        Err(_) => return Err(Errno::EINVAL.into()),
    };
    match name.pool() == view.imported.name() {
        true => Ok(name),
        false => Err(Errno::EXDEV.into()),
    }
}

/// A name of a kind. The kind is looked at first, as by OpenZFS.
fn name_of_kind(view: &View<'_>, text: &str, kind: NameKind) -> Result<DatasetName, Refusal> {
    match DatasetName::parse(text) {
        Ok(name) if name.kind() != kind => Err(Errno::EINVAL.into()),
        _ => name_of(view, text),
    }
}

/// Makes a change, or only checks it.
pub(super) fn change(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    operation: &Operation,
    is_dry: bool,
) -> Result<(), Refusal> {
    match operation {
        Operation::Destroy { dataset, defer } => destroy(view, context, (dataset, *defer), is_dry),
        Operation::Inherit { dataset, property } => {
            inherit(view, context, (dataset, property), is_dry)
        }
        Operation::Promote { dataset } => {
            let name = name_of_kind(view, dataset, NameKind::Head)?;
            carry_out(context, PromoteDataset { name }, is_dry)?;
            view.followers.has_snapshots |= !is_dry;
            Ok(())
        }
        Operation::RollBack { dataset } => roll_back(view, context, dataset, is_dry),
        Operation::SetProperty {
            dataset,
            property,
            value,
        } => set(view, context, dataset, (property, value), is_dry),
        Operation::Snapshot { dataset } => snapshot(view, context, dataset, is_dry),
        Operation::RenameSnapshot { dataset, from, to } => {
            rename(view, context, dataset, (from, to), is_dry)
        }
        Operation::Bookmark { source, bookmark } => {
            let bookmark = name_of_kind(view, bookmark, NameKind::Bookmark)?;
            let source = name_of(view, source)?;
            if source.kind() == NameKind::Head {
                return Err(Errno::EINVAL.into());
            }
            let bookmarks = vec![(source, bookmark)];
            carry_out(context, CreateBookmarks { bookmarks }, is_dry)
        }
    }
}

fn snapshot(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    name: &str,
    is_dry: bool,
) -> Result<(), Refusal> {
    let name = name_of_kind(view, name, NameKind::Snapshot)?;
    let head = context.dsl.dataset(&name.dataset())?;
    // It would lack what `fsync` promised before a crash.
    if view.unreplayed.contains(&head.id()) {
        return Err(Errno::EACCES.into());
    }
    let task = CreateSnapshots {
        names: vec![name],
        properties: Vec::new(),
    };
    carry_out(context, task, is_dry)
}

fn destroy(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    (name, defer): (&str, bool),
    is_dry: bool,
) -> Result<(), Refusal> {
    let name = name_of(view, name)?;
    if name.kind() == NameKind::Bookmark {
        return Err(Errno::EINVAL.into());
    }
    let dataset: Dataset = context.dsl.dataset(&name)?;
    if view.is_used(&dataset) {
        return Err(Errno::EBUSY.into());
    }
    if dataset.is_snapshot() {
        let names = vec![name];
        carry_out(context, DestroySnapshots { names, defer }, is_dry)?;
        view.followers.has_snapshots |= !is_dry;
        return Ok(());
    }
    if defer {
        return Err(Errno::EINVAL.into());
    }
    let guid = dataset.phys().guid;
    drop(dataset);
    carry_out(context, DestroyDataset { name }, is_dry)?;
    if !is_dry {
        view.followers.destroyed.push(guid);
        // A snapshot that waited for its last clone to go is destroyed with it.
        view.followers.has_snapshots = true;
    }
    Ok(())
}

fn roll_back(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    name: &str,
    is_dry: bool,
) -> Result<(), Refusal> {
    let name = name_of_kind(view, name, NameKind::Head)?;
    let head = context.dsl.dataset(&name)?;
    if view.is_used(&head) {
        return Err(Errno::EBUSY.into());
    }
    let Some(previous) = head.previous() else {
        return Err(Errno::ESRCH.into());
    };
    let snapshot = context.dsl.dataset_of(previous)?.name().clone();
    // A clone without snapshots has its origin before it, which is another dataset's.
    if snapshot.dataset() != name {
        return Err(Errno::ESRCH.into());
    }
    carry_out(context, RollbackDataset { snapshot }, is_dry)
}

fn rename(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    dataset: &str,
    (from, to): (&str, &str),
    is_dry: bool,
) -> Result<(), Refusal> {
    let head = name_of_kind(view, dataset, NameKind::Head)?;
    let old = name_of_kind(view, &format!("{dataset}@{from}"), NameKind::Snapshot)?;
    name_of_kind(view, &format!("{dataset}@{to}"), NameKind::Snapshot)?;
    let snapshot = context.dsl.dataset(&old)?;
    if view.is_used(&snapshot) {
        return Err(Errno::EBUSY.into());
    }
    let task = RenameSnapshots {
        datasets: vec![head],
        from: from.to_owned(),
        to: to.to_owned(),
    };
    carry_out(context, task, is_dry)?;
    view.followers.has_snapshots |= !is_dry;
    Ok(())
}

/// Sets a user property. One that may act on this machine needs a command, which approves it.
fn set(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    dataset: &str,
    (property, value): (&str, &str),
    is_dry: bool,
) -> Result<(), Refusal> {
    let name = name_of(view, dataset)?;
    if !property.contains(':') || name.kind() == NameKind::Bookmark {
        return Err(Errno::EINVAL.into());
    }
    if ACTING.contains(&property) {
        return Err(Errno::EPERM.into());
    }
    let dataset = context.dsl.dataset(&name)?;
    let purpose = purpose_of(&dataset).map_err(|_| Errno::EIO)?;
    let setting = parse_setting(property, value, purpose).map_err(|error| match error {
        SettingError::NameTooLong(_) => Errno::ENAMETOOLONG,
        SettingError::TooLong => Errno::E2BIG,
        _ => Errno::EINVAL,
    })?;
    let settings = vec![setting];
    carry_out(context, SetProperties { name, settings }, is_dry)
}

fn inherit(
    view: &mut View<'_>,
    context: &SyncContext<'_>,
    (dataset, property): (&str, &str),
    is_dry: bool,
) -> Result<(), Refusal> {
    let name = name_of(view, dataset)?;
    if name.kind() == NameKind::Bookmark {
        return Err(Errno::EINVAL.into());
    }
    let setting = inherit_setting(property).map_err(|_| Errno::EINVAL)?;
    let is_snapshot = name.kind() == NameKind::Snapshot;
    if is_snapshot && !property.contains(':') {
        return Err(Errno::EINVAL.into());
    }
    let task = SetProperties {
        name: name.clone(),
        settings: vec![setting],
    };
    carry_out(context, task, is_dry)?;
    if !is_dry {
        let inherited = &mut view.followers.inherited;
        inherited.push((name, property.to_owned()));
    }
    Ok(())
}
