//! What to send: looks up the names of a request, or its resume token, and checks them.

use super::words::other;
use crate::errors::{of_dsl, parse_name};
use crate::registry::imported::Imported;
use crate::registry::rights::Rights;
use crate::registry::table::Registry;
use crate::registry::walk::walk_heads;
use cenote_base::Guid;
use cenote_control::model::{ControlError, Send, StreamAct, StreamRefusal};
use cenote_dsl::resume_token;
use cenote_dsl::write::{KeptHead, RECEIVE_CHILD};
use cenote_dsl::{Bookmark, Dataset, DatasetName, Dsl, DslError, NameKind};
use cenote_ondisk::stream::ResumeToken;
use cenote_redaction::List;
use cenote_stream::send::package::PackageOptions;
use cenote_stream::send::{HEAD_SUFFIX, Options, Resume, guid_of_head};
use std::sync::Arc;

/// Snapshots that a chain may have, one after another.
const CHAIN_LENGTH_MAX: usize = 1 << 20;

/// What the receiver has.
#[derive(Debug)]
pub(super) enum Source {
    Nothing,
    Snapshot(Box<Dataset>),
    Bookmark(Bookmark),
}

/// A checked request to send.
#[derive(Debug)]
pub(super) struct Order {
    pub imported: Arc<Imported>,
    pub target: Dataset,
    pub source: Source,
    pub blocks: Options,
    /// Where to resume, and the bytes that the receiver has.
    pub resume: Option<(Resume, u64)>,
    /// What the package contains, if it is one.
    pub package: Option<PackageOptions>,
    /// What is left out of the stream.
    pub redaction: Option<List>,
    /// If only the beginning of a snapshot is there, what that is.
    pub partial: Option<ResumeToken>,
    /// Keeps the target as it is, if it is no snapshot.
    pub _kept: Option<KeptHead>,
}

/// Refuses to send `target`.
pub(super) fn refused(target: &str, why: StreamRefusal) -> ControlError {
    let target = target.to_owned();
    ControlError::stream(StreamAct::Send { target }, why)
}

fn cannot_resume(why: StreamRefusal) -> ControlError {
    ControlError::stream(StreamAct::ResumeSend, why)
}

impl Order {
    /// Refuses to send a dataset for a user that may not: with `send:raw` only encrypted blocks.
    pub fn check(&self, rights: Option<&Rights>, sent: &Dataset) -> Result<(), ControlError> {
        let Some(rights) = rights else {
            return Ok(());
        };
        let name = sent.name().dataset();
        let key = sent.directory().crypto_key().map_err(of_dsl)?;
        match rights.check(&self.imported, &name, &["send"]) {
            Err(ControlError::PermissionDenied) if self.blocks.raw && key.is_some() => {
                rights.check(&self.imported, &name, &["send:raw"])
            }
            answer => answer,
        }
    }

    /// Whether a redaction list says what is sent, or what more is sent: sizes do not show it.
    pub fn is_redaction(&self) -> bool {
        let fills_in = match &self.source {
            Source::Bookmark(bookmark) => bookmark.phys.redaction_list.is_some(),
            _ => false,
        };
        fills_in || self.redaction.is_some()
    }

    /// Looks up the datasets of a request.
    pub fn of(registry: &Registry, asked: &Send) -> Result<Self, ControlError> {
        match &asked.token {
            Some(token) => Self::of_token(registry, token, asked),
            None if asked.saved => Self::of_partial(registry, &asked.target),
            None => Self::of_names(registry, asked),
        }
    }

    fn of_names(registry: &Registry, asked: &Send) -> Result<Self, ControlError> {
        let name = parse_name(&asked.target)?;
        let (imported, target) = registry.dataset(&name)?;
        let (target, kept) = match target.is_snapshot() {
            true => (target, None),
            false if asked.redact.is_some() => {
                let why = "cannot do a redacted send to a filesystem";
                return Err(refused(&asked.target, other(why)));
            }
            false => keep(&imported, target)?,
        };
        let source = match &asked.from {
            Some(from) => source(registry, &target, from, &asked.target)?,
            None => Source::Nothing,
        };
        let redaction = match &asked.redact {
            Some(bookmark) => Some(redaction_of(&target, bookmark, asked)?),
            None => None,
        };
        let blocks = Options {
            large_blocks: asked.large_blocks,
            embedded: asked.embedded,
            compressed: asked.compressed,
            raw: asked.raw,
        };
        let is_package = asked.recursive
            || asked.intermediates
            || asked.properties
            || asked.received_only
            || asked.holds;
        if (asked.recursive || asked.intermediates) && matches!(source, Source::Bookmark(_)) {
            return Err(refused(&asked.target, StreamRefusal::FromBookmark));
        }
        let package = is_package.then(|| PackageOptions {
            recursive: asked.recursive,
            properties: asked.properties,
            received_only: asked.received_only,
            holds: asked.holds,
            excluded: asked.excluded.clone(),
            intermediates: asked.intermediates,
            skips_missing: asked.skips_missing,
            decrypted: asked.decrypted,
            blocks,
        });
        Ok(Self {
            imported,
            target,
            source,
            blocks,
            resume: None,
            package,
            redaction,
            partial: None,
            _kept: kept,
        })
    }

