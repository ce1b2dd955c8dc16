//! Workers: threads with a runtime each, on which connections are served.

use cenote_base::rt;
use cenote_base::rt::process::{self, JoinHandle};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Workers at most: more of them than this are not needed to fill a network.
const WORKERS_MAX: usize = 8;

struct Worker {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    load: Arc<AtomicUsize>,
}

/// All workers of a server; they end when this is dropped, and with them what they serve.
pub(crate) struct Workers(Vec<Worker>);

/// Ways to the workers.
pub(crate) struct Handles(Vec<(Handle, Arc<AtomicUsize>)>);

/// Counts a connection of a worker until it is dropped.
pub(crate) struct Load(Arc<AtomicUsize>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// As many as are given, or one for each processor.
    ///
    /// # Errors
    /// The system has no room for the threads or their descriptors.
    pub fn start(count: Option<usize>) -> io::Result<Self> {
        let processors = || rt::available_parallelism().map_or(1, usize::from);
        let count = count.unwrap_or_else(processors).clamp(1, WORKERS_MAX);
        let workers: io::Result<Vec<_>> = (0..count).map(|_| Worker::start()).collect();
        workers.map(Self)
    }

    /// Begins a task of the server's own.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(worker) = self.0.first() {
            drop(worker.handle.spawn(task));
        }
    }

    pub fn handles(&self) -> Handles {
        let way = |worker: &Worker| (worker.handle.clone(), Arc::clone(&worker.load));
        Handles(self.0.iter().map(way).collect())
    }
}

impl Handles {
    /// Begins a task on the worker that has the fewest.
    pub fn deal<F: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(Load) -> F,
    ) -> AbortHandle {
        let fewest = self
            .0
            .iter()
            .min_by_key(|way| way.1.load(Ordering::Relaxed));
        let (handle, load) = fewest.expect("a server has at least one worker");
        load.fetch_add(1, Ordering::Relaxed);
        handle.spawn(task(Load(Arc::clone(load)))).abort_handle()
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, is_over) = oneshot::channel::<()>();
        let thread = process::spawn("http", move || {
            // Either way it is over.
            let _ = runtime.block_on(is_over);
            runtime.shutdown_background();
        })?;
        Ok(Self {
            handle,
            end: Some(end),
            thread: Some(thread),
            load: Arc::default(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Its panic was reported where it happened.
            let _ = thread.join();
        }
    }
}
