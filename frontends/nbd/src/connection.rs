//! A connection in its transmission: threads that take requests in turns.
//!
//! One thread at a time receives (module `turns`). It answers a small request itself, if the last
//! ones were quick ([`Pace`]), and so any request of a client that makes one at a time. Letting
//! another thread receive meanwhile costs a switch of threads, which takes longer. The replies of
//! requests that came together are sent together (module `outbox`). Before any other request the
//! thread passes receiving on to the next one; then it carries the request out and sends the reply
//! itself. So no request waits in a queue of ours, and a slow one delays others only when all
//! threads are busy. A connection begins with one thread. When no thread is left to receive,
//! another is started, up to a limit for the connection and one for the server.
//!
//! *Back-pressure.* A thread leases memory for a request's data before it receives or reads it, and
//! it does so while it is the one that receives. If there is no memory, no thread receives; the
//! socket fills, and the client waits. Replies are sent before any wait that may depend on the
//! client, or on memory that the replies hold.
//!
//! *Ends.* The client disconnects or closes its side: requests under way are still answered. If the
//! client breaks the protocol, or accepts no byte for too long, the socket is closed at once. The
//! last thread to leave drops the device.

use crate::contexts::Chosen;
use crate::device::{BlockDevice, BlockError};
use crate::exports::Limits;
use crate::handshake::Agreed;
use crate::outbox::{Leases, Outbox};
use crate::payload::Payload;
use crate::read_data::ReadData;
use crate::requests::{Reply, Target};
use crate::turns::{Others, Role, Turns};
use cenote_base::rt::{self, Instant, Mutex, ranks};
use cenote_base::{MemoryBudget, MemoryLease};
use cenote_nbd_client::protocol::request::{EXTENDED_SIZE, Request};
use cenote_nbd_client::protocol::{ErrorCode, command, command_flag, reply::ReplyStyle};
use cenote_nbd_client::receiver::Receiver;
use cenote_nbd_client::transport::Transport;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long to wait for memory before the connection is checked again.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// Payload beyond the limit that is received and dropped, so that the client learns why.
const SKIPPED_BYTES_MAX: u64 = 128 << 20;
/// Requests of more bytes are answered while another thread receives.
const QUICK_BYTES_MAX: u64 = 32 << 10;
/// Small requests are quick while they take no longer than this on average: as long as some
/// switches of threads.
const QUICK_NS: u64 = 50_000;
/// One that took longer counts as this: it may have had to wait for a processor.
const NOTED_NS_MAX: u64 = 16 * QUICK_NS;
/// The weight of the last request is 1 / `WEIGHT`.
const WEIGHT: u64 = 32;

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

/// How quickly small requests are answered.
#[derive(Debug)]
struct Pace {
    /// Nanoseconds, on average.
    average: AtomicU64,
}

impl Pace {
    /// Nothing is known yet.
    fn new() -> Self {
        Self {
            average: AtomicU64::new(2 * QUICK_NS),
        }
    }

    /// Whether the next small request is likely to be answered quickly.
    fn is_quick(&self) -> bool {
        self.average.load(Ordering::Relaxed) <= QUICK_NS
    }

    /// Notes how long one took.
    fn note(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).map_or(NOTED_NS_MAX, |ns| ns.min(NOTED_NS_MAX));
        let before = self.average.load(Ordering::Relaxed);
        // One that is lost between two threads does not matter.
        let average = before - before / WEIGHT + time / WEIGHT;
        self.average.store(average, Ordering::Relaxed);
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
    /// Its own memory, for when other connections hold all of the shared memory.
    own: Arc<MemoryBudget>,
    payload_max: u32,
    receiver: Mutex<Receiver, ranks::NbdReceive>,
    outbox: Mutex<Outbox, ranks::NbdSend>,
    /// Replies are in the outbox, and no thread is sending them.
    has_replies: AtomicBool,
    counters: Arc<Counters>,
    pace: Pace,
    turns: Turns,
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
    leases: Leases,
}

/// What a thread has for its requests.
struct Desk {
    payload: Payload,
    data: ReadData,
}

impl Taken {
    /// Whether it can be answered quickly, if nothing has to be waited for.
    fn is_small(&self) -> bool {
        let is_data = matches!(self.request.command, command::READ | command::WRITE);
        let waits = self.request.has(command_flag::FUA);
        is_data && !waits && self.request.length <= QUICK_BYTES_MAX
    }
}

