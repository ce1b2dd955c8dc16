//! What redaction lists change in a stream: blocks are left out, and others are sent again.
//!
//! With [`Snapshot::without`](super::Snapshot::without) a block that the list names goes as REDACT
//! (format/4 4). Only the contents of files and volumes are listed.
//!
//! A stream from a redaction bookmark is for receivers whose snapshot lacks what that bookmark
//! lists. So it has these blocks, too, though they are older than the bookmark. The walk does not
//! visit them. Whenever it is about to write of a place, the listed blocks before that place are
//! looked up and sent first: a stream is in the order of objects and offsets.
//!
//! ```text
//! listed by the bookmark    2 3       9
//! visited: born since           4 5     10
//! in the stream             2 3 4 5   9 10
//! ```
//!
//! A listed block that was born since is visited anyway. If one is a hole now, that is not younger
//! than the bookmark, or is visited as well. So what is sent again is what is older, and nothing is
//! sent twice, whatever became of the object.

use super::ahead::Ahead;
use super::sending::Sending;
use super::snapshot::{Base, Resume, Snapshot};
use super::unreadable;
use crate::error::StreamError;
use cenote_base::{BlockId, ObjectId};
use cenote_cache::Retention;
use cenote_dmu::traverse::{Event, Ordered, Part, Root, Since, Start, Visit, Walk};
use cenote_ondisk::Dnode;
use cenote_ondisk::stream::Redact;
use cenote_redaction::{Cursor, Place, Span};
use std::io::Write;
use std::sync::Arc;

/// The lists of a stream, read along with the walk.
pub(super) struct Lists {
    without: Option<Cursor>,
    missing: Option<Cursor>,
}

impl Lists {
    pub fn new(snapshot: &Snapshot, base: Option<&Base>, resume: Option<(Resume, u64)>) -> Self {
        let from = resume.map_or_else(Place::default, |((object, _), block)| Place {
            object,
            block,
        });
        let missing = base.and_then(|base| base.missing.as_ref());
        Self {
            without: snapshot.without.as_ref().map(|list| list.runs_from(from)),
            missing: missing.map(|list| list.runs_from(from)),
        }
    }

    fn leaves_out(&mut self, place: Place) -> Result<bool, StreamError> {
        match &mut self.without {
            Some(cursor) => Ok(cursor.has(place)?),
            None => Ok(false),
        }
    }

    /// A block that the walk visits.
    pub fn data(
        &mut self,
        sending: &Sending<'_>,
        visit: &Visit,
        dnode: &Dnode,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let place = place_of(visit);
        if !self.leaves_out(place)? {
            return sending.data(visit, dnode, out);
        }
        let size = dnode.data_block_size;
        match place.block.checked_mul(size) {
            Some(offset) => out.redact(Redact {
                object: place.object,
                offset,
                length: size,
                to_guid: sending.snapshot.guid,
            }),
            None => Ok(()),
        }
    }

    /// Sends again what is listed before a place that the walk has reached.
    pub fn send_before(
        &mut self,
        sending: &Sending<'_>,
        place: Place,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        while let Some(missing) = &mut self.missing {
            let Some(run) = missing.take_before(place)? else {
                break;
            };
            self.send_again(sending, run, out)?;
        }
        Ok(())
    }

    /// Sends again all that is left.
    pub fn send_rest(
        &mut self,
        sending: &Sending<'_>,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        self.send_before(sending, Place::of_object(ObjectId(u64::MAX)), out)
    }

    fn send_again(
        &mut self,
        sending: &Sending<'_>,
        run: Span,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let set = &sending.snapshot.set;
        let Some(dnode) = set.dnode(run.object).map_err(unreadable)? else {
            return Ok(());
        };
        let dnode = Arc::new(dnode);
        let last = run.last.min(dnode.block_id_max.0);
        if dnode.object_type.is_metadata() || run.first > last {
            return Ok(());
        }
        let root = Root {
            start: Start::Dnode(run.object, Arc::clone(&dnode)),
            keys: sending.keys.clone(),
            ..Root::of_set(set, Since::logical(cenote_base::Txg(0)))
        };
        let plan = Walk {
            retention: Retention::Pass,
            ..Walk::default()
        };
        let plan = plan.over(BlockId(run.first), BlockId(last));
        for event in Ordered::new(Arc::clone(set.cache()), root, plan) {
            match event {
                Event::Damage(damage) => return Err(unreadable(damage.error)),
                Event::Block(visit) if !visit.leads_on() && visit.part == Part::Tree => {
                    let is_old = visit.pointer.logical_birth() <= sending.since;
                    if is_old && !self.leaves_out(place_of(&visit))? {
                        sending.data(&visit, &dnode, out)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The place of a data block.
pub(super) fn place_of(visit: &Visit) -> Place {
    Place {
        object: visit.bookmark.object,
        block: visit.bookmark.block.0,
    }
}
