//! The progress of a stream in a file: a thread checks the file periodically.

use cenote_words::progress::{Progress, Style};
use std::fs::File;
use std::io::Seek;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(200);

/// How to measure the progress.
pub enum Gauge {
    /// The file's length.
    Length(File),
    /// The file position of the process that shares this descriptor.
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
    /// The total bytes; 0 if unknown.
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
    /// Shows the progress of `gauge` towards `total`, labelled `at`.
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
        // Without a thread there is no progress bar.
        let thread = std::thread::Builder::new().name("meter".into()).spawn(show);
        Self {
            shared,
            thread: thread.ok(),
        }
    }

    /// Sets the total.
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
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}
