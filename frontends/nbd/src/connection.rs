//! A connection in its transmission: threads that take requests in turns.
//!
//! One thread at a time receives. When it has a request it lets the next one receive, carries the
//! request out and sends the reply, all by itself: no request waits in a queue of ours, and a
//! slow one holds up nobody but those behind the last thread. A connection begins with one
//! thread. Whenever one takes a request and nobody is left to receive, another is started, up to
//! a limit for the connection and one for the server.
//!
//! To let the next one receive costs a switch of threads, which takes longer than to answer a
//! small request out of memory. So where no further request is there yet, the thread answers a
//! small one before it lets go, if the last ones were quick ([`Pace`]).
//!
//! *Back-pressure.* A thread leases memory for a request's data before it receives or reads it,
//! and it does so while it is the one that receives. Where there is none, nobody receives; the
//! socket fills, and the client waits.
//!
//! *Ends.* The client says so or closes its side: requests under way are still answered. If the
//! client breaks the protocol, or takes no byte for too long, the socket is closed at once. The
//! last thread to leave drops the device.

use crate::contexts::Chosen;
use crate::device::{BlockDevice, BlockError};
use crate::exports::Limits;
use crate::handshake::Agreed;
use crate::read_data::ReadData;
use crate::requests::{Reply, Target};
use cenote_base::rt::{self, Condvar, Instant, Mutex, ranks};
use cenote_base::{MemoryBudget, MemoryLease};
use cenote_nbd_client::protocol::request::{EXTENDED_SIZE, Request};
use cenote_nbd_client::protocol::{ErrorCode, command, command_flag, reply::ReplyStyle};
use cenote_nbd_client::receiver::Receiver;
use cenote_nbd_client::transport::{Transport, send_all};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long memory is waited for before the connection is looked at again.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// Payload beyond the limit that is received and dropped, so that the client learns why.
const SKIPPED_BYTES_MAX: u64 = 128 << 20;
/// A buffer that grew beyond this is given back after the request.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Requests of more bytes are answered while another thread receives.
const QUICK_BYTES_MAX: u64 = 32 << 10;
/// An answer that took longer was not quick: as long as some switches of threads.
const QUICK_TIME: Duration = Duration::from_micros(200);
/// After so many quick answers in a row the next one is believed to be quick.
const QUICK_ANSWERS: u32 = 64;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Common {
    pub limits: Limits,
    pub memory: Arc<MemoryBudget>,
    /// Threads beyond the first of each connection.
    pub extra_threads: AtomicUsize,
}

impl Common {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryBudget::new(limits.bytes),
            extra_threads: AtomicUsize::new(0),
            limits,
        })
    }
}

/// Whether small requests are answered quickly.
#[derive(Debug, Default)]
struct Pace {
    /// Quick answers in a row.
    quick: AtomicU32,
}

impl Pace {
    /// Whether the next small request is likely to be answered quickly.
    fn is_quick(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= QUICK_ANSWERS
    }

    /// Notes how long one took.
    fn note(&self, time: Duration) {
        let quick = self.quick.load(Ordering::Relaxed);
        let quick = match time <= QUICK_TIME {
            true => quick.saturating_add(1),
            false => 0,
        };
        // One that is lost between two threads does not matter.
        self.quick.store(quick, Ordering::Relaxed);
    }
}

/// What a connection did.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub read_bytes: AtomicU64,
    pub written_bytes: AtomicU64,
}

/// A connection in its transmission.
pub(crate) struct Connection {
    agreed: Established,
    common: Arc<Common>,
    memory: Arc<MemoryBudget>,
    payload_max: u32,
    receiver: Mutex<Receiver, ranks::NbdReceive>,
    send: Mutex<(), ranks::NbdSend>,
    counters: Arc<Counters>,
    pace: Pace,
    /// Threads that receive, or wait to.
    waiting: AtomicUsize,
    threads: Mutex<usize, ranks::NbdWorkers>,
    thread_left: Condvar,
    has_ended: AtomicBool,
}

/// What was agreed on, without the receiver.
struct Established {
    device: Arc<dyn BlockDevice>,
    style: ReplyStyle,
    contexts: Vec<Chosen>,
    transport: Arc<dyn Transport>,
    client: String,
}

