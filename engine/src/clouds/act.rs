//! `cenote cloud`: the state of devices in stores, and commands for them.

use super::leave::{failed, upload_before};
use super::status::{devices_of, status};
use crate::context::Context;
use cenote_base::rt;
use cenote_cloud::store::RequestKind;
use cenote_cloud::{CloudDevice, ObjectFault};
use cenote_control::model::{
    ControlError, Part, Response, StoreAct, StoreFault, StoreRefusal, StoreReport, StoreRequests,
    StoreVerified,
};
use cenote_control::protocol::Reply;
use std::time::Duration;

/// How often to check whether an operation is done.
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
        StoreAct::Status | StoreAct::Verify => {}
        StoreAct::Sync => upload_before(&imported, &devices, false, Some(reply))?,
        StoreAct::Compact => {
            for (place, device) in &devices {
                compact(place, device, reply)?;
            }
        }
    }
    let mut stores = Vec::new();
    for (place, device) in &devices {
        let verified = match act {
            StoreAct::Verify => Some(verify(place, device, reply)?),
            _ => None,
        };
        stores.push(StoreReport {
            verified,
            ..report(place, device)
        });
    }
    Ok(Response::Stores { stores })
}

/// Verifies a device, uploads lost objects again, and then verifies it once more.
fn verify(
    place: &str,
    device: &CloudDevice,
    reply: &mut dyn Reply,
) -> Result<StoreVerified, ControlError> {
    let before = put_again(device);
    let mut verified = verify_once(place, device, reply)?;
    if device.status().damaged_count > 0 {
        let done = device.put_again();
        done.map_err(|error| failed(place, &error))?;
    }
    let count = put_again(device).saturating_sub(before);
    if count > 0 {
        verified = verify_once(place, device, reply)?;
    }
    Ok(StoreVerified {
        put_again: count,
        ..verified
    })
}

fn put_again(device: &CloudDevice) -> u64 {
    let loss = device.status().loss;
    loss.map_or(0, |loss| loss.put_again)
}

fn verify_once(
    place: &str,
    device: &CloudDevice,
    reply: &mut dyn Reply,
) -> Result<StoreVerified, ControlError> {
    let verified = device.verify(&mut |done, total| {
        let part = Part::Progress(format!("verifying {place}"), done, total);
        !reply.cancelled() && reply.part(part).is_ok()
    });
    let verified = verified.map_err(|error| failed(place, &error))?;
    if !verified.is_complete {
        return Err(ControlError::Interrupted);
    }
    let faults = |faults: Vec<ObjectFault>| {
        let faults = faults.into_iter().map(|fault| StoreFault {
            key: fault.key,
            what: fault.what,
            ranges: fault.ranges.into_iter().map(|r| (r.start, r.end)).collect(),
        });
        faults.collect()
    };
    Ok(StoreVerified {
        objects: verified.objects,
        bytes: verified.bytes,
        pages: verified.pages,
        faulty: verified.faulty,
        faults: faults(verified.faults),
        remarks: faults(verified.remarks),
        put_again: 0,
    })
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

/// The report on a device in a store.
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
        verified: None,
    }
}
