//! One disk, from its start to its end.
//!
//! A disk is *starting*, *running*, *ending* or *gone*. While one thread starts or ends it, the
//! others wait, up to a timeout. Calls into the kernel are made without the lock.

use super::label::Label;
use super::links::Links;
use super::seam::{KernelDisk, KernelFault};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Condvar, Mutex, ranks};
use cenote_control::model::{ControlError, UblkDisk, UblkRefusal};
use cenote_engine::{Grip, LetsGo, OwnDisks};
use std::sync::Arc;
use std::time::Duration;

/// How long a thread waits for another one that starts or ends the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often an open disk is checked before it counts as in use. udev opens each new disk for a
/// moment, and the kernel closes the files of a program only after its end.
const LOOKS: u32 = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

enum Phase {
    Starting,
    Running(Arc<dyn KernelDisk>),
    Ending,
    Gone,
}

struct State {
    phase: Phase,
    /// The name under which it has a link, or should.
    name: String,
    has_link: bool,
    size: u64,
    /// Nothing asks for it any more.
    is_leaving: bool,
}

/// What a disk is part of.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub links: Links,
    pub own: Arc<OwnDisks>,
}

/// A disk.
pub(super) struct Disk {
    /// The import of its pool, and the dataset there.
    pub key: (u64, ObjectId),
    pub label: Label,
    state: Mutex<State, ranks::LocalDisk>,
    changed: Condvar,
    place: Place,
}

impl Disk {
    /// A disk that is being started.
    pub fn starting(key: (u64, ObjectId), label: Label, place: Place) -> Arc<Self> {
        let state = State {
            phase: Phase::Starting,
            name: label.name.clone(),
            has_link: false,
            size: 0,
            is_leaving: false,
        };
        Arc::new(Self {
            key,
            label,
            state: Mutex::new(state),
            changed: Condvar::default(),
            place,
        })
    }

    /// The kernel has created it.
    pub fn run(&self, kernel: Arc<dyn KernelDisk>, size: u64) {
        self.place.own.add(kernel.number());
        let mut state = self.state.lock();
        state.phase = Phase::Running(kernel);
        state.size = size;
        drop(state);
        self.changed.notify_all();
    }

    /// The kernel could not create it.
    pub fn give_up(&self) {
        self.state.lock().phase = Phase::Gone;
        self.changed.notify_all();
    }

    /// The kernel's disk, if this one runs. Waits while it is starting or ending, up to a timeout.
    fn settled(&self) -> Option<Arc<dyn KernelDisk>> {
        let state = self.state.lock();
        let is_moving = |state: &mut State| matches!(state.phase, Phase::Starting | Phase::Ending);
        let (state, _) = self.changed.wait_timeout_while(state, PATIENCE, is_moving);
        match &state.phase {
            Phase::Running(kernel) => Some(Arc::clone(kernel)),
            Phase::Starting | Phase::Ending | Phase::Gone => None,
        }
    }

