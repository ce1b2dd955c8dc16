//! Promoting clones: a clone and its origin change places (format/3a 7, "Promote").
//!
//! ```text
//! before:   s1 -- s2 -- s3 -- fs             after:   s1 -- s2 -- c1 -- clone
//!                  \                                         \
//!                   c1 -- clone                               s3 -- fs
//! ```
//!
//! No block and no deadlist moves: each dataset has the same previous snapshot as before. The
//! snapshots up to the clone's origin change their directory, and with them the space that they
//! and the origin's head took; that the head shares with them is the promoted one's own from now
//! on, and what the other directory has is only what came after.

use super::limits::Moved;
use crate::dataset::{CHAIN_LENGTH_MAX, Dataset};
use crate::deadlist::{Deadlist, SpaceTriple};
use crate::error::DslError;
use crate::name::{DatasetName, is_hidden_component};
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use crate::write::pool::metadata::number_key;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::ObjectType;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_NO_PROMOTE};
use std::collections::BTreeMap;

/// Makes a clone the owner of the snapshots that it came from.
#[derive(Debug)]
pub struct PromoteDataset {
    /// The clone.
    pub name: DatasetName,
}

impl SyncTask for PromoteDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let promotion = Promotion::of(context, &self.name)?;
        promotion.check_names()?;
        context.check_bookmark_names(&promotion)?;
        let (from, to) = (
            promotion.origin_head.directory(),
            promotion.clone.directory(),
        );
        let moved = Moved {
            space: promotion.space(context)?.used,
            filesystems: 0,
            snapshots: promotion.listed_snapshots(),
        };
        context.deadlist_entries(promotion.clone.phys().deadlist)?;
        context.check_transfer(from, to, moved)?;
        context.check_promoted_keys(&promotion)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let promotion = Promotion::of(context, &self.name)?;
        context.promote(&promotion)
    }
}

/// A dataset of a chain.
#[derive(Debug)]
struct Link {
    id: ObjectId,
    phys: DslDataset,
}

/// What takes part in a promotion.
#[derive(Debug)]
pub(crate) struct Promotion {
    pub(crate) clone: Dataset,
    pub(crate) origin_head: Dataset,
    /// The snapshots that move, with their names, the origin first.
    shared: Vec<Link>,
    names: BTreeMap<ObjectId, Vec<u8>>,
    /// The clone and its snapshots, the oldest last.
    clone_chain: Vec<Link>,
    /// The origin's head and the snapshots after the origin, the oldest last.
    origin_chain: Vec<Link>,
    /// What the origin's directory is a clone of itself.
    origin_of_origin: Option<ObjectId>,
    origin_of_origin_txg: Txg,
}

impl Promotion {
    fn of(context: &SyncContext<'_>, name: &DatasetName) -> Result<Self, DslError> {
        let clone = context.dsl.dataset(name)?;
        let not_a_clone = || DslError::NotAClone { name: name.clone() };
        if clone.is_snapshot() || clone.phys().flags & FLAG_NO_PROMOTE != 0 {
            return Err(not_a_clone());
        }
        let origin = clone.directory().origin().ok_or_else(not_a_clone)?;
        let (_, origin_phys) = context.dsl.read_dataset(origin)?;
        let directory = context.dsl.directory_of(origin_phys.directory)?;
        let problem = "the origin's directory has no head";
        let head = directory.head()?;
        let origin_head = head.ok_or(DslError::structure(directory.id(), problem))?;
        let above = directory.phys().origin;
        let names = origin_head.snapshots()?.into_iter();
        Ok(Self {
            shared: context.chain(origin, above)?,
            names: names.map(|entry| (entry.object, entry.name)).collect(),
            clone_chain: context.chain(clone.id(), Some(origin))?,
            origin_chain: context.chain(origin_head.id(), Some(origin))?,
            origin_of_origin: above,
            origin_of_origin_txg: context.origin_txg(directory.id())?,
            clone,
            origin_head,
        })
    }

    fn origin(&self) -> &Link {
        self.shared.first().expect("a clone has an origin")
    }

    /// The oldest dataset of the clone's own.
    fn oldest_of_clone(&self) -> &Link {
        self.clone_chain.last().expect("the clone itself")
    }

    fn name_of(&self, link: &Link) -> &[u8] {
        self.names.get(&link.id).map_or(&[], Vec::as_slice)
    }

    /// How many of the snapshots that move are counted.
    fn listed_snapshots(&self) -> u64 {
        let names = self.shared.iter().map(|link| self.name_of(link));
        names.filter(|name| !is_hidden_component(name)).count() as u64
    }

    /// Refuses names that would clash or be too long.
    fn check_names(&self) -> Result<(), DslError> {
        let mut clashing = Vec::new();
        for link in &self.shared {
            let name = self.name_of(link);
            if self.clone.snapshot(name)?.is_some() {
                clashing.push(String::from_utf8_lossy(name).into_owned());
            }
            let named = self.clone.name().snapshot(name);
            named.map_err(|_| DslError::NameTooLong {
                name: self.clone.name().clone(),
            })?;
        }
        if clashing.is_empty() {
            return Ok(());
        }
        Err(DslError::ConflictingSnapshots {
            names: clashing,
            origin: self.origin_head.name().clone(),
        })
    }

