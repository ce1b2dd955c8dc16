//! `cenote cloud`: devices in object stores, by the pools that have them or by their names.
//!
//! A device that an imported pool has is asked about through the daemon; any other, and what is
//! only read, is opened here, as of its newest commit, which is in nobody's way.

mod copy;
mod price;
mod report;
mod verify;

use super::arguments::{Arguments, flag, option};
use super::command::Command;
use crate::connect;
use crate::context::{Context, Outcome, Stop, failed, mismatch, usage};
use crate::direct::progress::{Progress, Style};
use cenote_cloud::location::is_location;
use cenote_cloud::{CloudDevice, Opening, StoreOpener};
use cenote_control::model::{Part, Request, Response, StoreAct, StoreReport};
use std::path::Path;
use std::sync::Arc;

/// The command.
pub const COMMAND: Command = Command {
    name: "cloud",
    summary: "Look after pools in object stores",
    synopsis: "status | sync | verify | compact | price POOL|URL\n       cenote cloud copy FROM TO",
    about: "A device in an object store is named by a URL: file:///DIRECTORY.\n\
            'status' tells how it is and which requests were made since it was opened;\n\
            'sync' writes what is dirty and waits until everything is in the store;\n\
            'verify' fetches everything that is needed and compares it with its checks;\n\
            'compact' rewrites objects of which little is needed;\n\
            'price' reckons what it costs a month;\n\
            'copy' makes an image of a device, or a device of an image: each of FROM and TO\n\
            is a URL, a file or a block device. A URL that is copied to says its size\n\
            unless that is to be the image's.",
    flags: &[
        flag(Some('q'), "quiet", "no progress"),
        option(
            None,
            "storage",
            "PRICE",
            "price: of a GB for a month; 0.023 unless said",
        ),
        option(
            None,
            "put",
            "PRICE",
            "price: of 1000 puts or lists; 0.005 unless said",
        ),
        option(
            None,
            "get",
            "PRICE",
            "price: of 1000 gets; 0.0004 unless said",
        ),
        option(
            None,
            "egress",
            "PRICE",
            "price: of a GB that is fetched; 0.09 unless said",
        ),
    ],
    opens_pools: false,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // What is no text names neither a pool nor a store.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["status", target] => report::run(target, arguments, context),
        ["sync", pool] => act(pool, StoreAct::Sync, arguments, context),
        ["compact", pool] => act(pool, StoreAct::Compact, arguments, context),
        ["verify", target] => verify::run(target, arguments, context),
        ["price", target] => price::run(target, arguments, context),
        ["copy", from, to] => copy::run(from, to, arguments, context),
        _ => usage(""),
    }
}

/// How progress is to be shown.
fn style(arguments: &Arguments) -> Style {
    match (arguments.has("quiet"), arguments.has("json")) {
        (true, _) => Style::Quiet,
        (false, true) => Style::Json,
        (false, false) => Style::Auto,
    }
}

/// Has the daemon do something with the devices of a pool, and tells how they are then.
fn act(pool: &str, act: StoreAct, arguments: &Arguments, context: &mut Context) -> Outcome {
    let stores = ask(pool, act, style(arguments), context)?;
    if arguments.has("json") {
        report::print_json(&stores, context);
    }
    Ok(0)
}

/// What the daemon says about the devices of a pool, after it has done something with them.
fn ask(
    pool: &str,
    act: StoreAct,
    style: Style,
    context: &mut Context,
) -> Result<Vec<StoreReport>, Stop> {
    let request = Request::Stores {
        pool: pool.to_owned(),
        act,
    };
    let mut shown: Option<Progress> = None;
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Progress(what, done, total) = part {
            let total = Some(total).filter(|total| *total > 0);
            let progress = shown.get_or_insert_with(|| Progress::new(style, total));
            progress.set(done, total, &what);
        }
    });
    if let Some(shown) = shown {
        shown.finish();
    }
    match answer {
        Ok(Response::Stores { stores }) => Ok(stores),
        Ok(_) => failed(mismatch().to_string()),
        Err(error) => failed(format!("{pool}: {error}")),
    }
}

/// Opens the devices that are meant, for reading, as of their newest commits.
fn open(target: &str) -> Result<Vec<(String, Arc<CloudDevice>)>, Stop> {
    let places = match is_location(Path::new(target)) {
        true => vec![target.to_owned()],
        false => places_of(target)?,
    };
    let mut opening = Opening::default();
    opening.options.is_read_only = true;
    let mut devices = Vec::new();
    for place in places {
        let opened = StoreOpener::new(false).open_device(Path::new(&place), &opening);
        match opened {
            Ok(device) => devices.push((place, device)),
            Err(error) => return failed(error.to_string()),
        }
    }
    Ok(devices)
}

/// Where the devices in stores of an imported pool are.
fn places_of(pool: &str) -> Result<Vec<String>, Stop> {
    let Some(opened) = connect::opened(pool) else {
        return failed(format!(
            "'{pool}' is neither an imported pool nor a store: name it as file:///DIRECTORY"
        ));
    };
    let mut places = opened.devices;
    places.retain(|place| is_location(Path::new(place)));
    match places.is_empty() {
        true => failed(format!("{pool}: no device is in an object store")),
        false => Ok(places),
    }
}
