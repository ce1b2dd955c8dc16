//! Merging a tail into pages.
//!
//! The old pages that the tail touches are read one after the other and put together with it to new
//! ones; the others stay where they are. So the memory that it takes does not depend on the size of
//! the map. On the way live sectors are counted: what a page loses and what it gains.
//!
//! Inline extents are taken out of the pages, because the tail keeps them.

use super::{Page, Place};
use crate::extent_map::{ExtentMap, Piece, Slice};
use crate::format::checkpoint::PageRef;
use crate::format::page::PAGE_EXTENTS_MAX;
use crate::format::{Extent, ObjectNumber, Target};
use std::collections::HashMap;
use std::sync::Arc;

/// A page of the new map.
#[derive(Debug)]
pub(crate) enum MergedPage {
    /// One that stays.
    Kept(PageRef),
    /// One that is new.
    New(Vec<Extent>),
}

/// What is to be done next.
#[derive(Debug)]
enum Step {
    /// A page that the tail does not touch.
    Keep(PageRef),
    /// Old pages, none or one, in `[start, end)`, to be put together with the tail there.
    Merge(Option<PageRef>, u64, u64),
}

/// A merging under way.
#[derive(Debug)]
pub(crate) struct Merger {
    tail: Arc<ExtentMap<Place>>,
    steps: std::vec::IntoIter<Step>,
    /// New extents that are not a page yet.
    open: Vec<Extent>,
    ready: Vec<MergedPage>,
    /// Sectors that objects gain and lose.
    gains: HashMap<ObjectNumber, i64>,
}

impl Merger {
    /// The merging of `tail` into `pages`, of which those that are `unwanted` become new ones.
    pub(crate) fn new(
        tail: Arc<ExtentMap<Place>>,
        pages: &[PageRef],
        unwanted: impl Fn(&PageRef) -> bool,
    ) -> Self {
        let mut steps = Vec::new();
        let mut at = 0;
        for (index, page) in pages.iter().enumerate() {
            // A page answers for the gap behind it, so that small additions join it.
            let end = pages.get(index + 1).map_or(u64::MAX, |next| next.first);
            let start = if index == 0 { 0 } else { page.first };
            let touched = !tail.overlaps(start, end - start).is_empty();
            match touched || unwanted(page) {
                true => steps.push(Step::Merge(Some(*page), start, end)),
                false => steps.push(Step::Keep(*page)),
            }
            at = end;
        }
        if pages.is_empty() {
            steps.push(Step::Merge(None, at, u64::MAX));
        }
        Self {
            tail,
            steps: steps.into_iter(),
            open: Vec::new(),
            ready: Vec::new(),
            gains: HashMap::new(),
        }
    }

    /// The next old page that is needed: its extents go to [`Self::advance`]. `None` at the end, or
    /// if the next step needs none.
    pub(crate) fn wanted(&self) -> Option<PageRef> {
        match self.steps.as_slice().first() {
            Some(Step::Merge(page, ..)) => *page,
            _ => None,
        }
    }

    /// Old pages that will be needed, the next first, at most `limit`.
    pub(crate) fn wanted_soon(&self, limit: usize) -> Vec<PageRef> {
        let steps = self.steps.as_slice().iter();
        let pages = steps.filter_map(|step| match step {
            Step::Merge(page, ..) => *page,
            Step::Keep(_) => None,
        });
        pages.take(limit).collect()
    }

    /// Takes a step; says whether there was one.
    pub(crate) fn advance(&mut self, old: Option<&Page>) -> bool {
        match self.steps.next() {
            None => {
                self.close();
                return false;
            }
            Some(Step::Keep(page)) => {
                self.close();
                self.ready.push(MergedPage::Kept(page));
            }
            Some(Step::Merge(_, start, end)) => {
                let none = Vec::new();
                let old = old.map_or(&none, |page| &**page);
                self.merge(old, start, end);
            }
        }
        true
    }

    /// Pages that are complete, in order.
    pub(crate) fn take_ready(&mut self) -> Vec<MergedPage> {
        std::mem::take(&mut self.ready)
    }

    /// Sectors that objects have gained, or lost, in the pages.
    pub(crate) fn into_gains(self) -> HashMap<ObjectNumber, i64> {
        self.gains
    }

    fn count(&mut self, target: Target, sectors: i64) {
        if let Target::Data { object, .. } = target {
            *self.gains.entry(object).or_default() += sectors;
        }
    }

    fn merge(&mut self, old: &[Extent], start: u64, end: u64) {
        let mut whole = ExtentMap::default();
        for extent in old {
            let sectors = extent.sectors.cast_signed();
            self.count(extent.target, -sectors);
            whole.insert(extent.start, extent.sectors, OldTarget(extent.target));
        }
        let tail = Arc::clone(&self.tail);
        for piece in tail.overlaps(start, end - start) {
            let Piece {
                start,
                sectors,
                value,
            } = piece;
            match value {
                Place::Data { object, sector } => {
                    let target = Target::Data { object, sector };
                    whole.insert(start, sectors, OldTarget(target));
                }
                Place::Hole | Place::Inline { .. } => whole.remove(start, sectors),
            }
        }
        for piece in whole.iter() {
            let target = piece.value.0;
            self.count(target, piece.sectors.cast_signed());
            self.open.push(Extent {
                start: piece.start,
                sectors: piece.sectors,
                target,
            });
            if self.open.len() == PAGE_EXTENTS_MAX {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let page = std::mem::take(&mut self.open);
            self.ready.push(MergedPage::New(page));
        }
    }
}

#[derive(Clone, PartialEq)]
struct OldTarget(Target);

impl Slice for OldTarget {
    fn advanced(&self, sectors: u64) -> Self {
        Self(self.0.advanced(sectors))
    }
}
