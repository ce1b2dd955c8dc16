//! The list of faults, and what they hold up.

use cenote_base::Env;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_control::model::{ControlError, InjectRefusal, Injected, InjectionRow};
use cenote_injection::LeafFaults;
use cenote_registry::imported::Imported;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Faults that may be on at once.
const FAULTS_MAX: usize = 1000;
/// How often something that is held up checks whether its fault is still on.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What is injected now.
#[derive(Debug, Default)]
pub struct Injections {
    state: Mutex<State, ranks::Injections>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    faults: Vec<Fault>,
}

/// A fault that is on.
#[derive(Debug)]
pub(crate) struct Fault {
    pub row: InjectionRow,
    target: Target,
}

/// Where a fault is.
#[derive(Debug)]
pub(crate) enum Target {
    Leaf(Weak<Imported>, Arc<LeafFaults>),
    Blocks(Weak<Imported>),
    /// Nowhere else than in the list.
    Pause,
}

impl Fault {
    fn end(&self) {
        match &self.target {
            Target::Leaf(_, faults) => faults.remove(self.row.id),
            Target::Blocks(imported) => {
                if let Some(imported) = imported.upgrade() {
                    imported
                        .pool
                        .cache()
                        .pipeline()
                        .faults()
                        .remove(self.row.id);
                }
            }
            Target::Pause => {}
        }
    }

    /// Whether its pool is still there, if it is of one.
    fn has_pool(&self) -> bool {
        match &self.target {
            Target::Leaf(of, _) | Target::Blocks(of) => of.strong_count() > 0,
            Target::Pause => true,
        }
    }

    fn is_of(&self, imported: &Imported) -> bool {
        match &self.target {
            Target::Leaf(of, _) | Target::Blocks(of) => {
                std::ptr::eq(of.as_ptr(), std::ptr::from_ref(imported))
            }
            Target::Pause => false,
        }
    }
}

/// What an import or export does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The pool comes.
    Import,
    /// The pool goes.
    Export,
}

impl Passage {
    /// How long a fault makes it.
    fn pause(self, fault: &Injected) -> Option<Duration> {
        match (self, fault) {
            (Self::Import, Injected::Import { seconds })
            | (Self::Export, Injected::Export { seconds }) => Some(Duration::from_secs(*seconds)),
            _ => None,
        }
    }
}

impl Injections {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Lists a fault, which `begin` has begin with its number.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn add(
        &self,
        pool: &str,
        fault: Injected,
        target: Target,
        begin: impl FnOnce(u64),
    ) -> Result<InjectionRow, ControlError> {
        let mut state = self.lock();
        // Those of pools that have left are over.
        state.faults.retain(Fault::has_pool);
        if state.faults.len() >= FAULTS_MAX {
            let limit = FAULTS_MAX as u64;
            return Err(InjectRefusal::TooMany { limit }.into());
        }
        state.last += 1;
        let row = InjectionRow {
            id: state.last,
            pool: pool.to_owned(),
            fault,
        };
        begin(row.id);
        let kept = row.clone();
        state.faults.push(Fault { row: kept, target });
        Ok(row)
    }

    /// The faults that are on.
    pub(crate) fn list(&self) -> Vec<InjectionRow> {
        let state = self.lock();
        let faults = state.faults.iter().filter(|fault| fault.has_pool());
        faults.map(|fault| fault.row.clone()).collect()
    }

    /// Ends the faults that are meant.
    pub(crate) fn end(&self, is_meant: impl Fn(&Fault) -> bool) -> Vec<InjectionRow> {
        let mut state = self.lock();
        let faults = std::mem::take(&mut state.faults);
        let (ended, kept) = faults.into_iter().partition(is_meant);
        state.faults = kept;
        drop(state);
        let ended: Vec<Fault> = ended;
        ended.iter().for_each(Fault::end);
        ended.into_iter().map(|fault| fault.row).collect()
    }

    /// How many faults are on in a pool.
    pub fn count(&self, imported: &Imported) -> u64 {
        let state = self.lock();
        let of_pool = state.faults.iter().filter(|fault| fault.is_of(imported));
        of_pool.count() as u64
    }

    /// Whether a fault waits for a pool that is not imported.
    pub fn waits_for_import(&self) -> bool {
        let state = self.lock();
        let mut faults = state.faults.iter();
        faults.any(|fault| matches!(fault.row.fault, Injected::Import { .. }))
    }

    /// Holds up an import or export for as long as faults say, until these end. They end with the
    /// answer.
    pub fn hold_up(&self, env: &dyn Env, pool: &str, passage: Passage) -> HeldUp<'_> {
        let begun = env.monotonic();
        let mut ids = Vec::new();
        loop {
            let state = self.lock();
            let of_pool = state.faults.iter().filter(|fault| fault.row.pool == pool);
            let pauses: Vec<(u64, Duration)> = of_pool
                .filter_map(|fault| Some((fault.row.id, passage.pause(&fault.row.fault)?)))
                .collect();
            drop(state);
            let longest = pauses.iter().map(|(_, pause)| *pause).max();
            ids.extend(pauses.iter().map(|(id, _)| *id));
            let left = longest
                .unwrap_or_default()
                .saturating_sub(env.monotonic() - begun);
            if left.is_zero() {
                let injections = self;
                return HeldUp { injections, ids };
            }
            env.sleep(left.min(LOOK_INTERVAL));
        }
    }
}

/// An import or export that faults have held up.
#[derive(Debug)]
pub struct HeldUp<'a> {
    injections: &'a Injections,
    ids: Vec<u64>,
}

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.injections
                .end(|fault| self.ids.contains(&fault.row.id));
        }
    }
}