/// A request with what it needs.
struct Taken {
    request: Request,
    /// Why it is refused, if what follows its header cannot be taken.
    refused: Option<BlockError>,
    /// Memory for its data.
    _leases: Option<(MemoryLease, MemoryLease)>,
}

impl Taken {
    /// Whether it can be answered quickly, if nothing has to be waited for.
    fn is_small(&self) -> bool {
        let is_data = matches!(self.request.command, command::READ | command::WRITE);
        let waits = self.request.has(command_flag::FUA);
        is_data && !waits && self.request.length <= QUICK_BYTES_MAX
    }
}

/// What is received instead of a request.
enum End {
    /// The client is done.
    Done,
    Failed(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Counts a thread, however it ends.
struct Present<'a>(&'a Connection, bool);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let Self(connection, is_extra) = *self;
        if is_extra {
            let threads = &connection.common.extra_threads;
            threads.fetch_sub(1, Ordering::AcqRel);
        }
        if rt::panicking() {
            // A device with a mistake: its client learns of it by the end.
            connection.cut("a request could not be carried out");
        }
        let mut threads = connection.threads.lock();
        *threads -= 1;
        let is_last = *threads == 0;
        drop(threads);
        if is_last {
            connection.agreed.transport.shutdown(Shutdown::Both);
        }
        connection.thread_left.notify_all();
    }
}

