//! `cenote cloud verify`.

use super::target::{open, style};
use crate::command::Arguments;
use crate::context::{Context, Outcome, failed};
use crate::format::json::{Json, Object};
use crate::format::number::nicebytes;
use crate::reading::progress::Progress;
use cenote_cloud::{ObjectFault, Verified};

pub fn run(target: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let mut code = 0;
    let mut all = Object::new();
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
        code |= u8::from(verified.faulty > 0);
        match arguments.has("json") {
            true => all.put(&place, json(&verified)),
            false => print(&place, &verified, context),
        }
    }
    if arguments.has("json") {
        let mut document = Object::new();
        document.put("stores", all);
        context.line(&Json::from(document).to_string());
    }
    Ok(code)
}

fn print(place: &str, verified: &Verified, context: &mut Context) {
    let what = match (verified.faulty, verified.remarks.len()) {
        (0, 0) => "all are as they were put".to_owned(),
        (0, _) => "none that is needed is known to be damaged".to_owned(),
        (faulty, _) => format!("{faulty} are NOT as they were put"),
    };
    context.line(&format!(
        "{place}: {} objects with {} and {} pages of the map: {what}",
        verified.objects,
        nicebytes(verified.bytes),
        verified.pages
    ));
    for fault in verified.faults.iter().chain(&verified.remarks) {
        let ranges = fault.ranges.iter();
        let ranges: Vec<String> = ranges
            .map(|range| format!("{}-{}", range.start, range.end))
            .collect();
        let of = match ranges.is_empty() {
            true => String::new(),
            false => format!(": bytes {} of the device", ranges.join(", ")),
        };
        context.line(&format!("  {}: {}{of}", fault.key, fault.what));
    }
    if verified.faulty > 0 {
        context.line(
            "  'zpool scrub' repairs what has another copy, and lists the files that are lost",
        );
    } else if !verified.remarks.is_empty() {
        context.line("  nothing has to be done: compaction removes such objects in time");
    }
}

fn entries(faults: &[ObjectFault]) -> Vec<Json> {
    let entries = faults.iter().map(|fault| {
        let mut entry = Object::new();
        entry.put("key", fault.key.as_str());
        entry.put("what", fault.what.as_str());
        let ranges = fault.ranges.iter();
        let ranges =
            ranges.map(|range| Json::List(vec![Json::from(range.start), Json::from(range.end)]));
        entry.put("ranges", ranges.collect::<Vec<Json>>());
        Json::from(entry)
    });
    entries.collect()
}

fn json(verified: &Verified) -> Object {
    let mut object = Object::new();
    object.put("objects", verified.objects);
    object.put("bytes", verified.bytes);
    object.put("pages", verified.pages);
    object.put("faulty", verified.faulty);
    object.put("faults", entries(&verified.faults));
    object.put("remarks", entries(&verified.remarks));
    object
}
