//! The trees of a pool that sites have open.
//!
//! Sites keep weak references, and clients' files do, too. So a change of a dataset as a whole
//! closes its trees here, and nothing below is in use any more. Meanwhile no tree can be opened: a
//! mirror has requests at every moment, and one of them would open it again at once.
//!
//! A tree whose files clients read is closed only by force. A tree that no site shows any more
//! stays until its last file is closed. After a day its clients no longer block changes: one that
//! receives a few bytes a second would keep a snapshot for months.

use cenote_base::ObjectId;
use cenote_base::rt::{self, Condvar, Instant, Mutex, ranks};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long files may still be read before a change is refused because of them.
const CLOSING: Duration = Duration::from_secs(1);
/// How long reads that are under way may take when their tree is closed.
const LETTING_GO: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long open files of a tree that no site shows any more may prevent closing it.
const KEEPING: Duration = Duration::from_secs(24 * 3600);
/// How long a request waits for a change to end.
const OPENING: Duration = Duration::from_secs(5);

/// A head or snapshot that a server has open for its clients.
pub trait OpenTree: fmt::Debug + Send + Sync {
    /// The dataset.
    fn dataset(&self) -> ObjectId;

    /// Its name when the tree was opened.
    fn name(&self) -> &str;

    /// Whether it cannot change while it is open.
    fn is_lasting(&self) -> bool;

    /// How many of its files clients have open.
    fn open_files(&self) -> usize;

    /// A change of the dataset begins or stops waiting until its files are closed. While it waits,
    /// the tree opens no files.
    fn set_closing(&self, is_closing: bool);
}

#[derive(Debug)]
struct Open {
    tree: Arc<dyn OpenTree>,
    /// When the last site stopped showing it.
    retired: Option<Instant>,
}

impl Open {
    /// Whether its open files may prevent closing it.
    fn keeps(&self) -> bool {
        self.retired.is_none_or(|since| since.elapsed() < KEEPING)
    }
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Changes under way.
    holds: u32,
}

/// Open trees.
#[derive(Debug, Default)]
pub struct OpenTrees {
    state: Mutex<State, ranks::SiteTrees>,
    /// A change ended.
    released: Condvar,
}

/// A tree whose files are read.
#[derive(Debug)]
pub struct InUse {
    /// Its dataset.
    pub dataset: ObjectId,
    /// Its name when the tree was opened.
    pub name: String,
    /// Files that are read.
    pub count: usize,
}

/// Keeps trees from being opened until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct TreesHeld<'a>(&'a OpenTrees);

impl Drop for TreesHeld<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holds -= 1;
        self.0.released.notify_all();
    }
}

impl OpenTrees {
    /// Waits until no change is under way; false if one takes long.
    fn wait(&self) -> bool {
        let state = self.state.lock();
        let is_held = |state: &mut State| state.holds > 0;
        let (_state, is_held) = self.released.wait_timeout_while(state, OPENING, is_held);
        !is_held
    }

