//! The thread that speaks with the kernel about requests.
//!
//! The driver answers a command of ours, one for each tag, when a request comes with that tag; we
//! answer the request with the same command, which also fetches the next one. All commands are in
//! one `io_uring`. In it there also is a poll of the workers' event, so one wait sees both.
//!
//! ```text
//! with the kernel  --request-->  in service  --worker-->  answered  --command-->  with the kernel
//! ```
//!
//! *Ends.* The device is stopped: the kernel answers all commands with an error, and the thread
//! ends with the last one. It is left: no request is begun any more, and when none is under way
//! the ring goes, which to the kernel is the death of a process. Requests are given up: all that
//! are in service fail, and all that come later, so that a stop need not wait for a pool that
//! hangs.

use crate::request::Request;
use crate::workers::{Answer, Workers};
use cenote_base::rt;
use io_uring::{IoUring, opcode, squeue, types};
use libublk::io::{BufDesc, BufDescList, UblkDev, UblkQueue, with_task_io_ring_mut};
use libublk::uring_async::ublk_reap_io_events_with_update_queue;
use libublk::{UblkIORes, UblkUringData, sys};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the thread is to do.
const SERVE: u8 = 0;
/// Fail all requests.
const GIVE_UP: u8 = 1;
/// Leave the device to the kernel.
const LEAVE: u8 = 2;

/// Between a device and the thread that serves it.
pub(crate) struct Orders {
    order: AtomicU8,
    workers: Arc<Workers>,
}

impl Orders {
    pub fn new(workers: Arc<Workers>) -> Arc<Self> {
        Arc::new(Self {
            order: AtomicU8::new(SERVE),
            workers,
        })
    }

    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Requests in service fail, and those that come.
    pub fn give_up(&self) {
        self.order.store(GIVE_UP, Ordering::Release);
        self.workers.close_window();
        self.workers.notify();
    }

    /// The device is left to the kernel when no request is under way any more.
    pub fn leave(&self) {
        self.order.store(LEAVE, Ordering::Release);
        self.workers.notify();
    }

    fn get(&self) -> u8 {
        self.order.load(Ordering::Acquire)
    }
}

/// Serves the device's only queue. Sends to `ready` when the kernel has our commands.
pub(crate) fn serve(
    device: &UblkDev,
    orders: &Orders,
    ready: &rt::SyncSender<io::Result<()>>,
) -> io::Result<()> {
    crate::kernel::mark_thread();
    let begun = begin(device);
    let queue = match begun {
        Ok(queue) => queue,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    let served = Serving::new(&queue, orders).run();
    // Before the ring goes: no worker copies for a kernel that believes the process dead.
    orders.workers.close_window();
    orders.workers.end();
    let dropped = drop_ring(device);
    served.and(dropped)
}

/// Closes the ring, which takes all commands back, and puts an empty one in its place.
///
/// The queue unregisters its file from the thread's ring when it is dropped. With the ring that
/// has commands of that file, this would wait for their answers: for ever, if the device is left.
fn drop_ring(device: &UblkDev) -> io::Result<()> {
    let empty = IoUring::new(1)?;
    empty.submitter().register_files(&device.tgt.fds[..1])?;
    with_task_io_ring_mut(|ring| *ring = empty);
    Ok(())
}

fn begin(device: &UblkDev) -> io::Result<UblkQueue<'_>> {
    let queue = UblkQueue::new(0, device).map_err(|error| crate::kernel::system_error(&error))?;
    let queue = queue
        .submit_fetch_commands_unified(BufDescList::Slices(None))
        .map_err(|error| crate::kernel::system_error(&error))?;
    with_task_io_ring_mut(|ring| ring.submit())?;
    Ok(queue)
}

/// The state of the thread.
struct Serving<'a> {
    queue: &'a UblkQueue<'a>,
    orders: &'a Orders,
    /// By tag: a worker has it, or it waits for one.
    in_service: Vec<bool>,
    /// Commands that the kernel has not answered.
    with_kernel: usize,
    /// The kernel has ended the device, or is about to.
    is_ending: bool,
    /// The event is polled.
    is_armed: bool,
    answers: Vec<Answer>,
    events: Vec<(u64, i32)>,
}

