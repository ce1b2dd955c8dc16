//! `zfs mount` and `zfs unmount`.

use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, MountEntry, MountOptions,
    PropertySelection, Request, Response,
};

use super::keys;
use super::select::{reason, resolve};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};
use cenote_words::format::json::{Object, document};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};

/// `zfs mount`.
pub fn mount(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let many = parsed.has("a") || parsed.has("R");
    if !many && parsed.operands.is_empty() {
        parsed.only(&["j"])?;
        return list(parsed.has("j"), context);
    }
    parsed.only(&["a", "R", "f", "o", "l", "v", "O"])?;
    let options = MountOptions {
        options: parsed
            .all("o")
            .flat_map(|o| o.split(','))
            .map(str::to_owned)
            .collect(),
        overlay: parsed.has("O"),
        force: parsed.has("f"),
    };
    let is_told = parsed.has("v");
    let before = match is_told {
        true => mounts(context).unwrap_or_default(),
        false => Vec::new(),
    };
    let ended = match (many, parsed.operands.as_slice()) {
        (true, _) => mount_many(&parsed, options, context),
        (false, [name]) => mount_one(name, parsed.has("l"), options, context),
        (false, _) => usage("too many arguments"),
    };
    if is_told {
        for mount in mounts(context).unwrap_or_default() {
            if !before.contains(&mount) {
                context.line(&format!(
                    "mounted {} at {}",
                    mount.dataset, mount.mountpoint
                ));
            }
        }
    }
    ended
}

fn mounts(context: &mut Context) -> Result<Vec<MountEntry>, ControlError> {
    match context.ask(Request::MountList)? {
        Response::Mounts { mounts } => Ok(mounts),
        _ => Err(mismatch()),
    }
}

fn list(as_json: bool, context: &mut Context) -> Outcome {
    let mounts = match mounts(context) {
        Ok(mounts) => mounts,
        Err(error) => return failed(with_context("cannot list mounts", &error)),
    };
    let mut all = Object::new();
    for mount in mounts.iter().filter(|mount| !mount.dataset.contains('@')) {
        if as_json {
            let mut entry = Object::new();
            entry.put("filesystem", mount.dataset.as_str());
            entry.put("mountpoint", mount.mountpoint.as_str());
            all.put(&mount.dataset, entry);
        } else {
            context.line(&format!("{:<30}  {}", mount.dataset, mount.mountpoint));
        }
    }
    if as_json && !all.is_empty() {
        context.line(&document("zfs mount", "datasets", all).to_string());
    }
    Ok(0)
}

fn mount_many(parsed: &Parsed, options: MountOptions, context: &mut Context) -> Outcome {
    let mut roots = Vec::new();
    match (parsed.has("R"), parsed.operands.as_slice()) {
        (false, []) => {}
        (false, _) => return usage("too many arguments"),
        (true, []) => return usage("Missing dataset argument"),
        (true, names) => {
            for name in names {
                match resolve(name, KindSet::HEADS, false, context) {
                    Ok(name) => roots.push(name),
                    Err(message) => return failed(message),
                }
            }
        }
    }
    let mut code = match parsed.has("l") {
        true => keys::load_all(&roots, context),
        false => 0,
    };
    if roots.is_empty() {
        return mount_below(None, options, context).map(|failed| code.max(failed));
    }
    for root in roots {
        code = code.max(mount_below(Some(root), options.clone(), context)?);
    }
    Ok(code)
}

/// Mounts a dataset and all below it, or all datasets.
fn mount_below(below: Option<String>, options: MountOptions, context: &mut Context) -> Outcome {
    let mut code = 0;
    let request = Request::MountAll {
        below: below.clone(),
        options,
    };
    match context.ask(request) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&refusal("mount", name, error));
                code = 1;
            }
            Ok(code)
        }
        Ok(_) => Ok(code),
        Err(error @ ControlError::NoSuchDataset { .. }) => {
            failed(cannot_open(&below.unwrap_or_default(), &error))
        }
        Err(error) => failed(with_context("cannot mount", &error)),
    }
}

fn mount_one(name: &str, load_key: bool, options: MountOptions, context: &mut Context) -> Outcome {
    let dataset = match resolve(name, KindSet::HEADS, false, context) {
        Ok(name) => name,
        Err(message) => return failed(message),
    };
    if load_key {
        let code = keys::load_for(&dataset, context);
        if code != 0 {
            return Ok(code);
        }
    }
    let request = Request::Mount {
        dataset: dataset.clone(),
        at: None,
        options,
    };
    match context.ask(request) {
        Ok(_) => Ok(0),
        Err(error @ (ControlError::NoSuchDataset { .. } | ControlError::WrongKind { .. })) => {
            failed(cannot_open(name, &error))
        }
        Err(error) => failed(refusal("mount", name, &error)),
    }
}

