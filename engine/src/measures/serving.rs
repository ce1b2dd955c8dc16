//! Figures of mounts, and of the object stores below.

use super::table::{
    MOUNT_ERRORS, MOUNT_READ, MOUNT_REQUESTS, MOUNT_WRITTEN, STORE_DAMAGED, STORE_FAILURES,
    STORE_LOG_SIZE, STORE_LOG_USED, STORE_PENDING, STORE_RECEIVED, STORE_REQUESTS, STORE_SENT,
    STORE_UNREACHABLE,
};
use crate::clouds::act::report;
use crate::clouds::status::devices_of;
use crate::clouds::table::Clouds;
use crate::mounts::mounter::MountFigures;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_base::metrics::Sink;
use cenote_control::model::StoreReport;
use std::collections::BTreeMap;

/// All mounts. A dataset that is mounted several times has the sum of its mounts.
pub(super) fn mounts(mounts: &Mounts, sink: &mut dyn Sink) {
    let mut datasets: BTreeMap<(String, String), MountFigures> = BTreeMap::new();
    for (pool, dataset, figures) in mounts.figures() {
        let sum = datasets.entry((pool, dataset)).or_default();
        sum.add(&figures);
    }
    for ((pool, dataset), figures) in datasets {
        let labels = [pool.as_str(), dataset.as_str()];
        sink.number(&MOUNT_ERRORS, &labels, figures.errors);
        sink.number(&MOUNT_READ, &labels, figures.read_bytes);
        sink.number(&MOUNT_WRITTEN, &labels, figures.written_bytes);
        for (operation, requests) in figures.operations {
            // Unused operations have no series: there are forty operations.
            if requests.count() > 0 {
                let labels = [&pool, &dataset, operation];
                sink.distribution(&MOUNT_REQUESTS, &labels, requests);
            }
        }
    }
}

/// The devices in object stores that a pool has open for writing.
pub(super) fn stores(clouds: &Clouds, imported: &Imported, sink: &mut dyn Sink) {
    for (place, device) in devices_of(clouds, imported) {
        store(imported.name(), &report(&place, &device), sink);
    }
}

fn store(pool: &str, report: &StoreReport, sink: &mut dyn Sink) {
    let status = &report.status;
    let place = status.place.as_str();
    for requests in &report.requests {
        let labels = [pool, place, requests.kind.as_str()];
        sink.number(&STORE_REQUESTS, &labels, requests.requests);
        sink.number(&STORE_SENT, &labels, requests.sent);
        sink.number(&STORE_RECEIVED, &labels, requests.received);
        let reasons = [
            ("transient", requests.transient),
            ("denied", requests.denied),
            ("failed", requests.failed),
        ];
        for (reason, count) in reasons {
            let labels = [pool, place, requests.kind.as_str(), reason];
            sink.number(&STORE_FAILURES, &labels, count);
        }
    }
    let labels = [pool, place];
    sink.number(&STORE_PENDING, &labels, status.pending_bytes);
    sink.number(&STORE_DAMAGED, &labels, status.damaged_count);
    let unreachable = status.unreachable_seconds.unwrap_or(0);
    sink.number(&STORE_UNREACHABLE, &labels, unreachable);
    if let (Some(used), Some(size)) = (status.log_used, status.log_size) {
        sink.number(&STORE_LOG_USED, &labels, used);
        sink.number(&STORE_LOG_SIZE, &labels, size);
    }
}
