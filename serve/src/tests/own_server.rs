//! The daemon's own server of volumes, while values change.

use super::approvals::waiting;
use super::local_disks::Machine;
use super::pools::ask;
use cenote_control::model::{NbdAct, Request, Response};
use std::os::unix::net::UnixStream;
use std::thread;

/// What the own server exports.
fn exports(machine: &Machine) -> Vec<String> {
    let act = NbdAct::Status;
    let (response, _) = ask(&machine.engine, Request::Nbd { act }).expect("a status");
    let Response::Nbd { servers } = response else {
        panic!("{response:?}");
    };
    let running = servers.iter().filter(|server| !server.is_ending);
    let mut names = Vec::new();
    for server in running {
        assert_eq!(server.failure, None);
        names.extend(server.exports.iter().map(|export| export.name.clone()));
    }
    names
}

/// Regression: a command that turned the property off for the only volume ended the server after
/// another command, which had turned it on for a second volume, had found it running. Or the second
/// command started the server while its socket was still in use.
#[test]
fn the_server_runs_while_the_property_is_on_anywhere() {
    let machine = Machine::new();
    let socket = machine.directory.path().join("nbd");
    for name in ["heads/a", "heads/b"] {
        machine.volume(name, &[]);
    }
    machine.set("heads/a", "cenote:nbd", "on");
    let (mut on, mut off) = ("heads/a", "heads/b");
    for round in 0..20 {
        assert_eq!(exports(&machine), [on], "round {round}");
        UnixStream::connect(&socket).expect("it listens");
        let set = |name: &str, value: &str| {
            machine.set(name, "cenote:nbd", value);
            // Regression: what the other command was setting seemed to come from elsewhere.
            let waiting = waiting(&machine);
            assert!(waiting.is_empty(), "round {round}: {waiting:?}");
        };
        thread::scope(|scope| {
            scope.spawn(|| set(on, "off"));
            scope.spawn(|| set(off, "on"));
        });
        (on, off) = (off, on);
    }
    machine.set(on, "cenote:nbd", "off");
    assert!(exports(&machine).is_empty());
    assert!(UnixStream::connect(&socket).is_err());
}
