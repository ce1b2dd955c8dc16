//! `zpool clear`, `online`, `labelclear`, `reguid` and `upgrade`.

use super::create::refusal;
use super::devices::{pool_and_devices, tell_failures};
use cenote_base::is_url;
use cenote_control::model::{
    Change, ControlError, OnlineDevices, PoolRow, PropertySelection, Request, Response, VdevState,
};
use cenote_ondisk::features::{FEATURE_VERSION, OLD_VERSIONS, by_name};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_pool_name, with_context};
use std::num::ParseIntError;
use std::path::Path;

/// `zpool labelclear [-f] DEVICE`
pub fn labelclear(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let device = match parsed.operands.as_slice() {
        [] => return usage("missing vdev name"),
        [device] => device.clone(),
        _ => return usage("too many arguments"),
    };
    let path = match device.starts_with('/') || is_url(Path::new(&device)) {
        true => device.clone(),
        false => format!("/dev/{device}"),
    };
    let change = Change::ClearLabels {
        device: path,
        force: parsed.has("f"),
    };
    let command = String::new();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(ControlError::DevicesRefused { devices, .. }) => failed(format!(
            "use '-f' to override the following error:\n{}",
            devices.join("\n")
        )),
        Err(error) => {
            let what = format!("failed to clear label for {device}");
            failed(match error {
                ControlError::NoSuchPath { path } if device == path => {
                    format!("failed to open {path}: No such file or directory")
                }
                ControlError::NoSuchPath { .. } => {
                    format!("failed to find device {device}, try specifying absolute path instead")
                }
                error @ ControlError::DeviceInUse { .. } => error.to_string(),
                error => refusal(&what, &error),
            })
        }
    }
}

/// `zpool clear [[--power]|[-nF]] POOL [DEVICE]`
pub fn clear(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if (parsed.has("n") || parsed.has("X")) && !parsed.has("F") {
        return usage("-n or -X only valid with -F");
    }
    let (pool, device) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name"),
        [pool] => (pool.clone(), None),
        [pool, device] => (pool.clone(), Some(device.clone())),
        _ => return usage("too many arguments"),
    };
    let what = format!(
        "cannot clear errors for {}",
        device.as_ref().unwrap_or(&pool)
    );
    if parsed.has("F") {
        return failed(format!(
            "{what}: an imported pool does not go back to an earlier state; \
             use 'zpool export' and 'zpool import -F'"
        ));
    }
    if parsed.has("power") {
        return failed(format!("{what}: the power of slots is not switched here"));
    }
    let change = Change::ClearErrors {
        pool: pool.clone(),
        device,
    };
    let command = context.command.clone();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error) => failed(refusal(&what, &error)),
    }
}

/// `zpool online [--power] [-e] POOL DEVICE…`
pub fn online(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, devices) = pool_and_devices(&parsed)?;
    let change = Change::OnlineDevices(OnlineDevices {
        pool: pool.clone(),
        devices,
        expand: parsed.has("e"),
    });
    let command = context.command.clone();
    let (states, failures) = match context.ask(Request::Change { change, command }) {
        Ok(Response::Online { states, failures }) => (states, failures),
        Ok(_) => return failed(mismatch().to_string()),
        Err(error @ ControlError::NoSuchPool { .. }) => {
            context.complain(&cannot_open(&pool, &error));
            return failed(format!("failed to open pool \"{pool}\""));
        }
        Err(error) => return failed(with_context(&format!("cannot online in '{pool}'"), &error)),
    };
    for (device, state) in states {
        let hint = match state {
            VdevState::Online | VdevState::Degraded => continue,
            VdevState::Faulted => "use 'zpool clear' to restore a faulted device",
            _ => "use 'zpool replace' to replace devices that are no longer present",
        };
        context.line(&format!(
            "warning: device '{device}' onlined, but remains in faulted state\n{hint}"
        ));
    }
    tell_failures("online", &failures, context)
}

/// `zpool reguid [-g GUID] POOL`
pub fn reguid(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let pool = match parsed.operands.as_slice() {
        [] => return usage("missing pool name"),
        [pool] => pool.clone(),
        _ => return usage("too many arguments"),
    };
    let guid = match parsed.last("g").map(|text| (text, guid_of(text))) {
        None => None,
        Some((_, Ok(guid))) if guid > 0 => Some(guid),
        Some((_, Ok(_))) => {
            // 0 is not a valid guid.
            context.complain(&format!(
                "cannot reguid '{pool}': invalid argument for this pool operation"
            ));
            return Err(Stop::Code(255));
        }
        Some((text, Err(_))) => return usage(format!("invalid GUID: {text}")),
    };
    let change = Change::ReguidPool {
        pool: pool.clone(),
        guid,
    };
    let command = context.command.clone();
    match context.ask(Request::Change { change, command }) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchPool { .. }) => failed(cannot_open(&pool, &error)),
        Err(error) => failed(with_context(&format!("cannot reguid '{pool}'"), &error)),
    }
}