impl<'a> Serving<'a> {
    fn new(queue: &'a UblkQueue<'a>, orders: &'a Orders) -> Self {
        let depth = queue.get_depth() as usize;
        Self {
            queue,
            orders,
            in_service: vec![false; depth],
            with_kernel: depth,
            is_ending: false,
            is_armed: false,
            answers: Vec::new(),
            events: Vec::new(),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.arm()?;
            match with_task_io_ring_mut(|ring| ring.submit_and_wait(1)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            self.reap()?;
            self.answer();
            match self.orders.get() {
                GIVE_UP => self.fail_all(),
                LEAVE if self.orders.workers.abandon() => return Ok(()),
                _ => {}
            }
            if self.is_ending && self.with_kernel == 0 {
                return Ok(());
            }
        }
    }

    /// Sees to it that answers of workers end the next wait.
    fn arm(&mut self) -> io::Result<()> {
        if self.is_armed {
            return Ok(());
        }
        let event = types::Fd(self.orders.workers.event().as_raw_fd());
        let readable = u32::from(rustix::event::PollFlags::IN.bits());
        let poll: squeue::Entry = opcode::PollAdd::new(event, readable).build();
        let poll = poll.user_data(UblkUringData::Target as u64);
        let armed = self.queue.ublk_submit_sqe_sync(poll);
        armed.map_err(|error| crate::kernel::system_error(&error))?;
        self.is_armed = true;
        Ok(())
    }

    /// Takes what the ring has.
    fn reap(&mut self) -> io::Result<()> {
        let events = &mut self.events;
        let reaped = ublk_reap_io_events_with_update_queue(self.queue, false, None, |event| {
            events.push((event.user_data(), event.result()));
        });
        reaped.map_err(|error| crate::kernel::system_error(&error))?;
        let events = std::mem::take(&mut self.events);
        for (data, result) in &events {
            if data & UblkUringData::Target as u64 != 0 {
                self.is_armed = false;
                self.orders.workers.settle();
                continue;
            }
            self.with_kernel -= 1;
            // The tag is in the lowest 16 bits.
            let tag = u16::try_from(data & 0xffff).expect("16 bits");
            if *result == 0 {
                self.begin_request(tag);
            } else {
                if *result != sys::UBLK_IO_RES_ABORT {
                    let error = io::Error::from_raw_os_error(result.saturating_neg());
                    log::error!("the ublk driver ended the requests with tag {tag}: {error}");
                }
                self.is_ending = true;
            }
        }
        self.events = events;
        self.events.clear();
        Ok(())
    }

    fn begin_request(&mut self, tag: u16) {
        let described = self.queue.get_iod(tag);
        let request = Request::decode(
            described.op_flags,
            described.start_sector,
            described.nr_sectors,
        );
        self.in_service[usize::from(tag)] = true;
        match (request, self.orders.get()) {
            (_, GIVE_UP) => self.complete(tag, -Errno::IO.raw_os_error()),
            // It stays with us, so the kernel issues it again to the next process.
            (_, LEAVE) => {}
            (Ok(request), _) => self.orders.workers.submit(tag, request),
            (Err(number), _) => self.complete(tag, -number.raw_os_error()),
        }
    }

    /// Passes the workers' results to the kernel.
    fn answer(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        self.orders.workers.take_answers(&mut answers);
        for (tag, result) in answers.drain(..) {
            self.complete(tag, result);
        }
        self.answers = answers;
    }

    fn fail_all(&mut self) {
        for tag in 0..self.in_service.len() {
            let tag = u16::try_from(tag).expect("a depth has 16 bits");
            self.complete(tag, -Errno::IO.raw_os_error());
        }
    }

    /// Answers a request, unless that was done before.
    fn complete(&mut self, tag: u16, result: i32) {
        let in_service = &mut self.in_service[usize::from(tag)];
        if !std::mem::replace(in_service, false) || self.queue.is_stopping() {
            return;
        }
        let result = Ok(UblkIORes::Result(result));
        let completed = self
            .queue
            .complete_io_cmd_unified(tag, BufDesc::Slice(&[]), result);
        match completed {
            Ok(()) => self.with_kernel += 1,
            Err(error) => log::error!("a request with tag {tag} cannot be answered: {error}"),
        }
    }
}
