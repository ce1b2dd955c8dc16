//! A device of the kernel, from its start to its end.

use crate::kernel::{self, Control, Facts};
use crate::queue::{self, Orders};
use crate::records::{Record, Records};
use crate::workers::{Window, Workers};
use crate::{Counters, DeviceOptions, LeftDevice, UblkError, check, parameters, users};
use cenote_base::rt::{self, JoinHandle, Mutex, ranks};
use cenote_nbd::BlockDevice;
use libublk::ctrl::UblkCtrl;
use libublk::io::{UblkDev, UblkIOCtx};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open, test_kill_process,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a stop waits for requests under way before they fail.
const STOP_TIME: Duration = Duration::from_secs(10);

/// How long the kernel may take to notice that a process is dead.
const TAKE_OVER_TIME: Duration = Duration::from_secs(60);

/// How long the node of a device may take to appear, and between two looks.
const NODE_TIME: Duration = Duration::from_secs(5);
const NODE_INTERVAL: Duration = Duration::from_millis(5);

/// A device of the kernel that this process serves.
///
/// If it is dropped without [`Self::stop`], the kernel keeps the device as if the process had died,
/// once no request is under way: later requests wait, and [`Self::recover`] takes the device over.
pub struct KernelDevice {
    number: u32,
    control: Control,
    orders: Arc<Orders>,
    device: Arc<dyn BlockDevice>,
    /// The queue's thread; none after the device was stopped.
    thread: Mutex<Option<JoinHandle<()>>, ranks::UblkDevice>,
}

impl fmt::Debug for KernelDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelDevice({})", self.path().display())
    }
}

impl KernelDevice {
    /// Makes `/dev/ublkbN` and serves it; returns when it can be opened.
    ///
    /// # Errors
    /// See [`check`]; the driver refuses.
    pub fn start(device: Arc<dyn BlockDevice>, options: &DeviceOptions) -> Result<Self, UblkError> {
        check()?;
        parameters::check_options(&*device, options)?;
        let mut token = [0; 8];
        let system = |what| move |source| UblkError::System { what, source };
        rt::fill_random(&mut token).map_err(system("read /dev/urandom"))?;
        let record = Record {
            name: options.name.clone(),
            is_read_only: options.is_read_only,
            token: u64::from_le_bytes(token),
        };
        let control = Control::add(record.token, options.queue_depth)?;
        let number = control.number();
        let records = Records::of_machine();
        let served = records
            .write(number, &record)
            .and_then(|()| Self::serve(device, &control, options.is_read_only));
        served.inspect_err(|_| {
            records.remove(number);
            give_back(&control);
        })
    }

    /// Takes over the device that an earlier process left when it died. Requests that were under
    /// way are issued again.
    ///
    /// It takes a moment, and up to a minute if the process died with as many requests under way
    /// as there may be, because the kernel then notices it late.
    ///
    /// # Errors
    /// It was not left; the driver refuses.
    pub fn recover(device: Arc<dyn BlockDevice>, left: &LeftDevice) -> Result<Self, UblkError> {
        check()?;
        let control = left_control(left)?;
        take_over(&control)?;
        Self::serve(device, &control, left.is_read_only)
    }

    fn serve(
        device: Arc<dyn BlockDevice>,
        control: &Control,
        is_read_only: bool,
    ) -> Result<Self, UblkError> {
        let parameters = parameters::of(&*device, is_read_only);
        let size = device.size();
        let depth = control.ctrl().dev_info().queue_depth;
        let prepare = |made: &mut UblkDev| {
            made.tgt.dev_size = parameters::kernel_size(&*device, size);
            made.tgt.params = parameters;
            // A command for each tag, and the poll of the workers' event.
            made.tgt.sq_depth = depth.saturating_mul(2);
            made.tgt.cq_depth = depth.saturating_mul(2);
            Ok(())
        };
        let made = UblkDev::new("cenote".to_owned(), prepare, control.ctrl());
        let made = made.map_err(|error| UblkError::Kernel {
            what: format!("open /dev/ublkc{}", control.number()),
            source: kernel::system_error(&error),
        })?;
        let system = |what| move |source| UblkError::System { what, source };
        let window = Arc::new(CharacterDevice::of(&made)?);
        let workers = Workers::new(Arc::clone(&device), depth, window);
        let orders = Orders::new(workers.map_err(system("make an event"))?);
        let made = Arc::new(made);
        let thread = start_thread(&made, &orders)?;
        let started = control.order("start", move |ctrl| ctrl.start_dev(&made));
        let kernel_device = Self {
            number: control.number(),
            control: control.clone(),
            orders,
            device,
            thread: Mutex::new(Some(thread)),
        };
        started?;
        kernel_device.wait_for_node()?;
        Ok(kernel_device)
    }

