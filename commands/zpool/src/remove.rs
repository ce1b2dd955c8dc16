//! `zpool remove`.

use super::devices::tell_failures;
use super::writes::require_pool;
use cenote_control::model::{Change, DeviceChange, Request, Response};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};
use cenote_words::format::number::nicenum;
use cenote_words::program::CommandLine;
use cenote_words::texts::with_context;

/// `zpool remove [-npw] POOL DEVICE…`, `zpool remove -s POOL`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let stops = parsed.has("s");
    let (pool, devices) = match parsed.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] if !stops => return usage("missing device"),
        [pool, devices @ ..] => (pool.clone(), devices.to_vec()),
    };
    if stops && !devices.is_empty() {
        return usage("too many arguments");
    }
    // -w needs no wait: the removal is complete when the daemon answers.
    let (dry_run, waits) = (parsed.has("n"), parsed.has("w"));
    if stops && (dry_run || waits) {
        return usage("-s cannot be combined with -n or -w");
    }
    if parsed.has("p") && !dry_run {
        return usage("-p only valid with -n");
    }
    if let Err(text) = require_pool(&pool, context) {
        return failed(text);
    }
    if stops {
        return failed(format!(
            "cannot cancel removal in '{pool}': no removal is in progress. Log, spare and cache \
             devices are removed at once"
        ));
    }
    let change = Change::Devices(DeviceChange::Remove {
        pool: pool.clone(),
        devices: devices.clone(),
        dry_run,
    });
    let command = context.command.clone();
    let failures = match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => failures,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => {
            let what = format!("cannot remove from '{pool}'");
            return failed(with_context(&what, &error));
        }
    };
    if dry_run {
        let has_failed = |device: &&String| failures.iter().any(|(failed, _)| failed == *device);
        for device in devices.iter().filter(|device| !has_failed(device)) {
            // Only data vdevs leave an indirect mapping, which needs memory.
            let memory = if parsed.has("p") {
                "0".to_owned()
            } else {
                nicenum(0)
            };
            let text = format!("Memory that will be used after removing {device}: {memory}");
            context.line(&text);
        }
    }
    tell_failures("remove", &failures, context)
}
