//! `cenote cloud verify`.
//!
//! If a pool is imported for writing, the daemon verifies its devices. It records damage, and
//! uploads again what this machine still has. Other devices are opened here, read-only.

use super::target::{open, style, try_to_ask};
use cenote_cloud::ObjectFault;
use cenote_cloud::location::is_location;
use cenote_control::model::{
    ControlError, Refusal, StoreAct, StoreFault, StoreRefusal, StoreVerified,
};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::{counted, nicebytes};
use cenote_words::progress::Progress;
use std::path::Path;

/// The results by device.
type All = Vec<(String, StoreVerified)>;

pub fn run(target: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let by_daemon = match is_location(Path::new(target)) {
        true => None,
        false => by_daemon(target, arguments, context)?,
    };
    let all = match by_daemon {
        Some(all) => all,
        None => by_reading(target, arguments)?,
    };
    let code = u8::from(all.iter().any(|(_, verified)| verified.faulty > 0));
    if arguments.has("json") {
        let mut stores = Object::new();
        for (place, verified) in &all {
            stores.put(place, json(verified));
        }
        let mut document = Object::new();
        document.put("stores", stores);
        context.line(&Json::from(document).to_string());
        return Ok(code);
    }
    for (place, verified) in &all {
        print(place, verified, context);
    }
    Ok(code)
}

/// The daemon's results; `None` if it has no such devices open for writing.
fn by_daemon(
    pool: &str,
    arguments: &Arguments,
    context: &mut Context,
) -> Result<Option<All>, Stop> {
    // Ask only a daemon that has the pool; do not start one.
    match cenote_connect::opened(pool) {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(None),
        Err(error) => return failed(format!("{pool}: {error}")),
    }
    match try_to_ask(pool, StoreAct::Verify, style(arguments), context)? {
        Ok(stores) => {
            let all = stores.into_iter();
            let all = all.filter_map(|store| Some((store.status.place, store.verified?)));
            Ok(Some(all.collect()))
        }
        Err(error) => match is_for_readers(&error) {
            true => Ok(None),
            false => failed(format!("{pool}: {error}")),
        },
    }
}

/// Whether the daemon refused only because it does not write to the devices.
fn is_for_readers(error: &ControlError) -> bool {
    use StoreRefusal::{NoStore, ReadOnlyPool};
    matches!(
        error,
        ControlError::Refused(Refusal::Store(NoStore | ReadOnlyPool))
    )
}

fn by_reading(target: &str, arguments: &Arguments) -> Result<All, Stop> {
    let mut all = Vec::new();
    for (place, device) in open(target)? {
        let progress = Progress::new(style(arguments), None);
        let verified = device.verify(&mut |done, total| {
            progress.set(done, Some(total), &format!("verifying {place}"));
            true
        });
        progress.finish();
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => return failed(error.to_string()),
        };
        let verified = StoreVerified {
            objects: verified.objects,
            bytes: verified.bytes,
            pages: verified.pages,
            faulty: verified.faulty,
            faults: verified.faults.into_iter().map(fault).collect(),
            remarks: verified.remarks.into_iter().map(fault).collect(),
            put_again: 0,
        };
        all.push((place, verified));
    }
    Ok(all)
}

fn fault(fault: ObjectFault) -> StoreFault {
    let ranges = fault.ranges.iter();
    StoreFault {
        ranges: ranges.map(|range| (range.start, range.end)).collect(),
        key: fault.key,
        what: fault.what,
    }
}

fn print(place: &str, verified: &StoreVerified, context: &mut Context) {
    let what = match (verified.faulty, verified.remarks.len()) {
        (0, 0) => "all are as they were put".to_owned(),
        (0, _) => "none that is needed is known to be damaged".to_owned(),
        (faulty, _) => format!("{faulty} are NOT as they were put"),
    };
    context.line(&format!(
        "{place}: {} with {} and {} of the map: {what}",
        counted(verified.objects, "object"),
        nicebytes(verified.bytes),
        counted(verified.pages, "page")
    ));
    for fault in verified.faults.iter().chain(&verified.remarks) {
        let ranges = fault.ranges.iter();
        let ranges: Vec<String> = ranges
            .map(|(start, end)| format!("{start}-{end}"))
            .collect();
        let of = match ranges.is_empty() {
            true => String::new(),
            false => format!(": bytes {} of the device", ranges.join(", ")),
        };
        context.line(&format!("  {}: {}{of}", fault.key, fault.what));
    }
    if verified.put_again > 0 {
        context.line(&format!(
            "  {} objects that the store had lost were put again from this machine",
            verified.put_again
        ));
    }
    if verified.faulty > 0 {
        context.line(
            "  'zpool scrub' repairs what has another copy, and lists the files that are lost",
        );
    } else if !verified.remarks.is_empty() {
        context.line("  nothing has to be done: compaction removes such objects in time");
    }
}

fn entries(faults: &[StoreFault]) -> Vec<Json> {
    let entries = faults.iter().map(|fault| {
        let mut entry = Object::new();
        entry.put("key", fault.key.as_str());
        entry.put("what", fault.what.as_str());
        let ranges = fault.ranges.iter();
        let ranges =
            ranges.map(|(start, end)| Json::List(vec![Json::from(*start), Json::from(*end)]));
        entry.put("ranges", ranges.collect::<Vec<Json>>());
        Json::from(entry)
    });
    entries.collect()
}

fn json(verified: &StoreVerified) -> Object {
    let mut object = Object::new();
    object.put("objects", verified.objects);
    object.put("bytes", verified.bytes);
    object.put("pages", verified.pages);
    object.put("faulty", verified.faulty);
    object.put("put_again", verified.put_again);
    object.put("faults", entries(&verified.faults));
    object.put("remarks", entries(&verified.remarks));
    object
}