    /// Looks up what was received of a snapshot into the dataset `name`, so far.
    fn of_partial(registry: &Registry, name: &str) -> Result<Self, ControlError> {
        let (imported, head) = registry.dataset(&parse_name(name)?)?;
        let child = head.directory().child(RECEIVE_CHILD.as_bytes());
        let child = match child.map_err(of_dsl)? {
            Some(child) => child.head().map_err(of_dsl)?,
            None => None,
        };
        let target = child.unwrap_or(head);
        let token = resume_token::state(&target).map_err(of_dsl)?;
        let token = token.filter(|_| target.is_inconsistent()).ok_or_else(|| {
            let dataset = name.to_owned();
            refused(name, StreamRefusal::NothingPartial { dataset })
        })?;
        let (target, kept) = keep(&imported, target)?;
        let source = match target.previous() {
            Some(base) if token.from_guid.is_some_and(|guid| guid.0 != 0) => {
                let base = target.dsl().dataset_of(base).map_err(of_dsl)?;
                Source::Snapshot(Box::new(base))
            }
            _ => Source::Nothing,
        };
        Ok(Self {
            imported,
            target,
            source,
            blocks: blocks_of(&token),
            resume: None,
            package: None,
            redaction: None,
            partial: Some(token),
            _kept: kept,
        })
    }

    /// Looks up the snapshots of a resume token, by their guids: they may have been renamed since.
    /// The options of the token and of the command together decide how blocks are sent.
    fn of_token(registry: &Registry, text: &str, asked: &Send) -> Result<Self, ControlError> {
        let token = resume_token::from_text(text);
        let token = token.map_err(|problem| cannot_resume(other(problem)))?;
        let sent = String::from_utf8_lossy(&token.to_name).into_owned();
        let name = parse_name(&sent)?;
        let imported = registry.pool(name.pool())?;
        let (target, kept) = match sent.strip_suffix(HEAD_SUFFIX) {
            Some(head) => head_of(&imported, &token, (head, &sent))?,
            None => (snapshot_of(&imported, &token, &sent)?, None),
        };
        let source = source_of(&imported, &token, &target)?;
        let redaction = redaction_of_rest(&token, &target)?;
        Ok(Self {
            imported,
            target,
            source,
            blocks: Options {
                large_blocks: token.large_blocks || asked.large_blocks,
                embedded: token.embedded || asked.embedded,
                compressed: token.compressed || asked.compressed,
                raw: token.raw || asked.raw,
            },
            resume: Some(((token.object, token.offset), token.bytes)),
            package: None,
            redaction,
            partial: None,
            _kept: kept,
        })
    }
}

/// How a token says that blocks may be put.
fn blocks_of(token: &ResumeToken) -> Options {
    Options {
        large_blocks: token.large_blocks,
        embedded: token.embedded,
        compressed: token.compressed,
        raw: token.raw,
    }
}

/// Has a head stay as it is. What an unmount left to be written is on disk then.
fn keep(imported: &Imported, head: Dataset) -> Result<(Dataset, Option<KeptHead>), ControlError> {
    imported.close_unmounted(&[head.id()])?;
    let kept = imported
        .dsl()
        .keep_head(&head)
        .map_err(|error| match error {
            DslError::Busy { .. } => refused(head.name().as_str(), StreamRefusal::TargetBusy),
            error => of_dsl(error),
        })?;
    // It may have changed before it was kept.
    let head = imported.dsl().dataset_of(head.id()).map_err(of_dsl)?;
    Ok((head, Some(kept)))
}

