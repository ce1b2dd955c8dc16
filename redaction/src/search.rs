//! What all redaction snapshots changed, piece by piece.
//!
//! A piece begins where the one before it ended. The first redaction snapshot is walked until there
//! are enough runs of changed blocks; each further one is walked between the first and the last of
//! the runs that are left, and only what it changed, too, stays. Two lists of `n` and `m` runs can
//! have up to `n + m` in common. If there are too many, the piece ends earlier.

use crate::changes::{Changes, Flow, Range, Sink};
use crate::error::RedactionError;
use crate::span::{Place, Span};
use cenote_base::Txg;
use cenote_dmu::ObjectSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A part of the list.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Its runs, in order.
    pub runs: Vec<Span>,
    /// Where the next one begins; `None` behind the last.
    pub end: Option<Place>,
}

/// What to search.
#[derive(Debug)]
pub(crate) struct Search {
    /// The snapshot that is redacted.
    pub source: Arc<ObjectSet>,
    /// Its txg.
    pub since: Txg,
    /// The redaction snapshots.
    pub by: Vec<Arc<ObjectSet>>,
}

impl Piece {
    /// Ends it before its last run, if it has more than `max`.
    fn cut(runs: &mut Vec<Span>, end: &mut Option<Place>, max: usize) -> ControlFlow<()> {
        if runs.len() <= max {
            return ControlFlow::Continue(());
        }
        *end = runs.pop().map(|run| run.start());
        ControlFlow::Break(())
    }
}

impl Search {
    /// The piece from `from` on, with at most `max` runs.
    ///
    /// # Errors
    /// If something cannot be read, or `is_cancelled`.
    pub fn piece(
        &self,
        from: Place,
        max: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Piece, RedactionError> {
        let mut piece = Piece {
            runs: Vec::new(),
            end: None,
        };
        let Some((first, others)) = self.by.split_first() else {
            return Ok(piece);
        };
        let mut sink = |span: Span| -> Flow {
            span.append_to(&mut piece.runs);
            Ok(Piece::cut(&mut piece.runs, &mut piece.end, max))
        };
        let range = Range { from, to: None };
        self.walk(first, range, &mut sink, is_cancelled)?;
        for other in others {
            piece = self.common(piece, other, max, is_cancelled)?;
        }
        Ok(piece)
    }

    fn walk(
        &self,
        redacted_by: &Arc<ObjectSet>,
        range: Range,
        sink: Sink<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), RedactionError> {
        let changes = Changes {
            source: &self.source,
            redacted_by,
            since: self.since,
            range,
            sink,
        };
        changes.find(is_cancelled)
    }

    /// What of a piece another snapshot changed, too.
    fn common(
        &self,
        piece: Piece,
        other: &Arc<ObjectSet>,
        max: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Piece, RedactionError> {
        let (Some(first), Some(last)) = (piece.runs.first(), piece.runs.last()) else {
            return Ok(piece);
        };
        let range = Range {
            from: first.start(),
            to: Some(last.end().next()),
        };
        let (mut runs, mut end, mut at) = (Vec::new(), piece.end, 0);
        let mut sink = |span: Span| -> Flow {
            while piece
                .runs
                .get(at)
                .is_some_and(|run| run.end() < span.start())
            {
                at += 1;
            }
            let near = piece.runs[at..].iter();
            for run in near.take_while(|run| run.start() <= span.end()) {
                if let Some(both) = run.and(&span) {
                    both.append_to(&mut runs);
                }
                if Piece::cut(&mut runs, &mut end, max).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        self.walk(other, range, &mut sink, is_cancelled)?;
        Ok(Piece { runs, end })
    }
}
