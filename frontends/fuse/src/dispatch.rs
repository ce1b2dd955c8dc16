//! From a request to the file system's method and back to an answer.
//!
//! A [`Worker`] owns the buffers of one thread. Answers of fixed size are built on the stack,
//! listings in the worker's listing buffer, data in its payload: nothing is allocated per request.
//!
//! A panic in the file system is a bug of ours that must not take other requests along: it is
//! caught, counted, and answered with EIO.

mod ioctl;
mod modify;

use crate::filesystem::{Context, FileSystem};
use crate::follow::UnderWay;
use crate::interrupt::Interrupt;
use crate::overdue::may_be_answered;
use crate::payload::{DirectoryReply, Payload};
use crate::protocol::init::capability;
use crate::protocol::open_flag;
use crate::protocol::reply::{self, Body};
use crate::protocol::request::{Operation, RequestHeader};
use crate::receive::Request;
use crate::session::Session;
use crate::transport::Device;
use crate::values::{DataCache, Errno, Handle, Lookup, NodeId, Opened, SeekTarget};
use cenote_base::rt::Instant;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Largest listing per request: 128 KiB are some 700 entries with attributes.
const LISTING_SIZE_MAX: usize = 128 << 10;

/// Linux's limit for values and lists of extended attributes (`XATTR_SIZE_MAX`).
const XATTR_SIZE_MAX: usize = 64 << 10;

/// Longest symbolic link that the kernel takes: a page without its NUL.
const SYMLINK_LENGTH_MAX: usize = 4095;

/// `__FMODE_EXEC`: the file is being opened to run it.
const OPEN_FOR_EXECUTION: u32 = 0x20;

/// What to send.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack; a box would allocate"
)]
enum Answer {
    /// Nothing: the operation has no answer.
    Nothing,
    /// A structure of fixed size.
    Fixed(Body),
    /// What the payload holds.
    Payload,
    /// So many bytes of the listing buffer.
    Listing(usize),
}

type Outcome = Result<Answer, Errno>;

/// That a request is with the file system, as long as this lives.
struct Within<'a>(Option<&'a dyn FileSystem>);

impl<'a> Within<'a> {
    /// Notifications of the kernel, which have no reply, never wait.
    fn enter(file_system: &'a dyn FileSystem, operation: &Operation<'_>) -> Self {
        let is_told = matches!(
            operation,
            Operation::Forget { .. }
                | Operation::BatchForget { .. }
                | Operation::Interrupt { .. }
                | Operation::Destroy
        );
        if !is_told {
            file_system.begin_request();
        }
        Self((!is_told).then_some(file_system))
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        if let Some(file_system) = self.0 {
            file_system.end_request();
        }
    }
}

/// What a request to a session gets that was cut.
fn cut_off(operation: &Operation<'_>) -> Outcome {
    match operation {
        Operation::Forget { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
            Ok(Answer::Nothing)
        }
        _ => Err(Errno::NOTCONN),
    }
}

/// One thread's buffers and its view of the session.
pub(crate) struct Worker<'a> {
    session: &'a Arc<Session>,
    device: &'a Device,
    slot: &'a Interrupt,
    payload: Payload,
    listing: Vec<u8>,
    /// What the last lookup found.
    found: Option<NodeId>,
}

impl<'a> Worker<'a> {
    pub fn new(session: &'a Arc<Session>, device: &'a Device, slot: &'a Interrupt) -> Self {
        let capacity = session.negotiated.request_size_max as usize;
        Worker {
            session,
            device,
            slot,
            payload: Payload::new(capacity.max(XATTR_SIZE_MAX)),
            listing: vec![0; LISTING_SIZE_MAX],
            found: None,
        }
    }

    /// Serves one request to its end. Returns the size of the file's blocks, if it is a write and
    /// the size is known.
    pub fn serve(
        &mut self,
        request: Request<'_>,
        under_way: Option<UnderWay<'_>>,
    ) -> Option<usize> {
        let session = self.session;
        let decoded = RequestHeader::decode_front(request.front(), request.length());
        let Ok((header, arguments)) = decoded else {
            // Without a number nothing can be answered.
            session.metrics.malformed.add(1);
            return None;
        };
        let started = Instant::now();
        let operation = match Operation::decode(header.opcode, arguments) {
            Ok(operation) => operation,
            Err(_) => {
                session.metrics.malformed.add(1);
                self.answer(header.unique, Err(Errno::IO));
                return None;
            }
        };
        let mut block_size = None;
        let is_open = may_be_answered(header.opcode);
        self.found = None;
        let outcome = {
            let _working = Session::working_on(self.slot, header.unique, is_open);
            let within = || Within::enter(&*session.file_system, &operation);
            let _within = (!session.is_cut()).then(within);
            catch_unwind(AssertUnwindSafe(|| match request {
                _ if session.is_cut() => cut_off(&operation),
                Request::Whole(_) => self.dispatch(&header, operation, arguments),
                Request::Write { blocks, length, .. } => {
                    let (answer, size) = self.write_blocks(&header, arguments, blocks, length)?;
                    block_size = size;
                    Ok(answer)
                }
            }))
        };
        let outcome = outcome.unwrap_or_else(|_| {
            session.metrics.panics.add(1);
            Err(Errno::IO)
        });
        session.metrics.note(header.opcode, started.elapsed());
        // With the answer the caller may come with its next request before this one returns.
        drop(under_way);
        if !is_open || self.slot.claim(header.unique) {
            self.answer(header.unique, outcome);
        } else {
            self.take_back();
        }
        // Blocks lent to the answer go back to their cache now, not at the next request.
        self.payload.reset(0);
        block_size
    }

