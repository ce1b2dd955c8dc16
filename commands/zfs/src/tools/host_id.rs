//! `zgenhostid`: gives this machine a number, by which a pool knows which machine had it last.

use cenote_base::{Env, RealEnv};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};
use std::fs::{File, rename};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// The command.
pub const COMMAND: Command = Command {
    name: "zgenhostid",
    summary: "Give this machine a host id, by which pools know it",
    synopsis: "[-f] [-o FILE] [HOSTID]",
    about: "HOSTID has at most 8 hexadecimal digits, and may begin with 0x. It must be unique\n\
            among your machines. Without it, and if it is 0, a random number is taken.",
    flags: flags! {
        'f' "force" _ "replace a host id that is there";
        'o' "output" "FILE" "write to FILE; default: /etc/hostid";
    },
    run: Run::Asking(run),
};

const PLACE: &str = "/etc/hostid";

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let given = match arguments.operands.as_slice() {
        [] => None,
        [word] => match parsed(&word.to_string_lossy()) {
            Some(id) => Some(id),
            None => return usage("a host id has at most 8 hexadecimal digits"),
        },
        _ => return usage("too many arguments"),
    };
    let id = match given.filter(|id| *id != 0).map_or_else(random, Ok) {
        Ok(id) => id,
        Err(error) => return failed(format!("cannot get a random number: {error}")),
    };
    let place = context
        .directory
        .join(arguments.last("output").unwrap_or(PLACE.as_ref()));
    match write(&place, id, arguments.has("force")) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => failed(format!(
            "{} is there already; -f replaces it",
            place.display()
        )),
        Err(error) => failed(format!("cannot write {}: {error}", place.display())),
    }
}

fn parsed(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let digits = digits.unwrap_or(word);
    let is_hex = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

fn random() -> io::Result<u32> {
    let mut bytes = [0; 4];
    loop {
        RealEnv::new().fill_random(&mut bytes)?;
        match u32::from_le_bytes(bytes) {
            0 => {}
            id => return Ok(id),
        }
    }
}

/// Writes the file whole or not at all: half an id would be another machine's.
fn write(place: &Path, id: u32, replaces: bool) -> io::Result<()> {
    if !replaces {
        let mut file = File::create_new(place)?;
        file.write_all(&id.to_le_bytes())?;
        return file.sync_all();
    }
    let mut name = place.as_os_str().to_owned();
    name.push(".new");
    let mut file = File::create(&name)?;
    file.write_all(&id.to_le_bytes())?;
    file.sync_all()?;
    rename(&name, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_are_not_replaced_unasked() {
        assert_eq!(parsed("deadbeef"), Some(0xdead_beef));
        assert_eq!(parsed("0x01234567"), Some(0x0123_4567));
        for wrong in ["", "0x", "123456789", "0x123456789", "xyz", "-1", "+1"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("hostid");
        write(&place, 0xdead_beef, false).expect("new");
        let error = write(&place, 1, false).expect_err("there is one");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let read = || std::fs::read(&place).expect("readable");
        assert_eq!(read(), [0xef, 0xbe, 0xad, 0xde]);
        write(&place, random().expect("random"), true).expect("replaced");
        assert_ne!(read(), [0xef, 0xbe, 0xad, 0xde]);
    }
}
