//! The purpose of a request to devices.
//!
//! The purpose decides how urgent a request is and whether it waits in an outage. Requests pass
//! through many layers and hop between threads on their way down. So the purpose travels with the
//! handle that reads or as an argument, and never in the thread: a thread-local would be lost at
//! each hop, and would stay behind in a worker that does other work next.

use crate::queue::IoClass;
use crate::window::Windows;
use cenote_injection::BlockDrill;
use std::sync::Arc;

/// What a read does when its devices are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// Waits or fails, as the pool's property `failmode` says.
    #[default]
    Usual,
    /// Waits under every `failmode` that lets anything wait: a transaction group cannot be written
    /// without what this reads.
    Always,
    /// Fails: an administrator wants to learn what cannot be read.
    Never,
}

/// Which copy a read is of, where a device keeps some nearer than its medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The nearest.
    #[default]
    Nearest,
    /// The medium's own: what is nearer says nothing about it.
    Medium,
}

/// What a request is made for: its class, its patience, whether it is about the medium, and what
/// was read ahead for it.
#[derive(Clone, Debug)]
pub struct IoContext {
    /// The queue of a device in which reads wait. Repairs go by it, too.
    pub class: IoClass,
    /// What a read does when its devices are gone.
    pub patience: Patience,
    /// Which copy of a device a read is of.
    pub from: ReadFrom,
    /// Bytes that were read ahead and answer reads first.
    pub(crate) windows: Option<Arc<Windows>>,
    /// What goes wrong on purpose with the block that is read.
    pub(crate) drill: Option<BlockDrill>,
}

impl IoContext {
    /// A program reads a file or volume and waits for it.
    pub const USER: Self = Self::new(IoClass::SyncRead, Patience::Usual);

    /// A command asks about the pool.
    pub const COMMAND: Self = Self::new(IoClass::SyncRead, Patience::Never);

    /// The syncing thread needs it to write a transaction group.
    pub const SYNCING: Self = Self::new(IoClass::SyncRead, Patience::Always);

    /// A resilver or rebuild reads all there is, in the background.
    pub const SCRUB: Self = Self::new(IoClass::Scrub, Patience::Usual);

    /// A scrub or verification does the same, to learn what the medium has.
    pub const VERIFICATION: Self = Self::of(IoClass::Scrub, Patience::Usual, ReadFrom::Medium);

    const fn new(class: IoClass, patience: Patience) -> Self {
        Self::of(class, patience, ReadFrom::Nearest)
    }

    const fn of(class: IoClass, patience: Patience, from: ReadFrom) -> Self {
        Self {
            class,
            patience,
            from,
            windows: None,
            drill: None,
        }
    }

    /// The same request in another class.
    #[must_use]
    pub fn with_class(&self, class: IoClass) -> Self {
        Self {
            class,
            ..self.clone()
        }
    }

    /// The same request with other patience.
    #[must_use]
    pub fn with_patience(&self, patience: Patience) -> Self {
        Self {
            patience,
            ..self.clone()
        }
    }

    /// The same request, of this copy.
    #[must_use]
    pub fn read_from(&self, from: ReadFrom) -> Self {
        Self {
            from,
            ..self.clone()
        }
    }

    /// The same request, answered from these windows where they have the bytes.
    #[must_use]
    pub fn with_windows(&self, windows: Windows) -> Self {
        Self {
            windows: Some(Arc::new(windows)),
            ..self.clone()
        }
    }

    /// The same request without what was read ahead, to be kept for later.
    #[must_use]
    pub fn without_windows(&self) -> Self {
        Self {
            windows: None,
            ..self.clone()
        }
    }

    /// The same request, of a block whose reads fail on purpose.
    #[must_use]
    pub fn drilled(&self, drill: BlockDrill) -> Self {
        // What was read ahead has no faults.
        Self {
            drill: Some(drill),
            ..self.without_windows()
        }
    }

    /// The class in which a repair is written.
    pub(crate) fn repair_class(&self) -> IoClass {
        match self.class {
            IoClass::Scrub => IoClass::Scrub,
            _ => IoClass::AsyncWrite,
        }
    }
}
