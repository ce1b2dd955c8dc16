//! `zpool offline`, `attach`, `replace`, `detach` and `reopen`.

use super::activity::{wait_for, wait_for_devices};
use super::create::{pairs, refusal};
use super::writes::require_pool;
use cenote_control::model::{
    AttachedDevice, Change, ControlError, DeviceChange, Request, Response,
};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::with_context;

/// The exit code if attaching, replacing or detaching a device is refused.
const REFUSED: u8 = 255;

fn ask(change: DeviceChange, context: &mut Context) -> Result<Response, ControlError> {
    let change = Change::Devices(change);
    let command = context.command.clone();
    context.ask(Request::Change { change, command })
}

/// The operands of a command that takes devices of a pool.
pub fn pool_and_devices(parsed: &Parsed) -> Result<(String, Vec<String>), Stop> {
    let (pool, devices) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name"),
        [_] => return usage("missing device name"),
        [pool, devices @ ..] => (pool.clone(), devices.to_vec()),
    };
    if parsed.has("power") {
        return failed("--power: the power of slots is not switched here");
    }
    Ok((pool, devices))
}

/// `zpool offline [--power]|[[-f][-t]] POOL DEVICE…`
pub fn offline(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, devices) = pool_and_devices(&parsed)?;
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return failed(format!("failed to open pool \"{pool}\""));
    }
    let change = DeviceChange::Offline {
        pool,
        devices,
        temporary: parsed.has("t"),
        fault: parsed.has("f"),
    };
    let failures = match ask(change, context) {
        Ok(Response::Failures { failures, .. }) => failures,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => return failed(error.to_string()),
    };
    tell_failures("offline", &failures, context)
}

/// Reports the devices on which a command failed.
pub fn tell_failures(
    verb: &str,
    failures: &[(String, ControlError)],
    context: &mut Context,
) -> Outcome {
    for (device, error) in failures {
        context.complain(&match error {
            ControlError::NoSuchDevice { .. } => error.to_string(),
            error => refusal(&format!("cannot {verb} {device}"), error),
        });
    }
    match failures.is_empty() {
        true => Ok(0),
        false => Err(Stop::Code(1)),
    }
}

/// `zpool attach [-fsw] [-o ashift=N] POOL DEVICE NEW`
pub fn attach(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    join(line, false, context)
}

/// `zpool replace [-fsw] [-o ashift=N] POOL DEVICE [NEW]`
pub fn replace(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    join(line, true, context)
}

fn join(line: &CommandLine<'_>, replaces: bool, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, device, new) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing <device> specification"),
        [_, _] if !replaces => return usage("missing <new_device> specification"),
        [pool, device] => (pool.clone(), device.clone(), None),
        [pool, device, new] => (pool.clone(), device.clone(), Some(new.clone())),
        _ => return usage("too many arguments"),
    };
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return Err(Stop::Code(1));
    }
    let shown = new.clone().unwrap_or_else(|| device.clone());
    let what = match replaces {
        true => format!("cannot replace {device} with {shown}"),
        false => format!("cannot attach {shown} to {device}"),
    };
    let attached = AttachedDevice {
        pool: pool.clone(),
        device,
        new,
        replaces,
        sequential: parsed.has("s"),
        properties: pairs(&parsed, "o")?,
        force: parsed.has("f"),
    };
    match ask(DeviceChange::Attach(attached), context) {
        Ok(_) => {}
        Err(error @ ControlError::DevicesRefused { .. }) => return failed(refusal(&what, &error)),
        Err(error) => {
            context.complain(&refusal(&what, &error));
            return Err(Stop::Code(REFUSED));
        }
    }
    if parsed.has("w") {
        let activity = if replaces { "replace" } else { "resilver" };
        wait_for(&pool, &[activity], context)?;
        wait_for_devices(&pool, context)?;
    }
    Ok(0)
}

/// `zpool detach POOL DEVICE`
pub fn detach(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, device) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing <device> specification"),
        [pool, device] => (pool.clone(), device.clone()),
        _ => return usage("too many arguments"),
    };
    if let Err(text) = require_pool(&pool, context) {
        context.complain(&text);
        return Err(Stop::Code(1));
    }
    let what = format!("cannot detach {device}");
    let change = DeviceChange::Detach { pool, device };
    match ask(change, context) {
        Ok(_) => Ok(0),
        Err(error) => {
            context.complain(&with_context(&what, &error));
            Err(Stop::Code(REFUSED))
        }
    }
}

/// `zpool reopen [-n] POOL…`: `-n` does not restart a scrub, which is always so here.
pub fn reopen(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    // The option has no further effect, because this is the only behaviour.
    let _leaves_scrub_alone = parsed.has("n");
    if parsed.operands.is_empty() {
        return usage("missing pool name argument");
    }
    let mut code = 0;
    for pool in &parsed.operands {
        if let Err(text) = require_pool(pool, context) {
            context.complain(&text);
            code = 1;
            continue;
        }
        let change = DeviceChange::Reopen { pool: pool.clone() };
        if let Err(error) = ask(change, context) {
            context.complain(&with_context(&format!("cannot reopen '{pool}'"), &error));
            code = 1;
        }
    }
    Ok(code)
}
