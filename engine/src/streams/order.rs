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
use cenote_dsl::{Bookmark, Dataset, DatasetName, DslError, NameKind};
use cenote_ondisk::stream::ResumeToken;
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
            false => keep(&imported, target)?,
        };
        let source = match &asked.from {
            Some(from) => source(registry, &target, from, &asked.target)?,
            None => Source::Nothing,
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
        check_redaction(&token, &target, &source)?;
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
            match is_before(&base, target)? {
                true => Ok(Source::Snapshot(Box::new(base))),
                false => Err(not_earlier()),
            }
        }
        _ => Err(not_earlier()),
    }
}

/// Whether `base` is on the chain of snapshots that leads to `target`, over clones, too.
fn is_before(base: &Dataset, target: &Dataset) -> Result<bool, ControlError> {
    let dsl = target.dsl();
    let mut at = target.phys().previous_snapshot;
    for _ in 0..CHAIN_LENGTH_MAX {
        let Some(previous) = at else {
            return Ok(false);
        };
        if previous == base.id() {
            return Ok(true);
        }
        let previous = dsl.dataset_of(previous).map_err(of_dsl)?;
        if previous.phys().creation_txg < base.phys().creation_txg {
            return Ok(false);
        }
        at = previous.phys().previous_snapshot;
    }
    Ok(false)
}

/// Whether a bookmark is of the dataset, or of one that it was cloned from, and older.
fn has_before(target: &Dataset, bookmark: &Bookmark) -> Result<bool, ControlError> {
    // Of the head itself every bookmark is older.
    if target.is_snapshot() && bookmark.phys.creation_txg >= target.phys().creation_txg {
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
    if let Some(base) = find(imported, &heads, guid)? {
        return Ok(Source::Snapshot(Box::new(base)));
    }
    let head = imported.dsl().dataset(&target.name().dataset());
    let bookmarks = head.and_then(|head| head.bookmarks()).map_err(of_dsl)?;
    let bookmark = bookmarks.into_iter().find(|mark| mark.phys.guid == guid);
    match bookmark {
        Some(bookmark) => Ok(Source::Bookmark(bookmark)),
        None => Err(cannot_resume(StreamRefusal::SourceGone { guid: guid.0 })),
    }
}

/// Refuses the rest of a stream that was redacted when it was sent: it would be sent in full.
///
/// What was received redacted is as its token says, and so is a source that was.
fn check_redaction(
    token: &ResumeToken,
    target: &Dataset,
    source: &Source,
) -> Result<(), ControlError> {
    let of_target = target.redaction_snapshots().map_err(of_dsl)?;
    let of_source = match source {
        Source::Snapshot(base) => base.redaction_snapshots().map_err(of_dsl)?,
        _ => None,
    };
    match of_target == token.redact_snapshots && of_source == token.bookmark_redact_snapshots {
        true => Ok(()),
        false => Err(cannot_resume(other("redacted streams cannot be sent yet"))),
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
