//! What all requests of a server share, and one request from its head to the end of its answer.

use crate::access_log::{Record, Writer};
use crate::addresses::Addresses;
use crate::links::{Clock, Link, Links};
use crate::options::Rules;
use crate::pace::Pace;
use crate::pages::Pages;
use crate::tree::Sites;
use crate::waiting::Waiting;
use cenote_base::rt::{RwLock, ranks};
use rustls::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What can be exchanged while the server runs.
pub(crate) struct Current {
    pub rules: Arc<Rules>,
    pub tls: Option<Arc<ServerConfig>>,
}

/// Figures of a server.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub accepted: AtomicU64,
    pub refused: AtomicU64,
    pub slow: AtomicU64,
    pub requests: AtomicU64,
    pub answers: [AtomicU64; 5],
    pub bytes: AtomicU64,
    pub from_memory: AtomicU64,
}

/// Adds to a figure that nothing is decided by.
pub(crate) fn count(figure: &AtomicU64, more: u64) {
    figure.fetch_add(more, Ordering::Relaxed);
}

/// What all connections share.
pub(crate) struct Shared {
    pub sites: Arc<dyn Sites>,
    pub pages: Option<Arc<dyn Pages>>,
    pub current: RwLock<Current, ranks::HttpRules>,
    pub waiting: Waiting,
    pub links: Arc<Links>,
    pub addresses: Addresses,
    pub byte_pace: Pace,
    pub figures: Figures,
    pub log: Option<Writer>,
    pub clock: Clock,
    /// No connection takes another request.
    pub is_stopping: AtomicBool,
}

impl Shared {
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.current.read().rules)
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// The status of requests whose clients left before there was an answer, as nginx has it.
const CLIENT_LEFT: u16 = 499;

/// One request: it counts as under way, and is counted and logged when it is dropped.
pub(crate) struct Flight {
    pub shared: Arc<Shared>,
    pub link: Arc<Link>,
    pub status: u16,
    /// Bytes of the body that were handed to the connection.
    pub bytes: u64,
    pub record: Option<Box<Record>>,
    is_waiting: bool,
    /// No thread was asked that may wait.
    pub is_at_once: bool,
}

impl Flight {
    pub fn begin(shared: &Arc<Shared>, link: &Arc<Link>) -> Self {
        link.begin();
        count(&shared.figures.requests, 1);
        if let Some(address) = &link.address {
            count(&address.0.requests, 1);
        }
        Self {
            shared: Arc::clone(shared),
            link: Arc::clone(link),
            status: CLIENT_LEFT,
            bytes: 0,
            record: None,
            is_waiting: false,
            is_at_once: false,
        }
    }

    /// Says whether the client waits for the server, and not the server for the client.
    pub fn set_waiting(&mut self, is_waiting: bool) {
        match (self.is_waiting, is_waiting) {
            (false, true) => self.link.begin_wait(),
            (true, false) => self.link.end_wait(),
            _ => {}
        }
        self.is_waiting = is_waiting;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.set_waiting(false);
        self.link.end();
        let figures = &self.shared.figures;
        let class = usize::from(self.status / 100).clamp(1, 5) - 1;
        count(&figures.answers[class], 1);
        count(&figures.bytes, self.bytes);
        count(&figures.from_memory, u64::from(self.is_at_once));
        if let Some(address) = &self.link.address {
            count(&address.0.bytes, self.bytes);
        }
        if let (Some(log), Some(mut record)) = (&self.shared.log, self.record.take()) {
            record.status = self.status;
            record.bytes = self.bytes;
            log.put(record);
        }
    }
}