/// The snapshot or bookmark that a stream of `target` starts from.
fn source(
    registry: &Registry,
    target: &Dataset,
    from: &str,
    wanted: &str,
) -> Result<Source, ControlError> {
    let name = parse_name(from)?;
    let missing = || {
        let source_name = from.to_owned();
        refused(wanted, StreamRefusal::NoSource { source_name })
    };
    let not_earlier = || refused(wanted, StreamRefusal::NotEarlier);
    match name.kind() {
        NameKind::Bookmark => {
            let bookmark = target.dsl().bookmark(&name).map_err(|_| missing())?;
            match has_before(target, &bookmark)? {
                true => Ok(Source::Bookmark(bookmark)),
                false => Err(not_earlier()),
            }
        }
        NameKind::Snapshot => {
            let (_, base) = registry.dataset(&name).map_err(|_| missing())?;
            match target.grew_out_of(&base).map_err(of_dsl)? {
                true => Ok(Source::Snapshot(Box::new(base))),
                false => Err(not_earlier()),
            }
        }
        _ => Err(not_earlier()),
    }
}

/// Whether a bookmark is of the dataset, or of one that it was cloned from, and older.
fn has_before(target: &Dataset, bookmark: &Bookmark) -> Result<bool, ControlError> {
    let (theirs, ours) = (bookmark.phys.creation_txg, target.phys().creation_txg);
    // From a redaction bookmark of the snapshot itself, what was left out of it is sent.
    let is_of_target = bookmark.phys.guid == target.phys().guid;
    let fills_in = bookmark.phys.redaction_list.is_some() && is_of_target;
    // Of the head itself every bookmark is older.
    if target.is_snapshot() && theirs >= ours && !fills_in {
        return Ok(false);
    }
    let wanted = bookmark.name.dataset();
    let mut directory = Arc::clone(target.directory());
    for _ in 0..CHAIN_LENGTH_MAX {
        if *directory.name() == wanted {
            return Ok(true);
        }
        let Some(origin) = directory.origin() else {
            return Ok(false);
        };
        let origin = target.dsl().dataset_of(origin).map_err(of_dsl)?;
        directory = Arc::clone(origin.directory());
    }
    Ok(false)
}

/// The snapshot of a token.
fn snapshot_of(
    imported: &Imported,
    token: &ResumeToken,
    sent: &str,
) -> Result<Dataset, ControlError> {
    let mut heads: Vec<DatasetName> = vec![parse_name(sent)?.dataset()];
    // Where it was is where it is, most of the time.
    walk_heads(imported.dsl(), |head| heads.push(head.name().clone()));
    let target = find(imported, &heads, token.to_guid)?;
    target.ok_or_else(|| {
        let snapshot = sent.to_owned();
        cannot_resume(StreamRefusal::TargetGone { snapshot })
    })
}

/// The head of a token, which stays as it is, if it still is as it was when it was sent.
fn head_of(
    imported: &Imported,
    token: &ResumeToken,
    (name, sent): (&str, &str),
) -> Result<(Dataset, Option<KeptHead>), ControlError> {
    let head = imported.dsl().dataset(&parse_name(name)?);
    let head = head.map_err(|error| match error {
        DslError::NoSuchDataset { .. } => {
            let snapshot = sent.to_owned();
            cannot_resume(StreamRefusal::TargetGone { snapshot })
        }
        error => of_dsl(error),
    })?;
    let (head, kept) = keep(imported, head)?;
    let guid = guid_of_head(&head).map_err(|error| cannot_resume(other(error)))?;
    match guid == token.to_guid {
        true => Ok((head, kept)),
        false => {
            let dataset = name.to_owned();
            Err(cannot_resume(StreamRefusal::HeadChanged { dataset }))
        }
    }
}

/// What the stream of a token starts from.
///
/// If the receiver's snapshot lacks what a redaction bookmark lists, and the sender's does not, the
/// stream was sent from such a bookmark.
fn source_of(
    imported: &Imported,
    token: &ResumeToken,
    target: &Dataset,
) -> Result<Source, ControlError> {
    let Some(guid) = token.from_guid.filter(|guid| guid.0 != 0) else {
        return Ok(Source::Nothing);
    };
    let mut heads = vec![target.name().dataset()];
    walk_heads(imported.dsl(), |head| heads.push(head.name().clone()));
    let lacking = token.bookmark_redact_snapshots.as_ref();
    if let Some(base) = find(imported, &heads, guid)?
        && base.redaction_snapshots().map_err(of_dsl)?.as_ref() == lacking
    {
        return Ok(Source::Snapshot(Box::new(base)));
    }
    let bookmark = match lacking {
        Some(lacking) => redaction_bookmark(imported.dsl(), &heads, guid, lacking)?,
        None => {
            let head = imported.dsl().dataset(&target.name().dataset());
            let bookmarks = head.and_then(|head| head.bookmarks()).map_err(of_dsl)?;
            let found = bookmarks.into_iter().find(|mark| mark.phys.guid == guid);
            // The receiver lacks nothing that a list names.
            found.map(|mut bookmark| {
                bookmark.phys.redaction_list = None;
                bookmark
            })
        }
    };
    match (bookmark, lacking) {
        (Some(bookmark), _) => Ok(Source::Bookmark(bookmark)),
        (None, None) => Err(cannot_resume(StreamRefusal::SourceGone { guid: guid.0 })),
        (None, Some(_)) => Err(cannot_resume(other(NO_REDACTION))),
    }
}