    /// What moves with the snapshots.
    fn space(&self, context: &SyncContext<'_>) -> Result<SpaceTriple, DslError> {
        let origin = &self.origin().phys;
        let mut sum = SpaceTriple {
            used: origin.referenced_bytes,
            compressed: origin.compressed_bytes,
            uncompressed: origin.uncompressed_bytes,
        };
        for link in &self.shared {
            if link.phys.previous_snapshot.is_some() {
                sum = sum.plus(Deadlist::totals_of(context.dsl, link.phys.deadlist)?);
            }
        }
        if let Some(above) = self.origin_of_origin {
            let (_, above) = context.dsl.read_dataset(above)?;
            sum.used = sum.used.saturating_sub(above.referenced_bytes);
            sum.compressed = sum.compressed.saturating_sub(above.compressed_bytes);
            sum.uncompressed = sum.uncompressed.saturating_sub(above.uncompressed_bytes);
        }
        Ok(sum)
    }
}

/// What is dead in some datasets and was born after a txg.
fn dead_after<'a>(
    context: &SyncContext<'_>,
    links: impl IntoIterator<Item = &'a Link>,
    after: Txg,
) -> Result<i64, DslError> {
    let mut sum = 0_i64;
    for link in links {
        let dead = Deadlist::open(context.dsl, link.phys.deadlist)?;
        let problem = "a deadlist of a pool before version 26 cannot be divided";
        let space = dead.space_after(after);
        let space = space.ok_or(DslError::structure(link.id, problem))?;
        sum = sum.saturating_add(signed(space.used));
    }
    Ok(sum)
}

