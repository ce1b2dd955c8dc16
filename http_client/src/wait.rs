//! A request from a thread that has nothing else to do.

use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::runtime::Builder;

/// Waits until `work` is done, for at most `limit`; `None` if it was not done by then.
///
/// # Errors
/// The system's, if there is nothing to wait with.
pub fn wait<T>(limit: Duration, work: impl Future<Output = T>) -> io::Result<Option<T>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { tokio::time::timeout(limit, work).await });
    // Names that are being looked up are not waited for.
    runtime.shutdown_background();
    Ok(done.ok())
}