/// In the words of OpenZFS.
const NO_REDACTION: &str = "no appropriate redaction bookmark exists";

/// What was left out of the stream of a token, unless that is missing in the target itself.
fn redaction_of_rest(token: &ResumeToken, target: &Dataset) -> Result<Option<List>, ControlError> {
    let of_target = target.redaction_snapshots().map_err(of_dsl)?;
    let Some(by) = token.redact_snapshots.as_ref() else {
        return match of_target {
            None => Ok(None),
            Some(_) => Err(cannot_resume(other(NO_REDACTION))),
        };
    };
    if of_target.as_ref() == Some(by) {
        return Ok(None);
    }
    let heads = [target.name().dataset()];
    let found = redaction_bookmark(target.dsl(), &heads, target.phys().guid, by)?;
    let found = found.ok_or_else(|| cannot_resume(other(NO_REDACTION)))?;
    let list = List::of(target.dsl(), &found);
    list.map(Some).map_err(|error| cannot_resume(other(error)))
}

/// A complete redaction bookmark of a snapshot, made with respect to these snapshots.
fn redaction_bookmark(
    dsl: &Arc<Dsl>,
    heads: &[DatasetName],
    snapshot: Guid,
    by: &[u64],
) -> Result<Option<Bookmark>, ControlError> {
    let mut wanted = by.to_vec();
    wanted.sort_unstable();
    for name in heads {
        let Ok(head) = dsl.dataset(name) else {
            continue;
        };
        for bookmark in head.bookmarks().map_err(of_dsl)? {
            let is_of = bookmark.phys.guid == snapshot;
            let Some(list) = bookmark.phys.redaction_list.filter(|_| is_of) else {
                continue;
            };
            let header = dsl.redaction_header(list).map_err(of_dsl)?;
            let mut found: Vec<u64> = header.snapshots.iter().map(|guid| guid.0).collect();
            found.sort_unstable();
            if found == wanted && header.is_complete() {
                return Ok(Some(bookmark));
            }
        }
    }
    Ok(None)
}

/// The list of the redaction bookmark that a request names.
fn redaction_of(target: &Dataset, bookmark: &str, asked: &Send) -> Result<List, ControlError> {
    let cannot = |why: &str| refused(&asked.target, other(why));
    if asked.raw {
        return Err(cannot("raw sends may not be redacted."));
    }
    let is_one = !asked.recursive && !asked.intermediates && !asked.holds;
    if !is_one {
        return Err(cannot("multiple snapshots cannot be sent redacted."));
    }
    let dataset = target.name().dataset();
    let full = match bookmark.split_once('#') {
        None | Some(("", _)) => format!("{dataset}#{}", bookmark.trim_start_matches('#')),
        Some((given, _)) if given == dataset.as_str() => bookmark.to_owned(),
        Some(_) => {
            return Err(cannot(
                "redaction bookmark must be of the snapshot's dataset",
            ));
        }
    };
    let found = target.dsl().bookmark(&parse_name(&full)?);
    let found = found.map_err(|error| match error {
        DslError::NoSuchDataset { .. } => cannot("nonexistent redaction bookmark provided"),
        error => of_dsl(error),
    })?;
    let list = List::of(target.dsl(), &found).map_err(|error| cannot(&error.to_string()))?;
    match found.phys.guid == target.phys().guid {
        true => Ok(list),
        false => Err(cannot("redaction bookmark is of another snapshot")),
    }
}

/// The snapshot with this guid, looked for in these datasets.
fn find(
    imported: &Imported,
    heads: &[DatasetName],
    guid: Guid,
) -> Result<Option<Dataset>, ControlError> {
    for name in heads {
        let Ok(head) = imported.dsl().dataset(name) else {
            continue;
        };
        for entry in head.listed_snapshots().map_err(of_dsl)? {
            let snapshot = head.open_snapshot(&entry).map_err(of_dsl)?;
            if snapshot.phys().guid == guid {
                return Ok(Some(snapshot));
            }
        }
    }
    Ok(None)
}