    fn wait_for_node(&self) -> Result<(), UblkError> {
        let path = self.path();
        let end = rt::Instant::now() + NODE_TIME;
        while !path.exists() {
            if rt::Instant::now() >= end {
                return Err(UblkError::Kernel {
                    what: format!("make {}", path.display()),
                    source: io::Error::new(
                        io::ErrorKind::NotFound,
                        "the node did not appear; is devtmpfs mounted at /dev?",
                    ),
                });
            }
            rt::sleep(NODE_INTERVAL);
        }
        Ok(())
    }

    /// The number N in `/dev/ublkbN`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The device's node, for example `/dev/ublkb3`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// What the device did since this process serves it.
    pub fn counters(&self) -> Counters {
        self.orders.workers().counters()
    }

    /// Whether it is open: it is mounted, another device is on it, or a program uses it.
    pub fn is_open(&self) -> bool {
        self.thread.lock().is_some() && users::of(self.number).is_some()
    }

    /// Tells the kernel the new size in bytes.
    ///
    /// # Errors
    /// Kernels before 6.16 cannot; the message says what to do instead.
    pub fn resize(&self, size: u64) -> Result<(), UblkError> {
        let thread = self.thread.lock();
        if thread.is_none() {
            return Err(self.stopped());
        }
        if !kernel::can_resize(kernel::features()?) {
            return Err(UblkError::CannotResize {
                number: self.number,
            });
        }
        let size = parameters::kernel_size(&*self.device, size);
        self.control
            .order("resize", move |ctrl| ctrl.update_size(size))
    }

    /// Ends the device: requests under way are answered, and it goes.
    ///
    /// With `force` it is removed although it is open. Requests that take longer than 10 s fail, in
    /// either case; a write among them may still take effect.
    ///
    /// # Errors
    /// It is in use, unless `force`; the driver refuses.
    pub fn stop(&self, force: bool) -> Result<(), UblkError> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            return Err(self.stopped());
        }
        if !force && let Some(user) = users::of(self.number) {
            return Err(UblkError::InUse {
                number: self.number,
                user,
            });
        }
        let orders = Arc::clone(&self.orders);
        stop_within(&self.control, STOP_TIME, move || orders.give_up())?;
        // The kernel has answered all commands, so the thread ends.
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
        remove(&self.control)
    }

    fn stopped(&self) -> UblkError {
        UblkError::Stopped {
            number: self.number,
        }
    }
}

impl Drop for KernelDevice {
    fn drop(&mut self) {
        if self.thread.lock().take().is_some() {
            self.orders.leave();
        }
    }
}

/// Has the kernel expect a new process for the device.
///
/// It notices the death of the old one at once by a command that it has not answered. If all
/// were answered, because every tag had a request, it notices when the first of these has taken
/// 30 s. `libublk` tries for 30 s, too.
fn take_over(control: &Control) -> Result<(), UblkError> {
    let end = rt::Instant::now() + TAKE_OVER_TIME;
    loop {
        let taken = control.order("take over", UblkCtrl::start_user_recover);
        let is_early = taken.as_ref().is_err_and(kernel::is_busy);
        if !is_early || rt::Instant::now() >= end {
            return taken;
        }
    }
}

/// Starts the queue's thread and waits until the kernel has its commands.
fn start_thread(made: &Arc<UblkDev>, orders: &Arc<Orders>) -> Result<JoinHandle<()>, UblkError> {
    let system = |what| move |source| UblkError::System { what, source };
    let (ready, is_ready) = rt::sync_channel(1);
    let (made, orders) = (Arc::clone(made), Arc::clone(orders));
    let number = made.dev_info.dev_id;
    let thread = rt::spawn(format!("ublk-{number}"), move || {
        if let Err(error) = queue::serve(&made, &orders, &ready) {
            log::error!("/dev/ublkb{number} is no longer served: {error}");
        }
    });
    let thread = thread.map_err(system("start a thread for a kernel device"))?;
    let begun = is_ready.recv().unwrap_or_else(|_| {
        let text = "the thread ended; the log has more";
        Err(io::Error::other(text))
    });
    begun.map_err(|source| UblkError::Kernel {
        what: format!("take commands for /dev/ublkc{number}"),
        source,
    })?;
    Ok(thread)
}