impl Desk {
    /// Frees the buffers: a thread that waits for its turn must not keep memory.
    fn clear(&mut self) {
        self.payload.end();
        self.data.begin(0);
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
        if connection.turns.leave() {
            connection.agreed.transport.shutdown(Shutdown::Both);
        }
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
            own: MemoryBudget::new(common.limits.own_bytes),
            receiver: Mutex::new(agreed.receiver),
            outbox: Mutex::default(),
            has_replies: AtomicBool::new(false),
            agreed: Established {
                device: agreed.device,
                style: agreed.style,
                contexts: agreed.contexts,
                transport: agreed.transport,
                client: agreed.client.address,
            },
            common,
            counters,
            pace: Pace::new(),
            turns: Turns::new(),
        })
    }

    /// Serves the client on this thread, and on further threads that it starts.
    pub fn run(self: &Arc<Self>) {
        self.work(false);
    }

    fn work(self: &Arc<Self>, is_extra: bool) {
        let _present = Present(self, is_extra);
        let mut desk = Desk {
            payload: Payload::default(),
            data: ReadData::default(),
        };
        while let Role::Lead(lead) = self.turns.take() {
            let answered = match self.lead(lead, &mut desk) {
                Ok(Some(taken)) => self.answer(&taken, &mut desk),
                Ok(None) => Ok(()),
                Err(End::Done) => {
                    self.turns.end();
                    return;
                }
                Err(End::Failed(reason)) => return self.cut(&reason),
            };
            if let Err(error) = answered {
                return self.cut(&error.to_string());
            }
        }
    }

    /// Receives requests, and answers them at once as long as that is quick. The first that is to
    /// be answered while another thread receives, unless the lead is lost before.
    fn lead(self: &Arc<Self>, lead: u64, desk: &mut Desk) -> Result<Option<Taken>, End> {
        while self.turns.leads(lead) {
            let mut receiver = self.receiver.lock();
            let taken = self.take(&mut receiver, desk)?;
            self.turns.note(!receiver.has_more());
            drop(receiver);
            let is_quick = taken.is_small() && self.pace.is_quick();
            // Of a client that makes one request at a time nothing else waits.
            if !is_quick && !self.turns.is_single() {
                self.start_for(self.turns.pass_on(lead));
                return Ok(Some(taken));
            }
            self.answer_at_once(lead, taken, desk)?;
        }
        Ok(None)
    }

    /// Ends the connection at once.
    fn cut(&self, reason: &str) {
        if self.turns.end() {
            let client = &self.agreed.client;
            log::info!("NBD client {client}: the connection is closed: {reason}");
        }
        self.agreed.transport.shutdown(Shutdown::Both);
    }

    /// Starts another thread if there is none left, and if there may be one more.
    fn start_for(self: &Arc<Self>, others: Others) {
        let (limits, extra) = (&self.common.limits, &self.common.extra_threads);
        if others == Others::Some || !self.turns.join(limits.threads_per_connection) {
            return;
        }
        let more = |count| (count < limits.threads).then_some(count + 1);
        let taken = extra.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if taken.is_err() {
            self.turns.leave();
            return;
        }
        let own = Arc::clone(self);
        if rt::spawn("nbd", move || own.work(true)).is_err() {
            // The existing threads continue.
            extra.fetch_sub(1, Ordering::AcqRel);
            self.turns.leave();
        }
    }

    /// Waits until no thread serves this connection any more.
    pub fn wait_for_others(&self) {
        self.turns.wait_for_all();
    }

    /// Receives a request and what follows it.
    fn take(&self, receiver: &mut Receiver, desk: &mut Desk) -> Result<Taken, End> {
        if self.turns.has_ended() {
            return Err(End::Done);
        }
        let is_extended = self.agreed.style == ReplyStyle::Extended;
        let mut header = [0; EXTENDED_SIZE];
        let header = &mut header[..Request::size(is_extended)];
        if receiver.buffered() < header.len() {
            // The client may wait for them before it says more.
            self.send_replies()?;
        }
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
        let most = u64::from(self.payload_max);
        if follows > most {
            if follows > SKIPPED_BYTES_MAX {
                let text = format!("a request has {follows} bytes of data; {most} are allowed");
                return Err(End::Failed(text));
            }
            self.send_replies()?;
            receiver.skip(follows)?;
            let text = format!("one request has at most {most} bytes of data");
            return Ok(Taken {
                request,
                refused: Some(BlockError::new(ErrorCode::Invalid, text)),
                leases: None,
            });
        }
        let bytes = match request.command {
            // A request for too much is refused before it reads.
            command::READ if request.length <= most => request.length.max(follows),
            _ => follows,
        };
        let leases = match bytes {
            0 => None,
            bytes => Some(self.lease(bytes)?),
        };
        self.take_payload(receiver, &request, follows, &mut desk.payload)?;
        Ok(Taken {
            request,
            refused: None,
            leases,
        })
    }

    /// Receives a request's payload of `follows` bytes.
    fn take_payload(
        &self,
        receiver: &mut Receiver,
        request: &Request,
        follows: u64,
        payload: &mut Payload,
    ) -> Result<(), End> {
        let length = usize::try_from(follows).expect("at most the largest payload");
        // Only what is written can be in pieces.
        let piece = match request.command {
            command::WRITE => self.agreed.device.piece_size(),
            _ => None,
        };
        payload.begin(request.offset, length, piece);
        if receiver.buffered() >= length {
            return Ok(payload.receive(receiver)?);
        }
        self.send_replies()?;
        let time = self.common.limits.payload_time(follows);
        receiver.set_deadline(Some(Instant::now() + time))?;
        payload.receive(receiver)?;
        Ok(receiver.set_deadline(None)?)
    }

    /// Waits for memory for a request's data.
    fn lease(&self, bytes: u64) -> Result<(MemoryLease, MemoryLease), End> {
        let from = |budgets: &[&Arc<MemoryBudget>]| -> Result<MemoryLease, End> {
            let mut at_once = budgets.iter().map(|budget| budget.lease(bytes));
            if let Some(lease) = at_once.find_map(Result::ok) {
                return Ok(lease);
            }
            // Replies that are not sent yet may have it.
            self.send_replies()?;
            // A request that fits into the connection's own memory waits for that: no other
            // connection uses it.
            let is_small = bytes <= self.common.limits.own_bytes;
            let budget = if is_small {
                budgets.last()
            } else {
                budgets.first()
            };
            let budget = budget.expect("there is one");
            loop {
                match budget.lease_patiently(bytes, LEASE_PATIENCE) {
                    Ok(lease) => return Ok(lease),
                    Err(_) if self.turns.has_ended() => return Err(End::Done),
                    Err(_) => {}
                }
            }
        };
        Ok((
            from(&[&self.memory])?,
            from(&[&self.common.memory, &self.own])?,
        ))
    }

    /// Sends replies that wait to be sent together.
    fn send_replies(&self) -> io::Result<()> {
        match self.has_replies.load(Ordering::SeqCst) {
            true => self.send(&mut self.outbox.lock(), None),
            false => Ok(()),
        }
    }

    fn send(&self, outbox: &mut Outbox, last: Option<(&Reply, &ReadData)>) -> io::Result<()> {
        self.has_replies.store(false, Ordering::SeqCst);
        outbox.send(&*self.agreed.transport, last)
    }

    /// Carries out a request while no thread receives, and sends its reply soon.
    fn answer_at_once(
        self: &Arc<Self>,
        lead: u64,
        taken: Taken,
        desk: &mut Desk,
    ) -> Result<(), End> {
        let (at_work, others) = self.turns.at_work();
        self.start_for(others);
        let reply = self.carry_out(&taken, desk);
        drop(at_work);
        let mut outbox = self.outbox.lock();
        if !taken.is_small() {
            let sent = self.send(&mut outbox, Some((&reply, &desk.data)));
            drop(outbox);
            desk.clear();
            return Ok(sent?);
        }
        outbox.push(&reply, &mut desk.data, taken.leases);
        self.has_replies.store(true, Ordering::SeqCst);
        // The current leader sends the outbox before it waits, which it may have done before this
        // reply was added.
        match outbox.is_full() || !self.turns.leads(lead) {
            true => Ok(self.send(&mut outbox, None)?),
            false => Ok(()),
        }
    }

    /// Carries out a request and sends the reply.
    fn answer(&self, taken: &Taken, desk: &mut Desk) -> io::Result<()> {
        self.send_replies()?;
        let reply = self.carry_out(taken, desk);
        let sent = self.send(&mut self.outbox.lock(), Some((&reply, &desk.data)));
        desk.clear();
        sent
    }

    fn carry_out(&self, taken: &Taken, desk: &mut Desk) -> Reply {
        let request = &taken.request;
        let target = Target {
            device: &*self.agreed.device,
            style: self.agreed.style,
            contexts: &self.agreed.contexts,
            payload_max: self.payload_max,
        };
        desk.data.begin(0);
        let begun = taken.is_small().then(Instant::now);
        let reply = match &taken.refused {
            Some(error) => target.failed(request, error),
            None => target.carry_out(request, &mut desk.payload, &mut desk.data),
        };
        if let Some(begun) = begun {
            self.pace.note(begun.elapsed());
        }
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let bytes = match (&reply, request.command) {
            (Reply::WithData(_) | Reply::Chunks(..), _) => Some(&self.counters.read_bytes),
            (_, command::WRITE) => Some(&self.counters.written_bytes),
            _ => None,
        };
        if let Some(counter) = bytes {
            counter.fetch_add(request.length, Ordering::Relaxed);
        }
        reply
    }
}