/// A GUID as it is written: with its sign, if it comes from a program that prints signed numbers.
fn guid_of(text: &str) -> Result<u64, ParseIntError> {
    match text.starts_with('-') {
        true => text.parse().map(i64::cast_unsigned),
        false => text.parse(),
    }
}

/// `zpool upgrade`, `zpool upgrade -v`, `zpool upgrade [-V VERSION] -a|POOL…`
pub fn upgrade(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let upgrades = parsed.has("a") || !parsed.operands.is_empty();
    match (parsed.has("v"), parsed.has("a")) {
        (true, _) if upgrades => return usage("too many arguments"),
        (_, true) if !parsed.operands.is_empty() => return usage("-a option is incompatible"),
        _ => {}
    }
    if let Some(version) = parsed.last("V") {
        if !upgrades {
            return usage("-V option requires -a or pool names");
        }
        let number: u64 = version.parse().unwrap_or(0);
        if !OLD_VERSIONS.contains(&number) && number != FEATURE_VERSION {
            return usage(format!("invalid version '{version}'"));
        }
        if number != FEATURE_VERSION {
            return failed(format!(
                "version {version} is not available: pools are brought to feature flags"
            ));
        }
    }
    if upgrades {
        return upgrade_pools(&parsed, context);
    }
    context.line(UPGRADE_LEAD);
    match parsed.has("v") {
        true => {
            supported(context);
            Ok(0)
        }
        false => list_missing(context),
    }
}

const UPGRADE_LEAD: &str = "This system supports ZFS pool feature flags.\n";

fn upgrade_pools(parsed: &Parsed, context: &mut Context) -> Outcome {
    let mut code = 0;
    let pools = match parsed.has("a") {
        true => names(context)?,
        false => parsed.operands.clone(),
    };
    let mut upgraded = false;
    // If everything is refused, nothing else is printed.
    let mut lead = Some(UPGRADE_LEAD);
    let mut begin = |context: &mut Context| {
        if let Some(lead) = lead.take() {
            context.line(lead);
        }
    };
    for pool in &pools {
        if let Err(reason) = check_pool_name(pool) {
            context.complain(&format!("cannot open '{pool}': {reason}"));
            code = 1;
            continue;
        }
        let change = Change::UpgradePool { pool: pool.clone() };
        let command = context.command.clone();
        match context.ask(Request::Change { change, command }) {
            Ok(Response::Upgraded {
                from_version: None,
                features,
            }) if features.is_empty() => {
                if !parsed.has("a") {
                    begin(context);
                    context.line(&format!(
                        "Pool '{pool}' already has all supported and requested features enabled."
                    ));
                }
            }
            Ok(Response::Upgraded {
                from_version,
                features,
            }) => {
                upgraded = true;
                begin(context);
                tell_upgrade(pool, from_version, &features, context);
            }
            Ok(_) => return failed(with_context("cannot upgrade", &mismatch())),
            Err(error) => {
                let line = match error {
                    ControlError::NoSuchPool { .. } => cannot_open(pool, &error),
                    error => with_context(&format!("cannot upgrade '{pool}'"), &error),
                };
                context.complain(&line);
                code = 1;
            }
        }
    }
    if parsed.has("a") && !upgraded && code == 0 {
        begin(context);
        context.line("All pools are already formatted using feature flags.\n");
        context.line(ALL_ENABLED);
    }
    Ok(code)
}

const ALL_ENABLED: &str =
    "Every feature flags pool already has all supported and requested\nfeatures enabled.";

/// Prints what was done to one pool.
fn tell_upgrade(pool: &str, from: Option<u64>, features: &[String], context: &mut Context) {
    if let Some(version) = from {
        context.line(&format!(
            "Successfully upgraded '{pool}' from version {version} to feature flags."
        ));
    }
    if !features.is_empty() {
        context.line(&format!("Enabled the following features on '{pool}':"));
    }
    for name in features {
        context.line(&format!("  {name}"));
    }
    context.line("");
}

/// The pools, with their versions, compatibility and features.
fn rows(context: &mut Context) -> Result<Vec<PoolRow>, Stop> {
    let features = cenote_words::FEATURES.iter();
    let mut wanted: Vec<String> = features.map(|name| format!("feature@{name}")).collect();
    wanted.push("version".to_owned());
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(wanted),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => Ok(pools),
        Ok(_) => failed(with_context("cannot list pools", &mismatch())),
        Err(error) => failed(with_context("cannot list pools", &error)),
    }
}

