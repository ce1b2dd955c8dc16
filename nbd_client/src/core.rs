//! Requests, connections, and what happens between them.
//!
//! A *session* is a set of connections to one server, made together and given up together. When one
//! fails, another server may have taken over, and writes that were answered but not flushed are
//! lost. The keeper, a thread, then makes a new session: it connects, checks that the export is
//! still as large and as writable, sends all answered writes again that no flush has covered, and
//! only then opens the session to callers. Requests that were under way are sent again, too.
//!
//! *Times.* A caller waits for its answer until its deadline, disconnected times included, and then
//! gets an error. A session is given up if a caller waits and nothing arrives for so long.
//! given up.
//!
//! *What this cannot do*: a server that lives while its connection is lost may still carry out
//! the old connection's writes after it has answered the same ones on the new connection. A
//! caller that then writes there again can meet its old bytes. The protocol has no means against
//! it; TCP delivers late only what was sent before the connection was given up.

use crate::again::check_same;
use crate::asked::Asked;
use crate::error::NbdError;
use crate::journal::{Journal, batch};
use crate::link::{Head, Link, Part, receive_head, receive_part};
use crate::location::Location;
use crate::negotiate::{Export, Negotiated, connect};
use crate::protocol::reply::ReplyStyle;
use crate::protocol::request::Request;
use crate::protocol::{ErrorCode, command, export_flag};
use crate::receiver::Receiver;
use cenote_base::rt::{self, Condvar, Instant, Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of writes that are kept until a flush; beyond it a writer flushes first.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Requests whose callers gave up. With more of them, the session is given up.
const ABANDONED_MAX: usize = 256;
/// Parts of a reply, beside those of what is read.
const PARTS_MAX: u64 = 64;
/// Pauses between attempts to connect: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a request waits for the next attempt where all that came before were in vain.
const ATTEMPT_WAIT: Duration = Duration::from_secs(3);
/// How long one attempt to connect may take.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// Writes that are sent again at once, and their bytes.
const AGAIN_COUNT: usize = 64;
const AGAIN_BYTES: u64 = 8 << 20;

/// Connections that live and end together.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    links: Vec<Link>,
    pub export: Export,
    /// When something came last, in milliseconds of the system's uptime.
    heard: AtomicU64,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Pending {
    asked: Arc<Asked>,
    /// Bytes that were read so far, and the parts of the reply.
    filled: u64,
    parts: u64,
    failed: Option<(ErrorCode, String)>,
    /// The caller has given up.
    is_abandoned: bool,
    /// What a flush covers.
    mark: u64,
}

#[derive(Debug)]
struct State {
    session: Option<Arc<Session>>,
    sessions: u64,
    /// By cookie.
    pending: BTreeMap<u64, Pending>,
    next_cookie: u64,
    journal: Journal,
    /// A write that was answered and is lost: the next flush fails.
    lost: Option<String>,
    /// Why there is no session.
    reason: String,
    /// Since when there is none.
    lost_since: Option<Instant>,
    attempts: Attempts,
    /// The server has another disk under this name by now.
    has_changed: bool,
    /// Nothing is written any more: others may.
    is_left: bool,
    is_closing: bool,
}

/// Attempts to connect again.
#[derive(Debug, Default)]
struct Attempts {
    /// Those that are over.
    done: u64,
    is_under_way: bool,
    /// A caller waits for one.
    is_wanted: bool,
}

/// A network block device.
#[derive(Debug)]
pub(crate) struct Core {
    pub location: Location,
    name: String,
    /// As it was when the device was opened, or has grown to.
    pub export: Export,
    /// The server's address and the export's name.
    pub identity: String,
    state: Mutex<State, ranks::NbdRequests>,
    /// A session begins or ends.
    changed: Condvar,
}

fn milliseconds() -> u64 {
    u64::try_from(rt::uptime().as_millis()).unwrap_or(u64::MAX)
}

fn timed_out(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

/// Parts that a reply may have: each part of what is read has a byte, and few are errors.
fn parts_max(request: &Request) -> u64 {
    match request.command {
        command::READ => request.length.saturating_add(PARTS_MAX),
        _ => PARTS_MAX,
    }
}

/// The error of a reply, for the caller.
fn refused((code, text): (ErrorCode, String)) -> io::Error {
    io::Error::new(code.kind(), text)
}

impl Core {
    /// Connects to an export.
    pub fn open(location: Location, name: &str) -> Result<Arc<Self>, NbdError> {
        let deadline = Instant::now() + location.timeout.min(CONNECT_TIME);
        let first = connect(&location, deadline)?;
        let core = Arc::new(Self {
            identity: format!("{}/{}", first.peer, location.export),
            location,
            name: name.to_owned(),
            export: first.export,
            state: Mutex::new(State {
                session: None,
                sessions: 0,
                pending: BTreeMap::new(),
                next_cookie: 0,
                journal: Journal::default(),
                lost: None,
                reason: String::new(),
                lost_since: None,
                attempts: Attempts::default(),
                has_changed: false,
                is_left: false,
                is_closing: false,
            }),
            changed: Condvar::new(),
        });
        core.begin_session(first)?;
        Ok(core)
    }

    /// Connects again and again, until the device is closed.
    pub fn keep(self: &Arc<Self>) {
        let (mut pause, mut begun) = (PAUSE_MIN, Instant::now());
        while self.wait_for_loss() {
            // A server that takes connections and drops them is not asked without a pause.
            match begun.elapsed() > PAUSE_MAX {
                true => pause = PAUSE_MIN,
                false => {
                    self.rest(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            self.note_begin();
            let connected = connect(&self.location, Instant::now() + CONNECT_TIME);
            let result = connected.and_then(|first| self.begin_session(first));
            self.note_attempt(result);
            begun = Instant::now();
        }
    }

    fn note_begin(&self) {
        let mut state = self.state.lock();
        state.attempts.is_under_way = true;
        state.attempts.is_wanted = false;
    }

    fn note_attempt(&self, result: Result<(), NbdError>) {
        let mut state = self.state.lock();
        state.attempts.is_under_way = false;
        state.attempts.done += 1;
        state.has_changed = matches!(result, Err(NbdError::Changed(_) | NbdError::Own));
        match result {
            Ok(()) => log::info!("{}: connected again", self.name),
            Err(error) => {
                let reason = error.to_string();
                if state.has_changed && state.reason != reason {
                    log::error!("{}: not used any more: {reason}", self.name);
                }
                state.reason = reason;
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until there is no session; `false` when the device is closed.
    fn wait_for_loss(&self) -> bool {
        let state = self.state.lock();
        let is_well = |state: &mut State| state.session.is_some() && !state.is_closing;
        let state = self.changed.wait_while(state, is_well);
        !state.is_closing
    }

    /// Waits so long, unless the device is closed; less long if a caller waits for a connection.
    fn rest(&self, pause: Duration) {
        let is_open = |state: &mut State| !state.is_closing;
        let is_patient = |state: &mut State| !state.is_closing && !state.attempts.is_wanted;
        let state = self.state.lock();
        let (state, _) = self.changed.wait_timeout_while(state, PAUSE_MIN, is_open);
        let rest = pause.saturating_sub(PAUSE_MIN);
        drop(self.changed.wait_timeout_while(state, rest, is_patient));
    }

    /// Makes a session of its first connection.
    fn begin_session(self: &Arc<Self>, mut first: Negotiated) -> Result<(), NbdError> {
        let export = first.export;
        if export.size < self.export.size {
            let text = format!(
                "it has {} bytes now, and had {}",
                export.size, self.export.size
            );
            return Err(NbdError::Changed(text));
        }
        if export.minimum > self.export.minimum {
            return Err(NbdError::Changed("its blocks are larger now".to_owned()));
        }
        let is_read_only = |export: &Export| export.has(export_flag::READ_ONLY);
        if is_read_only(&export) && !is_read_only(&self.export) {
            return Err(NbdError::Changed("it is read-only now".to_owned()));
        }
        let proof = self.state.lock().journal.proof();
        if let Some(proof) = proof {
            check_same(&mut first, &proof, self.location.timeout)?;
        }
        self.send_again(&mut first)?;
        let mut connected = vec![first];
        if export.has(export_flag::CAN_MULTI_CONN) {
            while connected.len() < self.location.connections {
                let more = connect(&self.location, Instant::now() + CONNECT_TIME)?;
                if more.export != export {
                    return Err(NbdError::Broken("its connections show different exports"));
                }
                connected.push(more);
            }
        }
        let mut state = self.state.lock();
        state.sessions += 1;
        let session = Arc::new(Session {
            number: state.sessions,
            links: connected.iter().map(Link::new).collect(),
            export,
            heard: AtomicU64::new(milliseconds()),
        });
        for connection in connected {
            let (core, of) = (Arc::clone(self), Arc::clone(&session));
            let receive = move || core.receive_all(&of, connection);
            if let Err(error) = rt::spawn("nbd-receive", receive) {
                let transports = session.links.iter().map(|link| &link.transport);
                transports.for_each(|transport| transport.shutdown(Shutdown::Both));
                return Err(error.into());
            }
        }
        state.session = Some(Arc::clone(&session));
        state.lost_since = None;
        state.pending.retain(|_, pending| !pending.is_abandoned);
        let under_way: Vec<_> = state
            .pending
            .values_mut()
            .map(|pending| {
                (pending.filled, pending.parts, pending.failed) = (0, 0, None);
                Arc::clone(&pending.asked)
            })
            .collect();
        drop(state);
        self.changed.notify_all();
        for asked in under_way {
            self.send(&session, &asked);
        }
        Ok(())
    }

    /// Sends writes again that were answered and that no flush has covered.
    fn send_again(&self, connection: &mut Negotiated) -> Result<(), NbdError> {
        let writes = self.state.lock().journal.to_send_again();
        let mut rest = &writes[..];
        let link = Link::new(connection);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch(rest, AGAIN_COUNT, AGAIN_BYTES));
            let deadline = Instant::now() + self.location.timeout;
            connection.receiver.set_deadline(Some(deadline))?;
            let request = |number: u64, offset: u64, length: usize| Request {
                flags: 0,
                command: command::WRITE,
                cookie: number,
                offset,
                length: length as u64,
            };
            for (number, offset, bytes) in now {
                let request = request(*number, *offset, bytes.len());
                let limit = deadline.saturating_duration_since(Instant::now());
                link.send(&request, bytes, limit)?;
            }
            let mut left = now.len();
            while left > 0 {
                let head = receive_head(&mut connection.receiver, connection.style)?;
                let head = head.ok_or(NbdError::Broken("it closed the connection"))?;
                let request = request(head.cookie, 0, 0);
                let (receiver, style) = (&mut connection.receiver, connection.style);
                let part = receive_part(receiver, &head, &request, style, &mut [])?;
                if let Part::Failed(code, text) = part {
                    if code == ErrorCode::ShuttingDown {
                        return Err(NbdError::Refused(text));
                    }
                    log::error!(
                        "{}: a write that was not flushed is lost: {text}",
                        self.name
                    );
                    let mut state = self.state.lock();
                    state.journal.forget(head.cookie);
                    state.lost = Some(text);
                }
                left -= usize::from(head.is_last);
            }
            rest = later;
        }
        connection.receiver.set_deadline(None)?;
        if !writes.is_empty() {
            let count = writes.len();
            log::info!(
                "{}: {count} writes that were not flushed are sent again",
                self.name
            );
        }
        Ok(())
    }

    /// Gives a session up.
    fn give_up(&self, session: &Session, reason: &str) {
        let mut state = self.state.lock();
        let is_current = |current: &Arc<Session>| current.number == session.number;
        if state.session.as_ref().is_some_and(is_current) {
            state.session = None;
            state.lost_since = Some(Instant::now());
            state.reason = reason.to_owned();
            if !state.is_closing {
                let seconds = self.location.timeout.as_secs();
                log::warn!(
                    "{}: the connection is lost: {reason}. It is made again; requests wait for \
                     up to {seconds} s",
                    self.name
                );
            }
        }
        drop(state);
        self.changed.notify_all();
        for link in &session.links {
            link.transport.shutdown(Shutdown::Both);
        }
    }

    /// Gives the session up, so that the next one has what the server says by now.
    pub fn renew(&self) {
        let session = self.state.lock().session.clone();
        if let Some(session) = session {
            self.give_up(&session, "the size of the export has changed");
        }
    }

    /// Receives replies on one connection of a session, until one of them fails.
    fn receive_all(&self, session: &Session, connection: Negotiated) {
        let Negotiated {
            mut receiver,
            style,
            ..
        } = connection;
        let reason = loop {
            match receive_head(&mut receiver, style) {
                Ok(None) => break "the server closed it".to_owned(),
                Ok(Some(head)) => match self.receive(session, &mut receiver, style, &head) {
                    Ok(true) => {}
                    Ok(false) => break String::new(),
                    Err(error) => break error.to_string(),
                },
                Err(error) => break error.to_string(),
            }
        };
        self.give_up(session, &reason);
    }

    /// The state, if this session is still the one.
    fn of(&self, session: &Session) -> Option<MutexGuard<'_, State>> {
        let state = self.state.lock();
        let current = state.session.as_ref().map(|current| current.number);
        (current == Some(session.number)).then_some(state)
    }

    /// Receives a part of a reply; `false` if the session has ended.
    fn receive(
        &self,
        session: &Session,
        receiver: &mut Receiver,
        style: ReplyStyle,
        head: &Head,
    ) -> Result<bool, NbdError> {
        session.heard.store(milliseconds(), Ordering::Relaxed);
        let Some(state) = self.of(session) else {
            return Ok(false);
        };
        let asked = state.pending.get(&head.cookie);
        let asked = asked.map(|pending| Arc::clone(&pending.asked));
        drop(state);
        let asked = asked.ok_or(NbdError::Broken("it answers what was not asked"))?;
        let mut buffer = asked.take_buffer();
        if asked.request.command == command::READ {
            let length = usize::try_from(asked.request.length).expect("8 MiB at most");
            buffer.resize(length, 0);
        }
        let part = receive_part(receiver, head, &asked.request, style, &mut buffer);
        asked.put_buffer(buffer);
        session.heard.store(milliseconds(), Ordering::Relaxed);
        let part = part?;
        let Some(mut state) = self.of(session) else {
            return Ok(false);
        };
        let Some(pending) = state.pending.get_mut(&head.cookie) else {
            return Ok(true);
        };
        pending.parts += 1;
        if pending.parts > parts_max(&asked.request) {
            return Err(NbdError::Broken("a reply has no end"));
        }
        match part {
            Part::Filled(count) => pending.filled += count,
            Part::Failed(ErrorCode::ShuttingDown, text) => return Err(NbdError::Refused(text)),
            Part::Failed(code, text) => pending.failed = Some((code, text)),
            Part::Nothing => {}
        }
        if head.is_last {
            let result = state.finish(head.cookie)?;
            drop(state);
            asked.finish(result);
        }
        Ok(true)
    }

    fn send(&self, session: &Session, asked: &Asked) {
        let count = session.links.len() as u64;
        let index = usize::try_from(asked.request.cookie % count).expect("few links");
        let data = asked.data.as_deref().unwrap_or_default();
        let limit = self.location.timeout;
        if let Err(error) = session.links[index].send(&asked.request, data, limit) {
            self.give_up(session, &error.to_string());
        }
    }

    /// The session, which is waited for until `deadline`; less long where the time for requests
    /// has gone by without one already, so that a caller with many requests does not wait so long
    /// for each.
    fn session(&self, deadline: Instant) -> io::Result<(Arc<Session>, MutexGuard<'_, State>)> {
        let mut state = self.state.lock();
        let timeout = self.location.timeout;
        let is_late = state
            .lost_since
            .is_some_and(|since| since.elapsed() >= timeout);
        let soon = deadline.min(Instant::now() + ATTEMPT_WAIT);
        // One that is under way may have begun before the server was there.
        let enough = state.attempts.done + 1 + u64::from(state.attempts.is_under_way);
        if is_late && state.session.is_none() {
            state.attempts.is_wanted = true;
            self.changed.notify_all();
        }
        loop {
            if state.is_closing {
                return Err(timed_out("the device is closed"));
            }
            if let Some(session) = &state.session {
                return Ok((Arc::clone(session), state));
            }
            let end = if is_late { soon } else { deadline };
            let left = end.saturating_duration_since(Instant::now());
            let was_in_vain = is_late && state.attempts.done >= enough;
            if left.is_zero() || was_in_vain || state.has_changed {
                let since = state.lost_since.map_or(timeout, |since| since.elapsed());
                let seconds = since.as_secs();
                let text = format!("no connection for {seconds} s: {}", state.reason);
                return Err(timed_out(&text));
            }
            (state, _) = self.changed.wait_timeout(state, left);
        }
    }

    /// Whether the export will not be this device again.
    pub fn has_changed(&self) -> bool {
        self.state.lock().has_changed
    }

    /// Whether others may write.
    pub fn is_left(&self) -> bool {
        let state = self.state.lock();
        state.is_left || state.is_closing
    }

    /// Lets others write: nothing is written any more, nor sent again.
    pub fn let_go(&self) {
        let mut state = self.state.lock();
        state.is_left = true;
        state.journal.clear();
    }

    /// Sends a request and waits for the answer; reads give bytes.
    pub fn ask(
        &self,
        command: u16,
        offset: u64,
        length: u64,
        data: Option<Arc<[u8]>>,
    ) -> io::Result<Vec<u8>> {
        self.ask_with(0, command, (offset, length), data)
    }

    /// The same with flags.
    pub fn ask_with(
        &self,
        flags: u16,
        command: u16,
        (offset, length): (u64, u64),
        data: Option<Arc<[u8]>>,
    ) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.location.timeout;
        let (session, mut state) = self.session(deadline)?;
        if state.is_left && command != command::READ {
            return Err(io::Error::other("the device was let go and is only read"));
        }
        if let command::TRIM | command::WRITE_ZEROES = command {
            state.journal.changed(offset, length);
        }
        state.next_cookie += 1;
        let cookie = state.next_cookie;
        let request = Request {
            flags,
            command,
            cookie,
            offset,
            length,
        };
        if let Some(bytes) = &data
            && session.export.has(export_flag::SEND_FLUSH)
        {
            state.journal.begin(cookie, offset, Arc::clone(bytes));
        }
        let asked = Asked::new(request, data);
        let pending = Pending {
            asked: Arc::clone(&asked),
            filled: 0,
            parts: 0,
            failed: None,
            is_abandoned: false,
            mark: state.journal.mark(),
        };
        state.pending.insert(cookie, pending);
        drop(state);
        self.send(&session, &asked);
        asked.wait(deadline).unwrap_or_else(|| self.abandon(&asked))
    }

    /// The caller of a request gives up.
    fn abandon(&self, asked: &Asked) -> io::Result<Vec<u8>> {
        let cookie = asked.request.cookie;
        let mut state = self.state.lock();
        match state.pending.get_mut(&cookie) {
            Some(pending) => pending.is_abandoned = true,
            // It was answered in this moment.
            None => {
                drop(state);
                if let Some(result) = asked.wait(Instant::now() + Duration::from_secs(1)) {
                    return result;
                }
                state = self.state.lock();
            }
        }
        state.journal.forget(cookie);
        let seconds = self.location.timeout.as_secs();
        let abandoned = state
            .pending
            .values()
            .filter(|pending| pending.is_abandoned);
        let are_many = abandoned.count() > ABANDONED_MAX;
        let text = match &state.session {
            Some(_) => format!("no answer from the server for {seconds} s"),
            None => format!("no connection for {seconds} s: {}", state.reason),
        };
        let session = state.session.clone();
        drop(state);
        if let Some(session) = session {
            let silence = milliseconds().saturating_sub(session.heard.load(Ordering::Relaxed));
            if are_many || u128::from(silence) >= self.location.timeout.as_millis() {
                self.give_up(&session, "the server does not answer");
            }
        }
        Err(timed_out(&text))
    }

    /// Writes, after a flush if too much is kept already.
    pub fn write(&self, offset: u64, bytes: Arc<[u8]>) -> io::Result<()> {
        let kept = self.state.lock().journal.bytes();
        if kept > JOURNAL_BYTES_MAX {
            // The next flush reports a lost write: its caller knows what it wrote.
            self.ask(command::FLUSH, 0, 0, None)?;
        }
        let length = bytes.len() as u64;
        self.ask(command::WRITE, offset, length, Some(bytes))
            .map(drop)
    }

    /// Makes durable what was answered before.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(text) = self.state.lock().lost.take() {
            let text = format!("a write that was answered is lost: {text}");
            return Err(io::Error::other(text));
        }
        match self.export.has(export_flag::SEND_FLUSH) {
            true => self.ask(command::FLUSH, 0, 0, None)?,
            false => return Ok(()),
        };
        match self.state.lock().lost.take() {
            None => Ok(()),
            Some(text) => {
                let text = format!("a write that was answered is lost: {text}");
                Err(io::Error::other(text))
            }
        }
    }

    /// Ends all connections and the keeper.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        let session = state.session.clone();
        drop(state);
        self.changed.notify_all();
        let Some(session) = session else {
            return;
        };
        for link in &session.links {
            let request = Request {
                flags: 0,
                command: command::DISCONNECT,
                cookie: 0,
                offset: 0,
                length: 0,
            };
            let limit = Duration::from_secs(1);
            let _ = link.transport.set_send_timeout(Some(limit));
            // The server learns of it by the end of the connection, too.
            let _ = link.send(&request, &[], limit);
        }
        self.give_up(&session, "the device is closed");
    }
}

impl State {
    /// The result of a request whose reply is complete.
    fn finish(&mut self, cookie: u64) -> Result<io::Result<()>, NbdError> {
        let pending = self.pending.get(&cookie).expect("it was looked up");
        let request = pending.asked.request;
        let is_read = request.command == command::READ;
        if is_read && pending.failed.is_none() && pending.filled != request.length {
            return Err(NbdError::Broken("a read was answered in part"));
        }
        let pending = self.pending.remove(&cookie).expect("it was looked up");
        if let Some(failed) = pending.failed {
            self.journal.forget(cookie);
            return Ok(Err(refused(failed)));
        }
        match request.command {
            command::WRITE => self.journal.answered(cookie),
            command::FLUSH => self.journal.flushed(pending.mark),
            _ => {}
        }
        Ok(Ok(()))
    }
}
