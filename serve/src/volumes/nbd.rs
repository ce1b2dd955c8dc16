//! How the daemon serves volumes: by NBD.
//!
//! [`VolumeDisk`] is a volume as the server's block device. Reads pass on blocks of the cache
//! without copying them, and holes stay holes. A write of a whole block does not read it first.
//! Trimmed and zeroed ranges are freed. The flag `NO_HOLE`, by which a range keeps its space, has
//! no effect: a copy-on-write file system cannot promise that. A reservation keeps space.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use std::collections::BTreeMap;
use std::ops::Range;

use super::offer::Offer;
use cenote_base::Guid;
use cenote_control::model::{ControlError, NbdClient, NbdListen, NbdRefusal};
use cenote_device::BlockBuffer;
use cenote_engine::{HangUp, ServedVolume};
use cenote_nbd::protocol::{BASE_ALLOCATION, ErrorCode};
use cenote_nbd::{
    BlockDevice, BlockError, BlockSizes, Client, ExportEntry, Exports, Extent, Limits, Listener,
    OpenError, ReadData, Server, TlsPolicy, ZeroMode,
};
use cenote_volume::{Segment, Volume, VolumeError};

/// The namespace of contexts that say what changed since a snapshot.
const CHANGED_SINCE: &str = "cenote:changed-since:";
/// In such a context: the bytes may have changed.
const CHANGED: u32 = 1;
/// In `base:allocation`: nothing is stored, and it reads as zeros.
const HOLE_AND_ZERO: u32 = 3;
/// How long to wait for requests of clients that are being disconnected.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server of volumes. When it is dropped, it ends and disconnects its clients.
///
/// [`Self::end`] ends it although another thread has it at that moment, such as one that reports
/// its status.
///
/// It has one server of the frontend for each address, all with the same exports. If it listens on
/// TCP, TLS applies there and not to the unix socket.
pub(crate) struct VolumeServer {
    servers: Vec<Arc<Server>>,
    addresses: Vec<String>,
}

impl VolumeServer {
    /// Serves an offer; it listens when this returns.
    ///
    /// # Errors
    /// It cannot listen there, or the certificates cannot be used.
    pub fn start(listen: &NbdListen, offer: &Arc<Offer>) -> Result<Self, ControlError> {
        let policy = match &listen.tls {
            None => TlsPolicy::Off,
            Some(directory) => TlsPolicy::required(Path::new(directory), listen.checks_clients)
                .map_err(|error| NbdRefusal::Certificates {
                    directory: directory.clone(),
                    reason: error.to_string(),
                })?,
        };
        let mut started = Self {
            servers: Vec::new(),
            addresses: Vec::new(),
        };
        if let Some(path) = &listen.unix {
            let listener = Listener::unix(&PathBuf::from(path));
            let policy = match listen.tcp {
                Some(_) => TlsPolicy::Off,
                None => policy.clone(),
            };
            started.listen(path, listener, policy, offer)?;
        }
        if let Some(address) = &listen.tcp {
            started.listen(address, Listener::tcp(address), policy, offer)?;
        }
        Ok(started)
    }

    fn listen(
        &mut self,
        address: &str,
        listener: std::io::Result<Listener>,
        policy: TlsPolicy,
        offer: &Arc<Offer>,
    ) -> Result<(), ControlError> {
        let failed = |error: std::io::Error| NbdRefusal::NotListening {
            address: address.to_owned(),
            reason: error.to_string(),
        };
        let listener = listener.map_err(failed)?;
        let port = listener.port_address();
        let exports = Arc::new(Volumes {
            offer: Arc::clone(offer),
            server: OnceLock::new(),
        });
        let server = Server::start(
            Arc::clone(&exports) as _,
            vec![listener],
            Limits::default(),
            policy,
        );
        let server = Arc::new(server.map_err(failed)?);
        // It is set once, here.
        let _ = exports.server.set(Arc::downgrade(&server));
        self.servers.push(server);
        self.addresses
            .push(port.map_or_else(|| address.to_owned(), |port| port.to_string()));
        Ok(())
    }

