//! Which devices a command concerns, and the daemon's reports about them.

use cenote_cloud::location::is_location;
use cenote_cloud::{CloudDevice, Opening, StoreOpener};
use cenote_control::model::{ControlError, Part, Request, Response, StoreAct, StoreReport};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Stop, failed, mismatch};
use cenote_words::progress::{Progress, Style};
use std::path::Path;
use std::sync::Arc;

/// How to show progress.
pub fn style(arguments: &Arguments) -> Style {
    match (arguments.has("quiet"), arguments.has("json")) {
        (true, _) => Style::Quiet,
        (false, true) => Style::Json,
        (false, false) => Style::Auto,
    }
}

/// Asks the daemon to perform an action on a pool's devices; returns its reports.
pub fn ask(
    pool: &str,
    act: StoreAct,
    style: Style,
    context: &mut Context,
) -> Result<Vec<StoreReport>, Stop> {
    match try_to_ask(pool, act, style, context)? {
        Ok(stores) => Ok(stores),
        Err(error) => failed(format!("{pool}: {error}")),
    }
}

/// As [`ask`], but returns the daemon's refusals to the caller.
pub fn try_to_ask(
    pool: &str,
    act: StoreAct,
    style: Style,
    context: &mut Context,
) -> Result<Result<Vec<StoreReport>, ControlError>, Stop> {
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
        Ok(Response::Stores { stores }) => Ok(Ok(stores)),
        Ok(_) => failed(mismatch().to_string()),
        Err(error) => Ok(Err(error)),
    }
}

/// Opens the named devices for reading, at their newest commits.
pub fn open(target: &str) -> Result<Vec<(String, Arc<CloudDevice>)>, Stop> {
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

/// The devices of an imported pool that are in stores.
fn places_of(pool: &str) -> Result<Vec<String>, Stop> {
    let Ok(Some(opened)) = cenote_connect::opened(pool) else {
        return failed(format!(
            "'{pool}' is neither an imported pool nor a store: name it as s3://BUCKET/PREFIX or \
             file:///DIRECTORY"
        ));
    };
    let mut places = opened.devices;
    places.retain(|place| is_location(Path::new(place)));
    match places.is_empty() {
        true => failed(format!("{pool}: no device is in an object store")),
        false => Ok(places),
    }
}
