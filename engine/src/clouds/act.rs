//! `cenote cloud`: what devices in stores have done, and what they are told to do.

use super::leave::{failed, upload_before};
use super::status::{devices_of, status};
use crate::context::Context;
use cenote_base::rt;
use cenote_cloud::CloudDevice;
use cenote_cloud::store::RequestKind;
use cenote_control::model::{
    ControlError, Part, Response, StoreAct, StoreRefusal, StoreReport, StoreRequests,
};
use cenote_control::protocol::Reply;
use std::time::Duration;

/// How often it is looked whether something is done.
const POLL: Duration = Duration::from_millis(100);

/// Does something with the devices in stores that a pool has open for writing.
pub(crate) fn act_on_stores(
    context: &Context,
    pool: &str,
    act: StoreAct,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(pool)?;
    let devices = devices_of(&context.clouds, &imported);
    if devices.is_empty() {
        let refusal = match imported.pool.is_writable() {
            true => StoreRefusal::NoStore,
            false => StoreRefusal::ReadOnlyPool,
        };
        return Err(refusal.into());
    }
    match act {
        StoreAct::Status => {}
        StoreAct::Sync => upload_before(&imported, &devices, false, Some(reply))?,
        StoreAct::Compact => {
            for (place, device) in &devices {
                compact(place, device, reply)?;
            }
        }
    }
    let reports = devices.iter().map(|(place, device)| report(place, device));
    let stores = reports.collect();
    Ok(Response::Stores { stores })
}

fn compact(place: &str, device: &CloudDevice, reply: &mut dyn Reply) -> Result<(), ControlError> {
    let begun = device.compact();
    begun.map_err(|error| failed(place, &error))?;
    let before = device.counts().compacted;
    while device.is_compacting() {
        let moved = device.counts().compacted - before;
        let part = Part::Progress(format!("compacting {place}"), moved, 0);
        if reply.cancelled() || reply.part(part).is_err() {
            return Err(ControlError::Interrupted);
        }
        rt::sleep(POLL);
    }
    match device.status().failure {
        Some(failure) => Err(failed(place, &failure)),
        None => Ok(()),
    }
}

/// All that is known of a device in a store.
pub(crate) fn report(place: &str, device: &CloudDevice) -> StoreReport {
    let (space, counts) = (device.space(), device.counts());
    let requests = RequestKind::ALL.into_iter().map(|kind| {
        let counts = device.statistics().of(kind);
        StoreRequests {
            kind: kind.name().to_owned(),
            requests: counts.requests,
            transient: counts.transient,
            denied: counts.denied,
            failed: counts.failed,
            sent: counts.sent,
            received: counts.received,
            sizes: counts.size.slots.to_vec(),
            latencies: counts.latency_ms.slots.to_vec(),
        }
    });
    StoreReport {
        status: status(place.to_owned(), device),
        live_bytes: space.live,
        live_exact: space.is_live_exact,
        stored_bytes: space.stored,
        map_memory: space.map_memory,
        commits: counts.commits,
        checkpoints: counts.checkpoints,
        compacted_bytes: counts.compacted,
        deleted: counts.deleted,
        requests: requests.collect(),
    }
}