    /// Where it listens: paths of sockets, and addresses with their ports.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The connected clients.
    pub fn clients(&self) -> Vec<NbdClient> {
        let connections = self.servers.iter().flat_map(|server| server.connections());
        let each = connections.map(|connection| NbdClient {
            address: connection.address,
            export: connection.export,
            requests: connection.requests,
            read_bytes: connection.read_bytes,
            written_bytes: connection.written_bytes,
        });
        each.collect()
    }

    /// Stops listening. Its addresses are free when this returns.
    pub fn close(&self) {
        self.servers.iter().for_each(|server| server.close());
    }

    /// Disconnects all clients, when their requests under way are answered.
    pub fn end(&self) {
        self.servers.iter().for_each(|server| server.end());
    }

    /// Disconnects the clients of an export, and waits briefly for their requests to end.
    pub fn disconnect(&self, export: &str) {
        for server in &self.servers {
            if !server.disconnect(export, PATIENCE) {
                log::warn!("NBD: clients of '{export}' still have requests under way");
            }
        }
    }
}

/// An offer as the exports of a server.
struct Volumes {
    offer: Arc<Offer>,
    server: OnceLock<Weak<Server>>,
}

impl Volumes {
    /// Disconnects the clients of an export.
    fn hang_up(&self, export: &str) -> HangUp {
        let (server, export) = (self.server.get().cloned(), export.to_owned());
        Arc::new(move || {
            if let Some(server) = server.as_ref().and_then(Weak::upgrade) {
                server.disconnect(&export, PATIENCE);
            }
        })
    }
}

impl Exports for Volumes {
    fn list(&self) -> Vec<ExportEntry> {
        let names = self.offer.names().into_iter();
        let entries = names.map(|name| ExportEntry {
            name,
            description: String::new(),
        });
        entries.collect()
    }

    fn resolved(&self, name: &str) -> String {
        self.offer.resolved(name)
    }

    fn open(&self, name: &str, _client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        match self.offer.open(name, self.hang_up(name)) {
            Ok(served) => Ok(Arc::new(VolumeDisk::new(served))),
            Err(ControlError::NoSuchDataset { .. }) => Err(OpenError::Unknown(name.to_owned())),
            Err(error) => Err(OpenError::Refused(format!(
                "'{name}' cannot be opened: {error}"
            ))),
        }
    }
}

/// A volume as a block device.
pub(crate) struct VolumeDisk(
    ServedVolume,
    /// The snapshots of the contexts that the client has chosen. A later snapshot with the same
    /// name is a different one.
    OnceLock<BTreeMap<String, Guid>>,
);

/// A piece of a block, lent to the server.
struct Lent(Segment);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

impl VolumeDisk {
    /// The device of a volume.
    pub fn new(served: ServedVolume) -> Self {
        Self(served, OnceLock::new())
    }

    /// The open volume of the engine.
    pub fn served(&self) -> &ServedVolume {
        &self.0
    }

    fn volume(&self) -> &Volume {
        self.0.volume()
    }

    /// The error to send to the client. Damage is also added to the pool's error log.
    fn failed(&self, error: &VolumeError) -> BlockError {
        self.0.report(error);
        let system = std::io::Error::from_raw_os_error(error.errno());
        BlockError::new(ErrorCode::from_io(&system), error)
    }

    fn allocation(&self, range: Range<u64>, most: usize) -> Result<Vec<Extent>, VolumeError> {
        let volume = self.volume();
        let (mut extents, mut at) = (Vec::new(), range.start);
        while at < range.end && extents.len() < most {
            let data = volume.next_data(at)?.unwrap_or(range.end).min(range.end);
            let (end, flags) = match data > at {
                true => (data, HOLE_AND_ZERO),
                false => (volume.next_hole(at)?.min(range.end), 0),
            };
            // The volume shrank, or changed between the two calls.
            let end = if end > at { end } else { range.end };
            extents.push(Extent {
                length: end - at,
                flags,
            });
            at = end;
        }
        Ok(extents)
    }
}

