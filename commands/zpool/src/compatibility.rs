//! Checks a value of the property `compatibility` before it is set.

use std::path::Path;

use cenote_control::model::{PropertySelection, Request, Response};
use cenote_control::regular;
use cenote_ondisk::compatibility::{FILE_SIZE_MAX, compatibility};
use cenote_words::context::{Context, Stop, failed};

/// Refuses an invalid list of feature sets. Warns of unknown parts of it, and of features outside
/// it that the `pool`, if it exists, already has.
pub fn check(sets: &str, pool: Option<&str>, context: &mut Context) -> Result<(), Stop> {
    let read_file = |path: &Path| {
        let read = || regular::read_text(path, FILE_SIZE_MAX).ok();
        path.exists().then(read)
    };
    let wanted = match compatibility(sets, &read_file) {
        Ok(wanted) => wanted,
        Err(error) => return failed(format!("Error: {error}")),
    };
    if !wanted.unknown.is_empty() {
        let names = wanted.unknown.join(" ");
        context.complain(&format!(
            "Warning: unrecognized feature name(s) in distribution compatibility files: {names}"
        ));
    }
    let Some(pool) = pool else { return Ok(()) };
    let names = cenote_words::FEATURES.iter();
    let names = names.map(|name| format!("feature@{name}"));
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(names.collect()),
        vdevs: false,
    };
    // The next step reports a missing pool.
    let Ok(Response::Pools { pools, .. }) = context.ask(request) else {
        return Ok(());
    };
    let mut properties = pools.iter().flat_map(|row| &row.properties);
    let has_more = properties.any(|property| {
        let name = property.name.strip_prefix("feature@").unwrap_or_default();
        let is_on = property.value.text() != Some("disabled");
        is_on && !wanted.features.iter().any(|feature| feature.name == name)
    });
    if has_more {
        context.complain(&format!(
            "Warning: one or more features already enabled on pool '{pool}'\n\
             are not present in this compatibility set."
        ));
    }
    Ok(())
}