impl Connection {
    pub fn new(agreed: Agreed, common: Arc<Common>, counters: Arc<Counters>) -> Arc<Self> {
        let names = agreed.contexts.iter().map(|chosen| chosen.name.as_str());
        agreed.device.bind_contexts(&names.collect::<Vec<_>>());
        let most = common.limits.payload_max();
        Arc::new(Self {
            payload_max: agreed.device.block_sizes().maximum.min(most),
            memory: MemoryBudget::new(common.limits.connection_bytes),
            receiver: Mutex::new(agreed.receiver),
            send: Mutex::new(()),
            agreed: Established {
                device: agreed.device,
                style: agreed.style,
                contexts: agreed.contexts,
                transport: agreed.transport,
                client: agreed.client.address,
            },
            common,
            counters,
            pace: Pace::default(),
            waiting: AtomicUsize::new(0),
            threads: Mutex::new(1),
            thread_left: Condvar::new(),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Serves the client on this thread, and on others that it starts.
    pub fn run(self: &Arc<Self>) {
        self.work(false);
    }

    fn work(self: &Arc<Self>, is_extra: bool) {
        let _present = Present(self, is_extra);
        let (mut payload, mut data) = (Vec::new(), ReadData::default());
        loop {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let mut receiver = self.receiver.lock();
            let taken = self.take_or_answer(&mut receiver, &mut payload, &mut data);
            let is_last = self.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
            let taken = match taken {
                Ok(taken) => taken,
                Err(End::Done) => {
                    self.has_ended.store(true, Ordering::Release);
                    return;
                }
                Err(End::Failed(reason)) => return self.cut(&reason),
            };
            drop(receiver);
            if is_last {
                self.start_another();
            }
            let sent = self.answer(&taken, &payload, &mut data);
            if let Err(error) = sent {
                return self.cut(&error.to_string());
            }
            if payload.len() > KEPT_BYTES_MAX {
                payload = Vec::new();
            }
        }
    }

    /// Receives requests, and answers them at once as long as that is quick; the first that is
    /// to be answered while another thread receives.
    fn take_or_answer(
        &self,
        receiver: &mut Receiver,
        payload: &mut Vec<u8>,
        data: &mut ReadData,
    ) -> Result<Taken, End> {
        loop {
            if self.has_ended.load(Ordering::Acquire) {
                return Err(End::Done);
            }
            let taken = self.take(receiver, payload)?;
            if receiver.has_more() || !taken.is_small() || !self.pace.is_quick() {
                return Ok(taken);
            }
            self.answer(&taken, payload, data)?;
        }
    }

    /// Ends the connection at once.
    fn cut(&self, reason: &str) {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            let client = &self.agreed.client;
            log::info!("NBD client {client}: the connection is closed: {reason}");
        }
        self.agreed.transport.shutdown(Shutdown::Both);
    }

    /// Starts another thread, if there may be one more.
    fn start_another(self: &Arc<Self>) {
        let (limits, extra) = (&self.common.limits, &self.common.extra_threads);
        let mut threads = self.threads.lock();
        if *threads >= limits.threads_per_connection {
            return;
        }
        let more = |count| (count < limits.threads).then_some(count + 1);
        let taken = extra.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if taken.is_err() {
            return;
        }
        let own = Arc::clone(self);
        match rt::spawn("nbd", move || own.work(true)) {
            Ok(_) => *threads += 1,
            // The threads that there are go on.
            Err(_) => drop(extra.fetch_sub(1, Ordering::AcqRel)),
        }
    }

    /// Waits until no thread serves this connection any more.
    pub fn wait_for_others(&self) {
        let threads = self.threads.lock();
        drop(self.thread_left.wait_while(threads, |threads| *threads > 0));
    }

    /// Receives a request and what follows it.
    fn take(&self, receiver: &mut Receiver, payload: &mut Vec<u8>) -> Result<Taken, End> {
        let is_extended = self.agreed.style == ReplyStyle::Extended;
        let mut header = [0; EXTENDED_SIZE];
        let header = &mut header[..Request::size(is_extended)];
        if !receiver.fill_or_end(header)? {
            return Err(End::Done);
        }
        let request = Request::decode(header, is_extended).map_err(|error| {
            End::Failed(format!("the client does not keep the protocol: {error}"))
        })?;
        if request.command == command::DISCONNECT {
            return Err(End::Done);
        }
        let follows = request.payload(is_extended);
        payload.clear();
        let most = u64::from(self.payload_max);
        if follows > most {
            if follows > SKIPPED_BYTES_MAX {
                let text = format!("a request has {follows} bytes of data; {most} are allowed");
                return Err(End::Failed(text));
            }
            receiver.skip(follows)?;
            let text = format!("one request has at most {most} bytes of data");
            return Ok(Taken {
                request,
                refused: Some(BlockError::new(ErrorCode::Invalid, text)),
                _leases: None,
            });
        }
        let bytes = match request.command {
            // One that asks for too much is refused before it reads.
            command::READ if request.length <= most => request.length.max(follows),
            _ => follows,
        };
        let leases = match bytes {
            0 => None,
            bytes => Some(self.lease(bytes)?),
        };
        if follows > 0 {
            let time = self.common.limits.payload_time(follows);
            let follows = usize::try_from(follows).expect("at most the largest payload");
            payload.resize(follows, 0);
            receiver.set_deadline(Some(Instant::now() + time))?;
            receiver.fill(payload)?;
            receiver.set_deadline(None)?;
        }
        Ok(Taken {
            request,
            refused: None,
            _leases: leases,
        })
    }

    /// Waits for memory for a request's data.
    fn lease(&self, bytes: u64) -> Result<(MemoryLease, MemoryLease), End> {
        let from = |budget: &Arc<MemoryBudget>| loop {
            match budget.lease_patiently(bytes, LEASE_PATIENCE) {
                Ok(lease) => return Ok(lease),
                Err(_) if self.has_ended.load(Ordering::Acquire) => return Err(End::Done),
                Err(_) => {}
            }
        };
        Ok((from(&self.memory)?, from(&self.common.memory)?))
    }

    /// Carries out a request and sends the reply.
    fn answer(&self, taken: &Taken, payload: &[u8], data: &mut ReadData) -> io::Result<()> {
        let request = &taken.request;
        let begun = taken.is_small().then(Instant::now);
        let target = Target {
            device: &*self.agreed.device,
            style: self.agreed.style,
            contexts: &self.agreed.contexts,
            payload_max: self.payload_max,
        };
        data.begin(0);
        let reply = match &taken.refused {
            Some(error) => target.failed(request, error),
            None => target.carry_out(request, payload, data),
        };
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let bytes = match (&reply, request.command) {
            (Reply::WithData(_) | Reply::Chunks(..), _) => Some(&self.counters.read_bytes),
            (_, command::WRITE) => Some(&self.counters.written_bytes),
            _ => None,
        };
        if let Some(counter) = bytes {
            counter.fetch_add(request.length, Ordering::Relaxed);
        }
        let mut slices = reply.slices(data);
        let turn = self.send.lock();
        let sent = send_all(&*self.agreed.transport, &mut slices);
        drop(turn);
        if let Some(begun) = begun {
            self.pace.note(begun.elapsed());
        }
        sent
    }
}