impl BlockDevice for VolumeDisk {
    fn size(&self) -> u64 {
        self.volume().size()
    }

    fn block_sizes(&self) -> BlockSizes {
        let preferred = self.volume().block_size().clamp(512, 1 << 20);
        BlockSizes {
            // Both are powers of two.
            preferred: u32::try_from(preferred).unwrap_or(4096),
            ..BlockSizes::default()
        }
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn knows_fast_zero(&self) -> bool {
        true
    }

    fn description(&self) -> Option<String> {
        Some(format!("volume {}", self.0.name()))
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let segments = self.volume().segments(offset, length);
        for segment in segments.map_err(|error| self.failed(&error))? {
            let length = segment.length;
            match segment.block {
                None => data.push_zeros(length),
                Some(_) => data.push_shared(Arc::new(Lent(segment)), 0..length),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        let written = self.volume().write(offset, bytes);
        written.map_err(|error| self.failed(&error))?;
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn piece_size(&self) -> Option<usize> {
        usize::try_from(self.volume().block_size()).ok()
    }

    fn write_pieces(
        &self,
        offset: u64,
        pieces: &mut [BlockBuffer],
        is_durable: bool,
    ) -> Result<(), BlockError> {
        let written = self.volume().write_pieces(offset, pieces);
        written.map_err(|error| self.failed(&error))?;
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        // A read-only client of a writable volume still flushes: other clients may have written.
        if !self.volume().is_writable() {
            return Ok(());
        }
        self.volume().flush().map_err(|error| self.failed(&error))
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        // To trim part of a block, the block would have to be read, and no space would be freed.
        let size = self.volume().block_size();
        let start = range.start.next_multiple_of(size);
        let end = range.end - range.end % size;
        match start < end {
            true => self.zero(start..end, ZeroMode::default()),
            false => Ok(()),
        }
    }

    fn zero(&self, range: Range<u64>, _mode: ZeroMode) -> Result<(), BlockError> {
        let zeroed = self.volume().zero(range.start, range.end - range.start);
        zeroed.map_err(|error| self.failed(&error))
    }

    fn contexts(&self) -> Vec<String> {
        let snapshots = self.0.snapshots().unwrap_or_else(|error| {
            log::warn!("{}: its snapshots are not listed: {error}", self.0.name());
            Vec::new()
        });
        let names = snapshots.into_iter();
        names.map(|name| format!("{CHANGED_SINCE}{name}")).collect()
    }

    fn bind_contexts(&self, names: &[&str]) {
        let bound = names.iter().filter_map(|name| {
            let snapshot = name.strip_prefix(CHANGED_SINCE)?;
            let guid = self.0.guid_of(snapshot).unwrap_or_else(|error| {
                log::warn!("{}: its snapshots are not read: {error}", self.0.name());
                None
            });
            Some((snapshot.to_owned(), guid?))
        });
        self.1.get_or_init(|| bound.collect());
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        if context == BASE_ALLOCATION {
            let extents = self.allocation(range, most);
            return extents.map_err(|error| self.failed(&error));
        }
        let Some(snapshot) = context.strip_prefix(CHANGED_SINCE) else {
            let text = format!("there is no metadata context '{context}'");
            return Err(BlockError::new(ErrorCode::Invalid, text));
        };
        let guid = self.1.get().and_then(|bound| bound.get(snapshot).copied());
        let guid = guid.ok_or_else(|| {
            let text = format!("there was no snapshot '{snapshot}' when the client came");
            BlockError::new(ErrorCode::Io, text)
        })?;
        let changed = self.0.changed_since((snapshot, guid), range, most);
        let changed = changed.map_err(|error| BlockError::new(ErrorCode::Io, error))?;
        let extents = changed.into_iter().map(|part| Extent {
            length: part.length,
            flags: if part.is_changed { CHANGED } else { 0 },
        });
        Ok(extents.collect())
    }
}