    /// Opens a tree by `make`; `None` while a change is under way that takes long.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn open<T: OpenTree + 'static, E>(
        &self,
        make: impl Fn() -> Result<T, E>,
    ) -> Result<Option<Weak<T>>, E> {
        loop {
            if !self.wait() {
                return Ok(None);
            }
            let tree = Arc::new(make()?);
            let mut state = self.state.lock();
            if state.holds == 0 {
                let weak = Arc::downgrade(&tree);
                let number = state.next;
                state.next += 1;
                let retired = None;
                state.open.insert(number, Open { tree, retired });
                return Ok(Some(weak));
            }
            drop(state);
        }
    }

    /// No site shows a tree any more.
    pub fn retire<T>(&self, tree: &Weak<T>) {
        let mut state = self.state.lock();
        for open in state.open.values_mut() {
            if std::ptr::addr_eq(Arc::as_ptr(&open.tree), tree.as_ptr()) {
                open.retired.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Closes trees that no site shows and no client reads. Returns the heads among them.
    pub fn sweep(&self) -> Vec<ObjectId> {
        let is_over = |open: &Open| open.retired.is_some() && open.tree.open_files() == 0;
        let mut state = self.state.lock();
        let over = state.open.extract_if(.., |_, open| is_over(open));
        let over: Vec<Open> = over.map(|(_, open)| open).collect();
        drop(state);
        let heads = over.iter().filter(|open| !open.tree.is_lasting());
        heads.map(|open| open.tree.dataset()).collect()
    }

    /// How many files of a dataset clients have open.
    pub fn files_of(&self, id: ObjectId) -> u64 {
        let state = self.state.lock();
        let own = state.open.values().filter(|open| open.tree.dataset() == id);
        own.map(|open| open.tree.open_files() as u64).sum()
    }

    /// Whether a tree of a dataset is open.
    pub(crate) fn is_open(&self, id: ObjectId) -> bool {
        let state = self.state.lock();
        state.open.values().any(|open| open.tree.dataset() == id)
    }

    /// The datasets of trees that no site shows any more.
    pub(crate) fn retired(&self) -> Vec<ObjectId> {
        let state = self.state.lock();
        let retired = state.open.values().filter(|open| open.retired.is_some());
        retired.map(|open| open.tree.dataset()).collect()
    }

    /// Ends trees of this dataset that no site shows any more, once their files are closed or the
    /// time is over.
    pub fn end_retired(&self, id: ObjectId, grace: Duration) {
        let is_meant = |open: &Open| open.retired.is_some() && open.tree.dataset() == id;
        let is_read = || {
            let state = self.state.lock();
            let mut meant = state.open.values().filter(|open| is_meant(open));
            meant.any(|open| open.tree.open_files() > 0)
        };
        within(grace, || !is_read());
        let mut state = self.state.lock();
        let gone: Vec<(u64, Open)> = state
            .open
            .extract_if(.., |_, open| is_meant(open))
            .collect();
        drop(state);
        drop(gone);
    }

    /// Closes the trees of the datasets for which `is_meant` holds. No tree can be opened until the
    /// returned value is dropped.
    ///
    /// # Errors
    /// [`InUse`] if clients read their files, unless `force` is set.
    pub(crate) fn hold(
        &self,
        force: bool,
        is_meant: impl Fn(ObjectId) -> bool,
    ) -> Result<TreesHeld<'_>, InUse> {
        let mut state = self.state.lock();
        state.holds += 1;
        let held = TreesHeld(self);
        let mut meant: Vec<Arc<dyn OpenTree>> = Vec::new();
        let mut keeping: Vec<Arc<dyn OpenTree>> = Vec::new();
        for open in state
            .open
            .values()
            .filter(|open| is_meant(open.tree.dataset()))
        {
            meant.push(Arc::clone(&open.tree));
            if !force && open.keeps() {
                keeping.push(Arc::clone(&open.tree));
            }
        }
        drop(state);
        if meant.is_empty() {
            return Ok(held);
        }
        let set_closing = |closing| {
            let each = meant.iter();
            each.for_each(|tree| tree.set_closing(closing));
        };
        set_closing(true);
        let in_use = || keeping.iter().find(|tree| tree.open_files() > 0);
        if !within(CLOSING, || in_use().is_none())
            && let Some(busy) = in_use()
        {
            set_closing(false);
            return Err(InUse {
                dataset: busy.dataset(),
                name: busy.name().to_owned(),
                count: busy.open_files().max(1),
            });
        }
        drop(keeping);
        let mut state = self.state.lock();
        let gone: Vec<(u64, Open)> = state
            .open
            .extract_if(.., |_, open| {
                meant.iter().any(|one| Arc::ptr_eq(one, &open.tree))
            })
            .collect();
        drop(state);
        let left: Vec<Weak<dyn OpenTree>> = meant.iter().map(Arc::downgrade).collect();
        drop((gone, meant));
        // Reads that are under way; devices that are gone fail them.
        if !within(LETTING_GO, || {
            left.iter().all(|tree| tree.strong_count() == 0)
        }) {
            log::warn!("files are still being read for clients although their dataset is changed");
        }
        Ok(held)
    }
}

/// Waits until `holds` returns true, but no longer than `time`. Returns its last result.
fn within(time: Duration, holds: impl Fn() -> bool) -> bool {
    let looks = time.as_millis() / LOOK_INTERVAL.as_millis();
    for _ in 0..looks {
        if holds() {
            return true;
        }
        rt::sleep(LOOK_INTERVAL);
    }
    holds()
}
