//! Releases pools with devices in object stores. Data that is not uploaded yet is uploaded first,
//! or stays in the local logs.

use super::status::devices_of;
use super::table::Clouds;
use crate::errors::of_sync;
use crate::registry::imported::Imported;
use cenote_base::rt::job::{Control, Job, Next, after};
use cenote_base::rt::{self, RecvTimeoutError, channel};
use cenote_cloud::{Close, CloudDevice};
use cenote_control::model::{ControlError, Part, Response, StoreRefusal};
use cenote_control::protocol::Reply;
use cenote_pool::Pool;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// How long a daemon that ends waits for stores that do not answer. If the local logs have room, it
/// need not wait for an upload.
const LEAVE_PATIENCE: Duration = Duration::from_secs(3);

/// Bytes that are uploaded without a progress report.
const LITTLE: u64 = 1 << 20;

/// A local log with this share in use, in percent, counts as full.
const FULL_PERCENT: u64 = 90;

/// Devices by their places.
type Devices = [(String, Arc<CloudDevice>)];

pub(super) fn failed(place: &str, error: &impl ToString) -> ControlError {
    let (place, reason) = (place.to_owned(), error.to_string());
    StoreRefusal::Failed { place, reason }.into()
}

/// Makes the devices keep data that is not uploaded yet in the local logs when they are closed.
pub(crate) fn keep_rest(devices: &Devices) {
    for (_, device) in devices {
        device.set_close(Close::Keep);
    }
}

/// Uploads everything that a pool has written, and reports progress. If the pool is exported right
/// after that (`is_last`), a small rest is left to the export, where it costs no request of its
/// own.
///
/// # Errors
/// If the client has disconnected, or a device accepts no more changes.
pub(crate) fn upload_before(
    imported: &Imported,
    devices: &Devices,
    is_last: bool,
    mut reply: Option<&mut dyn Reply>,
) -> Result<(), ControlError> {
    if devices.is_empty() {
        return Ok(());
    }
    for (_, device) in devices {
        device.set_close(Close::Upload);
    }
    let mut upload = Upload::new(devices);
    let synced = match &mut reply {
        Some(reply) => upload.watch_sync(imported, *reply),
        None => imported.pool.sync(),
    };
    synced.map_err(|error| of_sync(imported.name(), error))?;
    for (place, device) in devices {
        let status = device.status();
        if is_last && status.pending_bytes <= LITTLE && status.unreachable_for.is_none() {
            continue;
        }
        let point = device
            .begin_upload()
            .map_err(|error| failed(place, &error))?;
        loop {
            let is_done = device.is_uploaded(point);
            if is_done.map_err(|error| failed(place, &error))? {
                break;
            }
            let part = upload.part(place, device);
            let has_gone =
                |reply: &mut &mut dyn Reply| reply.cancelled() || reply.part(part).is_err();
            if reply.as_mut().is_some_and(has_gone) {
                return Err(ControlError::Interrupted);
            }
            rt::sleep(REPORT_INTERVAL);
        }
    }
    Ok(())
}

/// How far an upload is. What is under way counts: a batch may take minutes, and leaves the local
/// log at its end only.
struct Upload<'a> {
    devices: &'a Devices,
    sent_before: u64,
    done: u64,
    total: u64,
}

impl<'a> Upload<'a> {
    fn new(devices: &'a Devices) -> Self {
        Self {
            devices,
            sent_before: sent(devices),
            done: 0,
            total: 0,
        }
    }

    fn part(&mut self, place: &str, device: &CloudDevice) -> Part {
        let status = device.status();
        let devices = self.devices.iter();
        let pending: u64 = devices.map(|one| one.1.status().pending_bytes).sum();
        let went = sent(self.devices).saturating_sub(self.sent_before);
        self.advance(pending, went);
        let what = match (status.unreachable_for, status.store.last_error) {
            (Some(_), Some(error)) => format!("{place} does not answer: {error}"),
            _ => format!("uploading to {place}"),
        };
        Part::Progress(what, self.done, self.total)
    }

    /// Notes that `pending` bytes are not safely in the store yet, after `went` bytes were sent in
    /// total, with headers and repetitions.
    fn advance(&mut self, pending: u64, went: u64) {
        self.total = self.total.max(pending);
        // Until the commit is there, something is always left.
        let left = u64::from(pending > 0);
        let most = self.total.saturating_sub(left);
        let gone = self.total - pending;
        self.done = self.done.max(gone).max(went.min(most));
    }

