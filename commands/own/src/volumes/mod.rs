//! `cenote volume` and `cenote volumes`: volumes as files, and images of them.
//!
//! The daemon has the volumes and serves them over NBD; these commands are its clients
//! ([`served`]).

mod copy;
mod image;
mod part;
mod references;
mod served;
mod size;

use crate::devices::mounted::{MountedDevices, ShownAs, show};
use cenote_control::model::{DatasetKind, Depth, KindSet, Part, PropertySelection, Request};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use served::Served;
use std::path::Path;
use std::sync::Arc;

/// The command about one volume.
pub const VOLUME: Command = Command {
    name: "volume",
    summary: "Copy a volume from or to an image file",
    synopsis: "import IMAGE POOL/VOLUME\n       cenote volume export POOL/VOLUME[@SNAPSHOT] IMAGE",
    about: "'import' makes a thin volume as large as the image, or with -f overwrites one that\n\
            is there. 'export' makes an image. Images are raw and sparse; other formats, such\n\
            as qcow2, need the program qemu-img. 'import' recognizes the format.",
    flags: flags! {
        'f' "force" _ "import: overwrite a volume that is there; export: overwrite a file";
        'o' "property" "P=V" "import: a property of the new volume";
        _ "format" "FORMAT" "the image's format, such as qcow2; raw unless said or recognized";
        'j' "json" _ "print JSON";
        'q' "quiet" _ "no progress";
    },
    run: Run::Asking(one),
};

/// The command about several.
pub const VOLUMES: Command = Command {
    name: "volumes",
    summary: "Mount volumes as files",
    synopsis: "mount [-r] DIRECTORY [POOL|VOLUME]...",
    about: "Each volume of these pools, or of all, is a file below DIRECTORY until that is\n\
            unmounted, or this command ends by Ctrl-C: for losetup and programs that want a\n\
            path. fsync of a file makes the volume durable; a punched hole gives space back.",
    flags: flags! {
        'r' "readonly" _ "only read";
    },
    run: Run::Asking(several),
};

fn one(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    let words: Option<Vec<&str>> = operands.map(|word| word.to_str()).collect();
    match words.as_deref() {
        Some(["import", image, volume]) => image::import(image, volume, arguments, context),
        Some(["export", volume, image]) => {
            arguments.only(&["force", "format", "json", "quiet"])?;
            image::export(volume, image, arguments, context)
        }
        _ => usage(""),
    }
}

fn several(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    let words: Option<Vec<&str>> = operands.map(|word| word.to_str()).collect();
    match words.as_deref() {
        Some(["mount", directory, roots @ ..]) => mount(directory, roots, arguments, context),
        _ => usage(""),
    }
}

/// Names of volumes at and below some datasets.
fn volumes_of(roots: &[&str], context: &mut Context) -> Result<Vec<String>, Stop> {
    let mut names = Vec::new();
    let request = Request::DatasetList {
        roots: roots.iter().map(|&root| root.to_owned()).collect(),
        depth: Depth::All,
        kinds: KindSet::of(DatasetKind::Volume),
        properties: PropertySelection::Named(Vec::new()),
    };
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Datasets(rows) = part {
            names.extend(rows.into_iter().map(|row| row.name));
        }
    });
    let failure = match answer {
        Ok(cenote_control::model::Response::Failures { failures, .. }) => {
            failures.into_iter().next()
        }
        Ok(_) => None,
        Err(error) => return failed(error.to_string()),
    };
    names.sort();
    match failure {
        Some((name, error)) => failed(format!("{name}: {error}")),
        None => Ok(names),
    }
}

fn mount(directory: &str, roots: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let names = volumes_of(roots, context)?;
    if names.is_empty() {
        return failed("there are no volumes; 'zfs create -V SIZE POOL/NAME' makes one");
    }
    let is_read_only = arguments.has("readonly");
    let served = Served::begin(&names, is_read_only, context)?;
    let directory = context.place(Path::new(directory));
    let place = |name: &String| format!("{name} is {}", directory.join(name).display());
    let announced: Vec<String> = names.iter().map(place).collect();
    let how = MountedDevices {
        source: "cenote-volumes",
        directory: &directory,
        is_read_only,
        announced: &announced,
    };
    let devices = served
        .devices
        .iter()
        .map(|(name, device)| (name.clone(), ShownAs::Network(Arc::clone(device))));
    let shown = show(devices.collect(), &how, context);
    shown.and(served.end(context))
}
