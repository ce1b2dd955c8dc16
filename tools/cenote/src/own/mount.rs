//! `cenote mount`.

use std::path::{Path, PathBuf};

use cenote_control::model::{
    ControlError, ImportOptions, ImportPick, MountOptions, PropertySelection, Request, Response,
    Rewind, Search,
};

use super::Command;
use super::arguments::{Arguments, KeySource, flag, option};
use super::spec::Spec;
use crate::context::{Context, Outcome, Stop, failed, usage};
use crate::texts::cannot_import;

/// The command.
pub const COMMAND: Command = Command {
    name: "mount",
    summary: "Mount a dataset or snapshot anywhere",
    synopsis: "DATASET[@SNAPSHOT] DIRECTORY",
    about: "Whatever the dataset's mountpoint property says. With -d the pool is imported\n\
            read-only first, without mounting anything else.",
    flags: &[
        option(
            Some('o'),
            "options",
            "LIST",
            "mount options, separated by commas",
        ),
        flag(
            Some('O'),
            "overlay",
            "mount over a directory that is not empty",
        ),
        flag(
            Some('f'),
            "force",
            "import although another system may use the pool",
        ),
    ],
    opens_pools: true,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [dataset, directory] = arguments.operands.as_slice() else {
        return usage("");
    };
    let spec = match Spec::parse(dataset) {
        Ok(spec) => spec,
        Err(error) => return failed(error.to_string()),
    };
    if !is_imported(spec.pool(), context)? {
        import(spec.pool(), arguments, context)?;
    }
    for source in &arguments.keys {
        load_key(source, context)?;
    }
    let at = context.directory.join(Path::new(directory));
    let options = arguments.last("options").and_then(|list| list.to_str());
    let options = options.map_or(Vec::new(), |list| {
        list.split(',').map(str::to_owned).collect()
    });
    let request = Request::Mount {
        dataset: spec.full_name(),
        at: Some(at.to_string_lossy().into_owned()),
        options: MountOptions {
            options,
            overlay: arguments.has("overlay"),
            force: arguments.has("force"),
        },
    };
    match context.ask(request) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot mount '{}': {error}", spec.full_name())),
    }
}

fn is_imported(pool: &str, context: &mut Context) -> Result<bool, Stop> {
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => Ok(!pools.is_empty()),
        Ok(_) => Ok(false),
        Err(error) => failed(error.to_string()),
    }
}

fn import(pool: &str, arguments: &Arguments, context: &mut Context) -> Result<(), Stop> {
    let absolute = |path: &PathBuf| context.place(path).to_string_lossy().into_owned();
    let search = Search {
        paths: arguments.devices.iter().map(absolute).collect(),
        offset: arguments.offset,
        ..Search::default()
    };
    let options = ImportOptions {
        readonly: true,
        no_mount: true,
        force: arguments.has("force"),
        rewind: arguments.txg.map_or(Rewind::Never, Rewind::Txg),
        replay_in_memory: arguments.has("replay"),
        ..ImportOptions::default()
    };
    let request = Request::Import {
        search,
        pick: ImportPick::Name(pool.to_owned()),
        options,
    };
    let error = match context.ask(request) {
        Ok(Response::Imported { pools, .. }) if !pools.is_empty() => return Ok(()),
        Ok(Response::Imported { failures, .. }) => match failures.into_iter().next() {
            Some((_, error)) => error,
            None => ControlError::NoSuchCandidate {
                pool: pool.to_owned(),
            },
        },
        Ok(_) => crate::context::mismatch(),
        Err(error) => error,
    };
    failed(cannot_import(pool, &error, &context.zone))
}

fn load_key(source: &KeySource, context: &mut Context) -> Result<(), Stop> {
    let (dataset, location) = (&source.dataset, source.location.as_str());
    let key = match crate::zfs::read_key(dataset, location, context) {
        Ok(key) => key,
        Err(message) => return failed(message),
    };
    let request = Request::LoadKey {
        dataset: dataset.clone(),
        key,
        dry_run: false,
    };
    match context.ask(request) {
        Ok(_) | Err(ControlError::KeyLoaded { .. }) => Ok(()),
        Err(error) => failed(format!("cannot load the key of '{dataset}': {error}")),
    }
}