impl SyncContext<'_> {
    /// A dataset and the snapshots before it, up to and without `end`.
    fn chain(&self, from: ObjectId, end: Option<ObjectId>) -> Result<Vec<Link>, DslError> {
        let mut chain = Vec::new();
        let mut at = Some(from);
        while let Some(id) = at.filter(|id| Some(*id) != end) {
            if chain.len() >= CHAIN_LENGTH_MAX {
                let problem = "its chain of snapshots does not end";
                return Err(DslError::structure(from, problem));
            }
            let (_, phys) = self.dsl.read_dataset(id)?;
            at = phys.previous_snapshot;
            chain.push(Link { id, phys });
        }
        if at != end {
            let problem = "its chain of snapshots does not lead to its origin";
            return Err(DslError::structure(from, problem));
        }
        Ok(chain)
    }

    fn promote(&self, promotion: &Promotion) -> Result<(), DslError> {
        let origin = promotion.origin();
        let (to, from) = (
            promotion.clone.directory().id(),
            promotion.origin_head.directory().id(),
        );
        self.drop_livelist(to)?;
        self.drop_livelist(from)?;
        // While the clone is still one of the origin's, and found among them.
        self.promote_keys(promotion)?;
        let space = promotion.space(self)?;
        let oldest = promotion.oldest_of_clone();
        let dead = Deadlist::open(self.dsl, oldest.phys.deadlist)?;
        let unique = dead.space_after(origin.phys.previous_snapshot_txg);
        let after = promotion.origin_of_origin_txg;
        let clone_snapshots = dead_after(self, &promotion.shared, after)?
            .saturating_add(dead_after(self, &promotion.clone_chain, after)?);
        let after = origin.phys.creation_txg;
        let origin_snapshots = dead_after(self, &promotion.origin_chain, after)?;
        let old = self.turn_branch(promotion, unique.unwrap_or_default().used)?;
        self.turn_clones(promotion)?;
        self.move_bookmarks(promotion, dead.totals())?;
        for link in &promotion.shared {
            self.move_snapshot(promotion, link, old)?;
        }
        let counted = signed(promotion.listed_snapshots());
        self.change_counts(Some(from), 0, -counted)?;
        self.change_counts(Some(to), 0, counted)?;
        self.note_snapshots_changed(from)?;
        self.note_snapshots_changed(to)?;
        self.give_space(to, clone_snapshots, SpaceChange::from(space))?;
        let lost = SpaceChange::from(space).negated();
        self.give_space(from, origin_snapshots, lost)?;
        self.dsl.refresh_caching();
        Ok(())
    }

    /// Makes the clone what comes after the origin; returns what came after it before.
    fn turn_branch(&self, promotion: &Promotion, unique: u64) -> Result<ObjectId, DslError> {
        let (origin, oldest) = (promotion.origin(), promotion.oldest_of_clone());
        let mut phys = origin.phys.clone();
        let old = phys.next_snapshot;
        let old = old.ok_or(DslError::structure(origin.id, "it has no successor"))?;
        phys.next_snapshot = Some(oldest.id);
        phys.unique_bytes = unique;
        self.store_dataset(origin.id, &phys)?;
        self.replace_next_clone(origin.id, &phys, Some(oldest.id), Some(old))?;
        Ok(old)
    }

    /// Makes the origin's directory a clone's, and the clone's what the origin's was.
    fn turn_clones(&self, promotion: &Promotion) -> Result<(), DslError> {
        let (clone, head) = (promotion.clone.id(), promotion.origin_head.id());
        let (to, from) = (
            promotion.clone.directory().id(),
            promotion.origin_head.directory().id(),
        );
        let above = promotion.origin_of_origin;
        self.change_directory(to, |phys| phys.origin = above)?;
        self.change_directory(from, |phys| phys.origin = Some(promotion.origin().id))?;
        self.move_clone(clone, Some(from), None)?;
        if let Some(above) = above {
            let (_, above) = self.dsl.read_dataset(above)?;
            self.move_clone(clone, None, Some(above.directory))?;
            self.move_clone(head, Some(above.directory), None)?;
        }
        self.move_clone(head, None, Some(to))
    }

    /// Moves a clone's head from one directory's table of clones to another's.
    fn move_clone(
        &self,
        head: ObjectId,
        from: Option<ObjectId>,
        to: Option<ObjectId>,
    ) -> Result<(), DslError> {
        if let Some(from) = from
            && let Some(clones) = self.directory(from)?.clones
        {
            self.remove_entry(clones, &number_key(head.0))?;
        }
        let Some(to) = to else {
            return Ok(());
        };
        let clones = match self.directory(to)?.clones {
            Some(clones) => clones,
            None => {
                let clones = self.create_table(ObjectType::DSL_DIR_CLONES)?;
                self.change_directory(to, |phys| phys.clones = Some(clones))?;
                clones
            }
        };
        self.set_number(clones, &number_key(head.0), head.0)
    }

    /// Moves a snapshot to the clone's directory, with the clones of it.
    fn move_snapshot(
        &self,
        promotion: &Promotion,
        link: &Link,
        old: ObjectId,
    ) -> Result<(), DslError> {
        let (clone, head) = (&promotion.clone, &promotion.origin_head);
        let name = promotion.name_of(link);
        let problem = "a head has no snapshot names";
        let names = |of: &Dataset| {
            let names = of.phys().snapshot_names;
            names.ok_or(DslError::structure(of.id(), problem))
        };
        self.remove_entry(names(head)?, name)?;
        self.set_number(names(clone)?, name, link.id.0)?;
        let (to, from) = (clone.directory().id(), head.directory().id());
        let (_, mut phys) = self.dsl.read_dataset(link.id)?;
        phys.directory = to;
        self.store_dataset(link.id, &phys)?;
        let Some(clones) = phys.next_clones else {
            return Ok(());
        };
        for entry in self.mos().zap(clones)?.entries() {
            let problem = "an entry is no clone";
            let first = entry?.value.as_u64();
            let first = ObjectId(first.ok_or(DslError::structure(clones, problem))?);
            if first == old {
                continue;
            }
            let (_, first) = self.dsl.read_dataset(first)?;
            let problem = "a clone's directory has no head";
            let other = self.directory(first.directory)?.head_dataset;
            let other = other.ok_or(DslError::structure(first.directory, problem))?;
            self.move_clone(other, Some(from), Some(to))?;
        }
        Ok(())
    }

    fn check_bookmark_names(&self, promotion: &Promotion) -> Result<(), DslError> {
        let last = promotion.origin().phys.creation_txg;
        let clone = &promotion.clone;
        for bookmark in self.stored_bookmarks(promotion.origin_head.id())? {
            if bookmark.phys.creation_txg <= last
                && let Some(there) = clone.bookmark(&bookmark.name)?
            {
                return Err(DslError::BookmarkExists { name: there.name });
            }
        }
        Ok(())
    }

    /// Moves the bookmarks of snapshots that move, and what is to be counted for the origin's.
    fn move_bookmarks(&self, promotion: &Promotion, dead: SpaceTriple) -> Result<(), DslError> {
        let (clone, head) = (promotion.clone.id(), promotion.origin_head.id());
        let last = promotion.origin().phys.creation_txg;
        for bookmark in self.stored_bookmarks(head)? {
            if bookmark.phys.creation_txg <= last {
                self.take_bookmark(head, &bookmark.name)?;
                self.add_bookmark(clone, &bookmark)?;
            }
        }
        self.recount_bookmarks(clone, last, dead)
    }

    /// Changes a directory's share of the space of snapshots to `snapshots`, and that of its head
    /// by the rest of `change`.
    fn give_space(
        &self,
        directory: ObjectId,
        snapshots: i64,
        change: SpaceChange,
    ) -> Result<(), DslError> {
        let before = signed(self.directory(directory)?.breakdown.snapshots);
        let difference = snapshots.saturating_sub(before);
        self.use_space(directory, Part::Snapshots, SpaceChange::of_used(difference))?;
        let rest = SpaceChange {
            used: change.used.saturating_sub(difference),
            ..change
        };
        self.use_space(directory, Part::Head, rest)
    }
}
