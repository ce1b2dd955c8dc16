//! `cenote device export`: shows a device to other programs as a file.

mod device_files;
pub mod mounted;
pub mod shown;

use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};
use mounted::{MountedDevices, ShownAs, show};
use shown::Shown;
use std::path::Path;
use std::sync::Arc;

/// The file's name.
const NAME: &str = "disk";

/// The command.
pub const COMMAND: Command = Command {
    name: "device",
    summary: "Show a device, one in an object store too, to other programs as a file",
    synopsis: "export [-r] [-f] DEVICE DIRECTORY",
    about: "The device, a URL such as s3://bucket/prefix or a path, is the file 'disk' in\n\
            DIRECTORY until that is unmounted, or this command ends by Ctrl-C: for losetup,\n\
            qemu, or the zpool of a kernel's ZFS. What was synced is as durable as in a pool;\n\
            a device in a store is uploaded and released at the end.",
    flags: flags! {
        'r' "read-only" _ "only read, as of the newest commit; other machines are not blocked";
        'f' "force" _ "take over a device in a store that its last writer did not release";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["export", device, directory] => export(device, directory, arguments, context),
        _ => usage(""),
    }
}

fn export(name: &str, directory: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let is_read_only = arguments.has("read-only");
    let shown = match Shown::open(name, is_read_only, arguments.has("force")) {
        Ok(shown) => shown,
        Err(reason) => return failed(reason),
    };
    let device = ShownAs::Device(Arc::clone(&shown.device));
    let device = (NAME.to_owned(), device);
    let how = MountedDevices {
        source: name,
        directory: Path::new(directory),
        is_read_only: !shown.device.is_writable(),
        announced: &[format!("{name} is {directory}/{NAME}")],
    };
    let mounted = show(vec![device], &how, context);
    mounted.and(shown.close())
}