/// Stops a device. If that takes longer, `give_up` is called once.
fn stop_within(
    control: &Control,
    time: Duration,
    give_up: impl FnOnce() + Send + 'static,
) -> Result<(), UblkError> {
    let (done, is_done) = rt::sync_channel::<()>(1);
    let watching = rt::spawn("ublk-stop", move || {
        if is_done.recv_timeout(time).is_err() {
            give_up();
        }
    });
    watching.map_err(|source| UblkError::System {
        what: "start a thread",
        source,
    })?;
    let mut stopped = control.stop();
    // It is harmless to say it twice.
    while stopped.as_ref().is_err_and(kernel::is_interrupted) {
        stopped = control.stop();
    }
    let _ = done.send(());
    stopped
}

/// Removes a device that was stopped, and what is kept about it.
fn remove(control: &Control) -> Result<(), UblkError> {
    let number = control.number();
    control.delete()?;
    Records::of_machine().remove(number);
    kernel::remove_placeholder(number);
    Ok(())
}

/// Removes a device that could not be started.
fn give_back(control: &Control) {
    let removed = control.stop().and_then(|()| control.delete());
    if let Err(error) = removed {
        log::warn!("{error}");
    }
}

/// The kernel's memory of requests, through the device's other node.
struct CharacterDevice(OwnedFd);

impl CharacterDevice {
    /// `libublk` has the descriptor, as a number; the node can be opened once only. The kernel
    /// makes another descriptor of the same.
    fn of(made: &UblkDev) -> Result<Self, UblkError> {
        let another = pidfd_open(getpid(), PidfdFlags::empty())
            .and_then(|own| pidfd_getfd(own, made.tgt.fds[0], PidfdGetfdFlags::empty()));
        another.map(Self).map_err(|error| UblkError::System {
            what: "duplicate a descriptor (pidfd_getfd)",
            source: error.into(),
        })
    }
}

impl Window for CharacterDevice {
    fn fetch(&self, tag: u16, at: u64, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let place = place(tag, at)?;
        rustix::io::retry_on_intr(|| rustix::io::preadv(&self.0, slices, place)).map_err(Into::into)
    }

    fn deliver(&self, tag: u16, at: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let place = place(tag, at)?;
        rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.0, slices, place))
            .map_err(Into::into)
    }
}

/// Where the data of a request is in the node.
fn place(tag: u16, at: u64) -> io::Result<u64> {
    let at = u32::try_from(at).ok();
    let at = at.filter(|at| *at <= parameters::REQUEST_BYTES_MAX);
    let at = at.ok_or(rustix::io::Errno::INVAL)?;
    Ok(UblkIOCtx::ublk_user_copy_pos(0, tag, at))
}

/// Devices that processes of this program left when they died.
///
/// # Errors
/// See [`check`]; what is kept about devices cannot be read.
pub fn left_devices() -> Result<Vec<LeftDevice>, UblkError> {
    check()?;
    let records = Records::of_machine();
    let mut left = Vec::new();
    for number in records.numbers()? {
        let Some(record) = records.read(number)? else {
            continue;
        };
        // A record without a device stays: another process may be about to rewrite it.
        if !kernel::exists(number) {
            continue;
        }
        let facts = Control::of_left(number)?.facts()?;
        log::debug!("/dev/ublkb{number} of '{}': {facts:?}", record.name);
        if facts.token == record.token && is_left(&facts) {
            left.push(LeftDevice {
                number,
                name: record.name,
                is_read_only: record.is_read_only,
                token: record.token,
            });
        }
    }
    Ok(left)
}

/// Whether no process serves the device any more.
fn is_left(facts: &Facts) -> bool {
    if facts.is_quiesced {
        return true;
    }
    let process = Pid::from_raw(facts.process);
    let is_alive = process.is_some_and(|process| {
        let told = test_kill_process(process);
        told != Err(rustix::io::Errno::SRCH)
    });
    !is_alive && !facts.is_dead
}

/// Commands to a device that was left.
fn left_control(left: &LeftDevice) -> Result<Control, UblkError> {
    let not_left = |why: &str| UblkError::NotLeft {
        number: left.number,
        why: why.to_owned(),
    };
    if !kernel::exists(left.number) {
        return Err(not_left("it does not exist any more"));
    }
    let control = Control::of_left(left.number)?;
    let facts = control.facts()?;
    if facts.token != left.token {
        return Err(not_left("it is another device with the same number"));
    }
    if !is_left(&facts) {
        let why = format!("process {} serves it", facts.process);
        return Err(not_left(&why));
    }
    Ok(control)
}

/// Removes a device that a dead process left; requests that wait fail.
///
/// # Errors
/// It was not left; the driver refuses.
pub fn remove_left(left: &LeftDevice) -> Result<(), UblkError> {
    check()?;
    let control = left_control(left)?;
    stop_within(&control, STOP_TIME, || {})?;
    remove(&control)
}
