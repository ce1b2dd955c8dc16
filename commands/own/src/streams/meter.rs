//! How far a stream in a file is: a thread that looks at the file now and then.

use cenote_words::progress::{Progress, Style};
use std::fs::File;
use std::io::Seek;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(200);

/// What tells how far it is.
pub enum Gauge {
    /// The file's length.
    Length(File),
    /// Where the next read or write of whoever shares this descriptor will be.
    Position(File),
}

impl Gauge {
    fn bytes(&mut self) -> u64 {
        let bytes = match self {
            Self::Length(file) => file.metadata().map(|metadata| metadata.len()),
            Self::Position(file) => file.stream_position(),
        };
        bytes.unwrap_or(0)
    }
}

#[derive(Default)]
struct Shared {
    /// Bytes in all; 0 if that is not known.
    total: AtomicU64,
    is_over: Mutex<bool>,
    ended: Condvar,
}

/// The progress of one stream.
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// Shows how far `gauge` is on the way to `total`, as `at`.
    pub fn start(mut gauge: Gauge, total: u64, at: String, is_quiet: bool) -> Self {
        let shared = Arc::new(Shared::default());
        shared.total.store(total, Ordering::Relaxed);
        let own = Arc::clone(&shared);
        let show = move || {
            let style = if is_quiet { Style::Quiet } else { Style::Auto };
            let total = || Some(own.total.load(Ordering::Relaxed)).filter(|total| *total > 0);
            let progress = Progress::new(style, total());
            let mut is_over = own.is_over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_over {
                let bytes = gauge.bytes();
                progress.set(bytes, total().map(|total| total.max(bytes)), &at);
                let waited = own.ended.wait_timeout(is_over, PERIOD);
                is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            progress.finish();
        };
        // Without a thread there is no progress to see.
        let thread = std::thread::Builder::new().name("meter".into()).spawn(show);
        Self {
            shared,
            thread: thread.ok(),
        }
    }

    /// Says how much there is in all.
    pub fn set_total(&self, bytes: u64) {
        self.shared.total.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let over = self.shared.is_over.lock();
        *over.unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
