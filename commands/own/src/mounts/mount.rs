//! `cenote mount`.

use std::ffi::OsStr;
use std::path::Path;

use cenote_control::model::{
    ControlError, ImportOptions, ImportPick, MountOptions, PropertySelection, Request, Response,
    Rewind, Search,
};

use crate::reading::spec::Spec;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::texts::{cannot_import, check_name};

/// The command.
pub const COMMAND: Command = Command {
    name: "mount",
    summary: "Mount a dataset or snapshot anywhere",
    synopsis: "DATASET[@SNAPSHOT] DIRECTORY",
    about: "Whatever the dataset's mountpoint property says. With -d the pool is imported\n\
            read-only first, without mounting anything else.",
    flags: flags! {
        'o' "options" "LIST" "mount options, separated by commas";
        'O' "overlay" _ "mount over a directory that is not empty";
        'f' "force" _ "import although another system may use the pool";
        'd' "device" "PATH" "look for the pool in this file, device or directory (may be repeated)";
        _ "offset" "BYTES" "the pool begins so far into each file or device";
        'k' "key" "DATASET=LOCATION" "an encryption key: 'prompt', 'stdin' or file:///PATH \
            (may be repeated)";
        _ "txg" "NUMBER" "open the pool as of this transaction group";
        _ "replay" _ "replay the intent log in memory first";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let [dataset, directory] = arguments.operands.as_slice() else {
        return usage("");
    };
    let spec = match Spec::parse(dataset) {
        Ok(spec) => spec,
        Err(error) => return failed(error.to_string()),
    };
    let name = spec.dataset.as_str();
    if let Err(fault) = check_name(name, true, false) {
        return failed(format!("'{name}': {fault}"));
    }
    if spec.path.as_ref().is_some_and(|path| path != b"/") {
        return usage("a dataset is mounted as a whole; leave ':/PATH' out");
    }
    let keys = keys(arguments)?;
    let import = wanted_import(spec.pool(), arguments, context)?;
    if !is_imported(spec.pool(), context)? {
        ask_import(spec.pool(), import, context)?;
    }
    for (dataset, location) in keys {
        load_key(dataset, location, context)?;
    }
    let at = context.directory.join(Path::new(directory));
    let options = arguments.last("options").and_then(|list| list.to_str());
    let options = options.map_or(Vec::new(), |list| {
        list.split(',').map(str::to_owned).collect()
    });
    let request = Request::Mount {
        dataset: name.to_owned(),
        at: Some(at.to_string_lossy().into_owned()),
        options: MountOptions {
            options,
            overlay: arguments.has("overlay"),
            force: arguments.has("force"),
        },
    };
    match context.ask(request) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot mount '{name}': {error}")),
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

/// The request to import the pool, if it is not imported yet.
fn wanted_import(pool: &str, arguments: &Arguments, context: &Context) -> Result<Request, Stop> {
    let absolute = |path| {
        context
            .place(Path::new(path))
            .to_string_lossy()
            .into_owned()
    };
    let search = Search {
        paths: arguments.all("device").map(absolute).collect(),
        offset: arguments.size("offset")?.unwrap_or(0),
        ..Search::default()
    };
    let options = ImportOptions {
        readonly: true,
        no_mount: true,
        force: arguments.has("force"),
        rewind: arguments.number("txg")?.map_or(Rewind::Never, Rewind::Txg),
        replay_in_memory: arguments.has("replay"),
        ..ImportOptions::default()
    };
    Ok(Request::Import {
        search,
        pick: ImportPick::Name(pool.to_owned()),
        options,
    })
}

fn ask_import(pool: &str, request: Request, context: &mut Context) -> Result<(), Stop> {
    let error = match context.ask(request) {
        Ok(Response::Imported { pools, .. }) if !pools.is_empty() => return Ok(()),
        Ok(Response::Imported { failures, .. }) => match failures.into_iter().next() {
            Some((_, error)) => error,
            None => ControlError::NoSuchCandidate {
                pool: pool.to_owned(),
            },
        },
        Ok(_) => cenote_words::context::mismatch(),
        Err(error) => error,
    };
    failed(cannot_import(pool, &error, &context.zone))
}

/// The datasets with their keys' locations.
fn keys(arguments: &Arguments) -> Result<Vec<(&str, &str)>, Stop> {
    let words = arguments.all("key").map(OsStr::to_str);
    let pairs = words.map(|word| word.and_then(|word| word.split_once('=')));
    let pairs: Option<Vec<(&str, &str)>> = pairs.collect();
    pairs.map_or_else(|| usage("--key: must be DATASET=LOCATION"), Ok)
}

fn load_key(dataset: &str, location: &str, context: &mut Context) -> Result<(), Stop> {
    let key = match cenote_zfs_commands::zfs::read_key(dataset, location, context) {
        Ok(key) => key,
        Err(message) => return failed(message),
    };
    let request = Request::LoadKey {
        dataset: dataset.to_owned(),
        key,
        dry_run: false,
    };
    match context.ask(request) {
        Ok(_) | Err(ControlError::KeyLoaded { .. }) => Ok(()),
        Err(error) => failed(format!("cannot load the key of '{dataset}': {error}")),
    }
}