    /// Syncs the pool, which takes as long as the upload if flushes wait for the store.
    fn watch_sync(
        &mut self,
        imported: &Imported,
        reply: &mut dyn Reply,
    ) -> Result<(), cenote_pool::SyncError> {
        rt::scope(|scope| {
            let (sender, receiver) = channel();
            scope.spawn(move || sender.send(imported.pool.sync()));
            loop {
                match receiver.recv_timeout(REPORT_INTERVAL) {
                    Ok(synced) => return synced,
                    // The thread is gone without an answer only if it panicked, which the scope
                    // passes on.
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let Some((place, device)) = self.devices.first() else {
                    continue;
                };
                let part = self.part(place, device);
                // A disconnected client is noticed after the sync.
                let _ = reply.part(part);
            }
        })
    }
}

fn sent(devices: &Devices) -> u64 {
    devices.iter().map(|one| one.1.sent_bytes()).sum()
}

/// The answer after a release: the devices that could not be released, and why.
pub(crate) fn outcome(devices: &Devices) -> Response {
    let kept = devices.iter().filter_map(|(place, device)| {
        let status = device.status();
        let reason = status.failure.filter(|_| !status.is_released)?;
        Some((place.clone(), StoreRefusal::NotReleased { reason }.into()))
    });
    let failures: Vec<(String, ControlError)> = kept.collect();
    match failures.is_empty() {
        true => Response::Done,
        false => Response::Failures { failures, done: 1 },
    }
}

/// The error of a device that accepts no more writes, if there is one: its pool cannot be released
/// cleanly.
pub(crate) fn failure_of(devices: &Devices) -> Option<ControlError> {
    devices.iter().find_map(|(place, device)| {
        let (place, reason) = (place.clone(), device.status().failure?);
        Some(StoreRefusal::NotLetGo { place, reason }.into())
    })
}

/// Makes a pool give up if it waits for a device that has failed permanently, until the returned
/// job is dropped.
pub(crate) fn give_up_with(imported: &Arc<Imported>, devices: &Devices) -> Option<Job> {
    if devices.is_empty() {
        return None;
    }
    let pool = Arc::downgrade(imported);
    let own = devices.iter().map(|one| Arc::downgrade(&one.1));
    let devices: Vec<Weak<CloudDevice>> = own.collect();
    let work = move |_: &Control| {
        if let Some(imported) = pool.upgrade().filter(|own| own.pool.is_waiting()) {
            let has_failed = |device: Arc<CloudDevice>| device.status().failure.is_some();
            if devices.iter().filter_map(Weak::upgrade).any(has_failed) {
                imported.pool.give_up();
            }
        }
        Next::After(REPORT_INTERVAL)
    };
    let job = Job::new();
    job.start("leave", work).ok().map(|()| job)
}

/// Why letting pools go now would lose what programs have written and not synced: a store does not
/// answer, and the local log has hardly any room.
pub(crate) fn stuck(clouds: &Clouds, pools: &[Arc<Imported>]) -> Option<ControlError> {
    pools.iter().find_map(|pool| {
        let devices = devices_of(clouds, pool);
        let stuck = devices.iter().find(|(_, device)| {
            let status = device.status();
            let is_full = status
                .log
                .is_none_or(|(used, size)| used >= size / 100 * FULL_PERCENT);
            status.unreachable_for.is_some() && status.pending_bytes > 0 && is_full
        });
        let (place, pool) = (stuck?.0.clone(), pool.name().to_owned());
        Some(StoreRefusal::LogFull { pool, place }.into())
    })
}

/// Closes those of some devices whose stores do not answer, and has their pools give up; says
/// whether there were any. What they have not uploaded stays in their local logs.
fn close_away(devices: &[Weak<CloudDevice>], pools: &[Weak<Pool>]) -> bool {
    let open = devices.iter().filter_map(Weak::upgrade);
    let away: Vec<Arc<CloudDevice>> = open
        .filter(|device| device.status().unreachable_for.is_some())
        .collect();
    if away.is_empty() {
        return false;
    }
    for device in away {
        // An error is ignored: it is not known then whether the log was flushed.
        let _ = device.close(Close::Keep);
    }
    for pool in pools.iter().filter_map(Weak::upgrade) {
        pool.give_up();
    }
    true
}

/// Makes threads that wait for unreachable stores give up: at once if `is_stuck`, and otherwise
/// after a while, unless the returned job is dropped before.
///
/// A pool whose local log is full cannot write its last group; no acknowledged sync is lost with
/// it. A store that answers, even slowly, is waited for.
pub(crate) fn hurry(clouds: &Clouds, pools: &[Arc<Imported>], is_stuck: bool) -> Option<Job> {
    let devices = pools.iter().flat_map(|pool| devices_of(clouds, pool));
    let devices: Vec<Weak<CloudDevice>> = devices.map(|one| Arc::downgrade(&one.1)).collect();
    if devices.is_empty() {
        return None;
    }
    // Threads that wait in a mount hold the pool, not the import.
    let pools = pools.iter().map(|pool| Arc::downgrade(&pool.pool));
    let pools: Vec<Weak<Pool>> = pools.collect();
    if is_stuck && close_away(&devices, &pools) {
        log::error!("a store does not answer: data that was not synced is lost");
        return None;
    }
    let look = move |_: &Control| match close_away(&devices, &pools) {
        true => {
            log::error!("a store does not answer: data that was not synced is lost");
            Next::Done
        }
        false => Next::After(REPORT_INTERVAL),
    };
    // Without a thread the end takes as long as it takes.
    let job = Job::new();
    let started = job.start("leave", after(LEAVE_PATIENCE, look));
    started.ok().map(|()| job)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export showed 0 B through a whole upload: a batch leaves the log at its end only.
    #[test]
    fn what_is_under_way_counts() {
        let mut upload = Upload::new(&[]);
        let mut at = |pending, went| {
            upload.advance(pending, went);
            (upload.done, upload.total)
        };
        assert_eq!(at(1000, 0), (0, 1000));
        assert_eq!(at(1000, 400), (400, 1000));
        assert_eq!(at(1000, 1200), (999, 1000), "not before it is there");
        assert_eq!(at(300, 1300), (999, 1000), "never back");
        assert_eq!(at(0, 1300), (1000, 1000));
    }
}