/// Why something cannot be mounted or unmounted. If a directory is the cause, the message names it.
fn refusal(verb: &str, name: &str, error: &ControlError) -> String {
    let what = match error {
        ControlError::DirectoryNotEmpty { path } | ControlError::MountBusy { path } => path,
        _ => name,
    };
    with_context(&format!("cannot {verb} '{what}'"), error)
}

/// `zfs unmount`.
pub fn unmount(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let force = parsed.has("f");
    if parsed.has("a") {
        if !parsed.operands.is_empty() {
            return usage("too many arguments");
        }
        let request = Request::UnmountAll {
            force,
            unload_keys: parsed.has("u"),
        };
        return match context.ask(request) {
            Ok(Response::Failures { failures, .. }) => {
                for (name, error) in &failures {
                    context.complain(&refusal("unmount", name, error));
                }
                Ok(u8::from(!failures.is_empty()))
            }
            Ok(_) => Ok(0),
            Err(error) => failed(with_context("cannot unmount", &error)),
        };
    }
    let target = match parsed.operands.as_slice() {
        [] => return usage("missing filesystem argument"),
        [target] => target,
        _ => return usage("too many arguments"),
    };
    let unload_key = parsed.has("u");
    let resolved = if target.starts_with('/') {
        mount_point(target, context)
    } else {
        let resolved = resolve(target, KindSet::HEADS, false, context);
        resolved.map(|name| (name.clone(), name))
    };
    let (target, name) = match resolved {
        Ok(resolved) => resolved,
        Err(message) => return failed(message),
    };
    if !name.contains('@') {
        let dataset = match mountable(&name, context) {
            Ok(dataset) => dataset,
            Err(error) => return failed(cannot_open(&name, &error)),
        };
        if is_legacy(&dataset) {
            return failed(format!(
                "cannot unmount '{name}': legacy mountpoint\n\
                 use umount(8) to unmount this filesystem"
            ));
        }
    }
    let request = Request::Unmount {
        target: target.clone(),
        force,
        unload_key,
    };
    match context.ask(request) {
        Ok(_) => Ok(0),
        Err(error @ ControlError::NoSuchDataset { .. }) => failed(cannot_open(&target, &error)),
        Err(error) => failed(refusal("unmount", &target, &error)),
    }
}

/// Finds the file system or snapshot of this name.
///
/// # Errors
/// [`ControlError::NoSuchDataset`], and [`ControlError::WrongKind`] for volumes.
pub fn mountable(name: &str, context: &mut Context) -> Result<Dataset, ControlError> {
    let request = Request::DatasetList {
        roots: vec![name.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::of(DatasetKind::Filesystem).union(KindSet::of(DatasetKind::Snapshot)),
        properties: PropertySelection::Named(vec!["mountpoint".to_owned()]),
    };
    let listing = context.ask_datasets(request)?;
    if let Some((_, error)) = listing.failures.into_iter().next() {
        return Err(error);
    }
    listing
        .rows
        .into_iter()
        .next()
        .ok_or(ControlError::WrongKind {
            dataset: name.to_owned(),
        })
}

/// Whether only mount(8) and umount(8) mount and unmount it.
pub fn is_legacy(dataset: &Dataset) -> bool {
    let place = dataset.property("mountpoint");
    place.and_then(|place| place.value.text()) == Some("legacy")
}

/// The mount point at a path and its dataset, or why it is none.
fn mount_point(path: &str, context: &mut Context) -> Result<(String, String), String> {
    let real = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Err(format!("cannot open '{path}': {}", reason(&error))),
    };
    let mounts = match mounts(context) {
        Ok(mounts) => mounts,
        Err(error) => return Err(with_context(&format!("cannot unmount '{path}'"), &error)),
    };
    let is_here = |mount: &&MountEntry| real == std::path::Path::new(&mount.mountpoint);
    if let Some(mount) = mounts.iter().rfind(is_here) {
        let real = real.to_string_lossy().into_owned();
        return Ok((real, mount.dataset.clone()));
    }
    let inside = mounts
        .iter()
        .any(|mount| real.starts_with(&mount.mountpoint));
    let why = if inside {
        "not a mountpoint"
    } else {
        "not a ZFS filesystem"
    };
    Err(format!("cannot unmount '{path}': {why}"))
}