    /// Whether it runs. Waits while it is starting or ending, up to a timeout.
    pub fn is_running(&self) -> bool {
        self.settled().is_some()
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Gone)
    }

    /// The name under which it has a link, or should.
    pub fn name(&self) -> String {
        self.state.lock().name.clone()
    }

    pub fn is_leaving(&self) -> bool {
        self.state.lock().is_leaving
    }

    pub fn set_leaving(&self, is_leaving: bool) {
        self.state.lock().is_leaving = is_leaving;
    }

    /// Makes the link, and removes the link with the old name.
    ///
    /// # Errors
    /// Why there is no link.
    pub fn link(&self, name: &str, is_ours: impl Fn(u32) -> bool) -> Result<(), String> {
        let state = self.state.lock();
        let Phase::Running(kernel) = &state.phase else {
            return Ok(());
        };
        let number = kernel.number();
        let before = state.name.clone();
        drop(state);
        if before != name {
            self.place.links.remove(&before, number);
        }
        let made = self.place.links.make(name, number, is_ours);
        let mut state = self.state.lock();
        state.has_link = made.is_ok();
        name.clone_into(&mut state.name);
        drop(state);
        made.map(drop).map_err(|error| error.to_string())
    }

    /// Gives it the size of its volume.
    ///
    /// # Errors
    /// The kernel cannot.
    pub fn resize(&self, size: u64) -> Result<(), ControlError> {
        let Some(kernel) = self.settled() else {
            return Ok(());
        };
        let resized = kernel.resize(size);
        resized.map_err(|fault| UblkRefusal::Size {
            dataset: self.name(),
            device: self.device(&kernel),
            reason: fault.to_string(),
        })?;
        self.state.lock().size = size;
        Ok(())
    }

    fn device(&self, kernel: &Arc<dyn KernelDisk>) -> String {
        let path = self.place.links.device(kernel.number());
        path.to_string_lossy().into_owned()
    }

    /// Its status, for clients of the daemon; `None` unless it runs.
    pub fn status(&self, is_by_property: bool) -> Option<UblkDisk> {
        let state = self.state.lock();
        let Phase::Running(kernel) = &state.phase else {
            return None;
        };
        let kernel = Arc::clone(kernel);
        let link = state.has_link.then(|| self.place.links.place(&state.name));
        let mut status = UblkDisk {
            dataset: state.name.clone(),
            device: self.device(&kernel),
            link: link.map(|link| link.to_string_lossy().into_owned()),
            size: state.size,
            is_read_only: self.label.is_read_only,
            is_by_property,
            is_leaving: state.is_leaving,
            ..UblkDisk::default()
        };
        drop(state);
        status.is_open = kernel.is_open();
        let counters = kernel.counters();
        status.requests = counters.requests;
        status.read_bytes = counters.read_bytes;
        status.written_bytes = counters.written_bytes;
        Some(status)
    }

    fn in_use(&self, kernel: &Arc<dyn KernelDisk>) -> ControlError {
        UblkRefusal::InUse {
            dataset: self.name(),
            device: self.device(kernel),
        }
        .into()
    }

    /// Whether it stays open for longer than the moment that udev needs.
    fn stays_open(&self, kernel: &Arc<dyn KernelDisk>) -> bool {
        for _ in 0..LOOKS {
            if !kernel.is_open() {
                return false;
            }
            rt::sleep(LOOK_INTERVAL);
        }
        kernel.is_open()
    }

    /// Takes the kernel's disk to end it; `None` if it is gone.
    fn take(&self) -> Result<Option<Arc<dyn KernelDisk>>, ControlError> {
        let state = self.state.lock();
        let is_moving = |state: &mut State| matches!(state.phase, Phase::Starting | Phase::Ending);
        let (mut state, _) = self.changed.wait_timeout_while(state, PATIENCE, is_moving);
        match std::mem::replace(&mut state.phase, Phase::Ending) {
            Phase::Running(kernel) => Ok(Some(kernel)),
            Phase::Gone => {
                state.phase = Phase::Gone;
                Ok(None)
            }
            moving @ (Phase::Starting | Phase::Ending) => {
                state.phase = moving;
                let dataset = state.name.clone();
                Err(ControlError::DatasetBusy { dataset })
            }
        }
    }

    fn end(&self, kernel: &Arc<dyn KernelDisk>, grip: Grip) -> Result<(), ControlError> {
        let ended = match grip {
            Grip::Leave => {
                if let Err(fault) = kernel.leave() {
                    log::warn!("{}: what was written may be lost: {fault}", self.name());
                }
                return Ok(());
            }
            Grip::Force => kernel.stop(true),
            Grip::Look | Grip::Unused | Grip::UnusedNow => kernel.stop(false),
        };
        ended.map_err(|fault| match fault {
            KernelFault::Open => self.in_use(kernel),
            KernelFault::Unavailable(reason) | KernelFault::Failed(reason) => UblkRefusal::Stays {
                dataset: self.name(),
                device: self.device(kernel),
                reason,
            }
            .into(),
        })?;
        // Soon, because the kernel may give the number to another disk.
        self.place.links.remove(&self.name(), kernel.number());
        self.place.own.remove(kernel.number());
        Ok(())
    }
}

impl LetsGo for Disk {
    fn let_go(&self, grip: Grip) -> Result<(), ControlError> {
        if matches!(grip, Grip::Look | Grip::Unused)
            && let Some(kernel) = self.settled()
            && self.stays_open(&kernel)
        {
            return Err(self.in_use(&kernel));
        }
        if grip == Grip::Look {
            return Ok(());
        }
        let Some(kernel) = self.take()? else {
            return Ok(());
        };
        let ended = self.end(&kernel, grip);
        let phase = match &ended {
            Ok(()) => Phase::Gone,
            Err(_) => Phase::Running(kernel),
        };
        self.state.lock().phase = phase;
        self.changed.notify_all();
        ended
    }
}