    /// Undoes the lookup of an answer that is not sent: the request was answered already.
    fn take_back(&mut self) {
        if let Some(node) = self.found.take() {
            self.session.file_system.forget(node, 1);
        }
    }

    fn context(&self, header: &RequestHeader) -> Context<'a> {
        Context {
            uid: header.uid,
            gid: header.gid,
            pid: header.pid,
            interrupt: self.slot,
        }
    }

    fn dispatch(
        &mut self,
        header: &RequestHeader,
        operation: Operation<'_>,
        arguments: &[u8],
    ) -> Outcome {
        let file_system: &dyn FileSystem = &*self.session.file_system;
        let node = NodeId(header.node);
        let context = self.context(header);
        match operation {
            Operation::Lookup { name } => {
                let lookup: Lookup = file_system.lookup(&context, node, name)?;
                self.found = match &lookup {
                    Lookup::Found(entry) => Some(entry.node),
                    Lookup::Absent(_) => None,
                };
                Ok(Answer::Fixed(Body::lookup(&lookup)))
            }
            Operation::Forget { lookups } => {
                file_system.forget(node, lookups);
                Ok(Answer::Nothing)
            }
            Operation::BatchForget { entries } => {
                for (node, lookups) in entries.iter() {
                    file_system.forget(NodeId(node), lookups);
                }
                Ok(Answer::Nothing)
            }
            Operation::GetAttr => {
                let (attr, lifetime) = file_system.getattr(&context, node)?;
                Ok(Answer::Fixed(Body::attr(&attr, lifetime)))
            }
            Operation::StatX => {
                let (attr, lifetime) = file_system.getattr(&context, node)?;
                Ok(Answer::Fixed(Body::statx(&attr, lifetime)))
            }
            Operation::StatFs => {
                let status = file_system.statfs(&context, node)?;
                Ok(Answer::Fixed(Body::statfs(&status)))
            }
            Operation::Open {
                flags,
                kill_suid_gid,
            } => self.open(&context, node, flags, kill_suid_gid),
            Operation::Release { handle } => {
                file_system.release(node, handle);
                Ok(Answer::Fixed(Body::EMPTY))
            }
            Operation::OpenDir => self.opendir(&context, node),
            Operation::ReleaseDir { handle } => {
                if self.session.file_system.features().directory_handles {
                    file_system.releasedir(node, handle);
                }
                Ok(Answer::Fixed(Body::EMPTY))
            }
            Operation::Interrupt { unique } => self.interrupt(unique),
            // The kernel remembers ENOSYS and treats these as done from then on.
            Operation::Sync { .. } if file_system.features().writable => {
                file_system.fsync(&context, node)?;
                Ok(Answer::Fixed(Body::EMPTY))
            }
            Operation::Flush | Operation::Sync { .. } | Operation::Unknown => Err(Errno::NOSYS),
            Operation::Destroy => Ok(Answer::Fixed(Body::EMPTY)),
            Operation::Ioctl => self.ioctl(&context, node, arguments),
            Operation::Modify if !file_system.features().writable => Err(Errno::ROFS),
            Operation::Modify => self.modify(&context, header, arguments),
            bulk => self.dispatch_bulk(&context, node, bulk),
        }
    }

    /// The operations whose answers go through the worker's buffers.
    fn dispatch_bulk(
        &mut self,
        context: &Context<'_>,
        node: NodeId,
        operation: Operation<'_>,
    ) -> Outcome {
        let file_system: &dyn FileSystem = &*self.session.file_system;
        match operation {
            Operation::Read {
                handle,
                offset,
                size,
            } => self.read(context, node, handle, offset, size),
            Operation::ReadDir {
                handle,
                cookie,
                size,
                with_attributes,
            } => {
                let size = (size as usize).min(self.listing.len());
                let mut reply = DirectoryReply::new(&mut self.listing[..size], with_attributes);
                file_system.readdir(context, node, handle, cookie, &mut reply)?;
                Ok(Answer::Listing(reply.len()))
            }
            Operation::ReadLink => {
                self.payload.reset(SYMLINK_LENGTH_MAX);
                file_system.readlink(context, node, &mut self.payload)?;
                match self.payload.overflowed() {
                    true => Err(Errno::NAMETOOLONG),
                    false => Ok(Answer::Payload),
                }
            }
            Operation::Seek {
                handle,
                offset,
                target,
            } => {
                let target: SeekTarget = target;
                let found = file_system.seek(context, node, handle, offset, target)?;
                Ok(Answer::Fixed(Body::seek(found)))
            }
            Operation::GetXattr { size, name } => {
                self.payload.reset(XATTR_SIZE_MAX);
                file_system.getxattr(context, node, name, &mut self.payload)?;
                self.sized(size)
            }
            Operation::ListXattr { size } => {
                self.payload.reset(XATTR_SIZE_MAX);
                file_system.listxattr(context, node, &mut self.payload)?;
                self.sized(size)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn read(
        &mut self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        offset: u64,
        size: u32,
    ) -> Outcome {
        let size = size as usize;
        self.payload.reset(size);
        let room = self.payload.remaining();
        let payload = &mut self.payload;
        self.session
            .file_system
            .read(context, node, handle, offset, room, payload)?;
        self.session
            .metrics
            .bytes_read
            .add(self.payload.len() as u64);
        Ok(Answer::Payload)
    }

    fn open(&self, context: &Context<'_>, node: NodeId, flags: u32, kill: bool) -> Outcome {
        let opened = self.session.file_system.open(context, node, flags, kill)?;
        let answer = self.open_flags(&opened, flags);
        Ok(Answer::Fixed(Body::open(opened.handle.0, answer)))
    }

    /// `FOPEN_*` for an opened file.
    fn open_flags(&self, opened: &Opened, flags: u32) -> u32 {
        // Programs are mapped, not read: the page cache holds them in either case, and a file
        // opened for direct I/O would lose its cached pages at every new mapping.
        let mapped = flags & OPEN_FOR_EXECUTION != 0;
        let direct = opened.cache == DataCache::Direct && !mapped;
        if direct && self.session.negotiated.direct_io_mmap() {
            open_flag::DIRECT_IO | open_flag::NOFLUSH | open_flag::PARALLEL_DIRECT_WRITES
        } else {
            open_flag::KEEP_CACHE | open_flag::NOFLUSH
        }
    }

    fn opendir(&self, context: &Context<'_>, node: NodeId) -> Outcome {
        let flags = open_flag::CACHE_DIR | open_flag::KEEP_CACHE;
        if self.session.file_system.features().directory_handles {
            let handle = self.session.file_system.opendir(context, node)?;
            return Ok(Answer::Fixed(Body::open(handle.0, flags)));
        }
        if self.session.negotiated.has(capability::NO_OPENDIR_SUPPORT) {
            return Err(Errno::NOSYS);
        }
        Ok(Answer::Fixed(Body::open(0, flags)))
    }

    /// The size alone, or the gathered bytes if they fit in the caller's `size`.
    fn sized(&self, size: u32) -> Outcome {
        if self.payload.overflowed() {
            return Err(Errno::TOOBIG);
        }
        if size == 0 {
            return Ok(Answer::Fixed(Body::xattr_size(self.payload.len())));
        }
        if self.payload.len() > size as usize {
            return Err(Errno::RANGE);
        }
        Ok(Answer::Payload)
    }

    /// The request may have been received just now, and not be registered yet. With EAGAIN the
    /// kernel sends the interrupt again if the request still exists.
    fn interrupt(&self, unique: u64) -> Outcome {
        if self.session.interrupt(unique) {
            Ok(Answer::Nothing)
        } else {
            Err(Errno::AGAIN)
        }
    }

    fn answer(&self, unique: u64, outcome: Outcome) {
        let sent = match outcome {
            Ok(Answer::Nothing) => Ok(()),
            Ok(Answer::Fixed(body)) => self.send_piece(unique, body.bytes()),
            Ok(Answer::Listing(length)) => self.send_piece(unique, &self.listing[..length]),
            Ok(Answer::Payload) => self.send_payload(unique),
            Err(error) => self.send_error(unique, error),
        };
        if sent.is_err() {
            // The kernel refused the answer, so the caller still waits for one.
            self.session.metrics.channel_errors.add(1);
            let _ = self.send_error(unique, Errno::IO);
        }
    }

    fn send_error(&self, unique: u64, error: Errno) -> Result<(), Errno> {
        self.session.metrics.errors.add(1);
        let header = reply::header(unique, -error.raw_os_error(), 0);
        self.device.send(&[IoSlice::new(&header)])
    }

    fn send_piece(&self, unique: u64, bytes: &[u8]) -> Result<(), Errno> {
        let header = reply::header(unique, 0, bytes.len());
        self.device
            .send(&[IoSlice::new(&header), IoSlice::new(bytes)])
    }

    fn send_payload(&self, unique: u64) -> Result<(), Errno> {
        if let Some(bytes) = self.payload.single() {
            return self.send_piece(unique, bytes);
        }
        let header = reply::header(unique, 0, self.payload.len());
        let mut pieces = Vec::with_capacity(self.payload.pieces() + 1);
        pieces.push(IoSlice::new(&header));
        self.payload.gather(&mut pieces);
        self.device.send(&pieces)
    }
}
