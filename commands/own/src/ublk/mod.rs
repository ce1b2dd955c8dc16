//! `cenote ublk`: volumes as block devices of this machine.

mod status;

use cenote_control::model::{Request, Response, UblkAct, UblkDisk};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "ublk",
    summary: "Volumes as disks of this machine (/dev/zvol/POOL/VOLUME)",
    synopsis: "serve [-r] POOL/VOLUME[@SNAPSHOT]... | status |\n       \
               cenote ublk stop [-f] [POOL/VOLUME[@SNAPSHOT]|/dev/ublkbN]...",
    about: "'serve' makes block devices of volumes, with the kernel's driver ublk_drv (Linux 6.5\n\
            or newer), and prints their paths: /dev/zvol/POOL/VOLUME is a link to /dev/ublkbN.\n\
            It returns when they can be opened. Snapshots are read-only.\n\
            Volumes with 'zfs set cenote:ublk=on' have a disk while their pool is imported, and\n\
            their snapshots where snapdev is 'visible'.\n\
            'stop' ends what 'serve' began; without operands all of that. It also removes disks\n\
            of a daemon that died, if no daemon is to take them over.\n\
            The disks outlive the daemon: after a crash, 'cenote daemon resume' takes them over.",
    flags: flags! {
        'r' "readonly" _ "serve: the disks can only be read";
        'f' "force" _ "stop: although they are mounted or open; further requests to them fail";
        'j' "json" _ "status: print JSON";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // Operands that are not UTF-8 do not name a volume.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["serve"] => usage("which volumes?"),
        ["serve", volumes @ ..] => {
            arguments.only(&["readonly"])?;
            serve(volumes, arguments, context)
        }
        ["status"] => {
            arguments.only(&["json"])?;
            status::run(arguments, context)
        }
        ["stop", targets @ ..] => {
            arguments.only(&["force"])?;
            stop(targets, arguments, context)
        }
        _ => usage(""),
    }
}

fn serve(volumes: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = UblkAct::Serve {
        volumes: volumes.iter().map(|&name| name.to_owned()).collect(),
        read_only: arguments.has("readonly"),
    };
    let status = match context.ask(Request::Ublk { act }) {
        Ok(Response::Ublk { status }) => status,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => return failed(format!("cannot serve '{}': {error}", volumes.join(" "))),
    };
    let mut code = 0;
    for volume in volumes {
        let disk = status.disks.iter().find(|disk| disk.dataset == **volume);
        code = code.max(disk.map_or(1, |disk| print(disk, context)));
    }
    for failure in &status.failures {
        context.complain(&format!(
            "cenote ublk: {}: {}",
            failure.dataset, failure.reason
        ));
    }
    Ok(code)
}

/// Prints the path of a block device.
fn print(disk: &UblkDisk, context: &mut Context) -> u8 {
    match &disk.link {
        Some(link) => {
            context.line(&format!("{link} -> {}", disk.device));
            0
        }
        None => {
            context.line(&disk.device);
            1
        }
    }
}

fn stop(targets: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = UblkAct::Stop {
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        force: arguments.has("force"),
    };
    match context.ask(Request::Ublk { act }) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot stop: {error}")),
    }
}