fn names(context: &mut Context) -> Result<Vec<String>, Stop> {
    Ok(rows(context)?.into_iter().map(|row| row.name).collect())
}

/// Lists the pools that lack features, and which.
fn list_missing(context: &mut Context) -> Outcome {
    let rows = rows(context)?;
    let old: Vec<(&PoolRow, u64)> = rows
        .iter()
        .filter_map(|row| Some((row, version(row)?)))
        .collect();
    match old.is_empty() {
        true => context.line("All pools are formatted using feature flags.\n"),
        false => {
            context.line(OLD_LEAD);
            context.line("VER  POOL\n---  ------------");
            for (row, version) in &old {
                context.line(&format!("{version:2}   {}", row.name));
            }
            context.line("\nUse 'zpool upgrade -v' for a list of available legacy versions.");
        }
    }
    let lacks = |row: &PoolRow| {
        let features = row.properties.iter().filter_map(|property| {
            let name = property.name.strip_prefix("feature@")?;
            (property.value.text() == Some("disabled")).then(|| name.to_owned())
        });
        features.collect::<Vec<String>>()
    };
    let with_features = rows.iter().filter(|row| version(row).is_none());
    let lacking: Vec<(&PoolRow, Vec<String>)> = with_features
        .map(|row| (row, lacks(row)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    if lacking.is_empty() {
        context.line(match old.is_empty() {
            true => ALL_ENABLED,
            false => "Every feature flags pool has all supported and requested features enabled.",
        });
        return Ok(0);
    }
    context.line(MISSING_LEAD);
    context.line("POOL  FEATURE\n---------------");
    for (row, names) in lacking {
        context.line(&row.name);
        for name in names {
            context.line(&format!("      {name}"));
        }
    }
    context.line("");
    Ok(0)
}

/// The version of a pool that has a legacy version instead of features.
fn version(row: &PoolRow) -> Option<u64> {
    let version = row
        .properties
        .iter()
        .find(|property| property.name == "version")?;
    version.value.number().filter(|version| *version < 5000)
}

const OLD_LEAD: &str = "The following pools are formatted with legacy version numbers and can\n\
be upgraded to use feature flags.  After being upgraded, these pools\n\
will no longer be accessible by software that does not support feature\n\
flags.\n\n\
Note that setting a pool's 'compatibility' feature to 'legacy' will\n\
inhibit upgrades.\n";

const MISSING_LEAD: &str = "\n\
Some supported features are not enabled on the following pools. Once a\n\
feature is enabled the pool may become incompatible with software\n\
that does not support the feature. See zpool-features(7) for details.\n\n\
Note that the pool 'compatibility' feature can be used to inhibit\n\
feature upgrades.\n\n\
Features marked with (*) are not applied automatically on upgrade, and\n\
must be applied explicitly with zpool-set(7).\n";

/// Everything that a pool can be upgraded to.
fn supported(context: &mut Context) {
    context.line("The following features are supported:\n");
    context.line("FEAT DESCRIPTION");
    context.line(&"-".repeat(61));
    for name in cenote_words::FEATURES {
        let feature = by_name(name);
        match feature.is_some_and(|feature| feature.read_only_compatible) {
            true => context.line(&format!("{name:<37} (read-only compatible)")),
            false => context.line(name),
        }
        let description = feature.map_or("", |feature| feature.description);
        context.line(&format!("     {description}"));
    }
    context.line("\nThe following legacy versions are also supported:\n");
    context.line("VER  DESCRIPTION");
    context.line("---  --------------------------------------------------------");
    for (index, words) in LEGACY.iter().enumerate() {
        context.line(&format!(" {:<2}  {words}", index + 1));
    }
    context.line(
        "\nFor more information on a particular version, including supported\n\
         releases, see the ZFS Administration Guide.\n",
    );
}

/// What each legacy pool version added.
const LEGACY: [&str; 28] = [
    "Initial ZFS version",
    "Ditto blocks (replicated metadata)",
    "Hot spares and double parity RAID-Z",
    "zpool history",
    "Compression using the gzip algorithm",
    "bootfs pool property",
    "Separate intent log devices",
    "Delegated administration",
    "refquota and refreservation properties",
    "Cache devices",
    "Improved scrub performance",
    "Snapshot properties",
    "snapused property",
    "passthrough-x aclinherit",
    "user/group space accounting",
    "stmf property support",
    "Triple-parity RAID-Z",
    "Snapshot user holds",
    "Log device removal",
    "Compression using zle (zero-length encoding)",
    "Deduplication",
    "Received properties",
    "Slim ZIL",
    "System attributes",
    "Improved scrub stats",
    "Improved snapshot deletion performance",
    "Improved snapshot creation performance",
    "Multiple vdev replacements",
];
