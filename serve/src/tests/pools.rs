//! An engine with a pool, to publish from.

use cenote_base::RealEnv;
use cenote_control::model::{
    Change, ControlError, NewDataset, NewPool, NewVdev, NewVdevKind, NewVdevRole, Part, Request,
    Response,
};
use cenote_control::protocol::{Peer, Reply, Service};
use cenote_engine::{Engine, EngineSettings, NoMounter};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Keeps the parts of an answer.
#[derive(Default)]
struct Collected(Vec<Part>);

impl Reply for Collected {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        self.0.push(part);
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

pub(super) fn ask(
    engine: &Engine,
    request: Request,
) -> Result<(Response, Vec<Part>), ControlError> {
    let mut reply = Collected::default();
    let peer = Peer {
        uid: 0,
        gid: 0,
        pid: 1,
    };
    let response = engine.handle(request, peer, &mut reply)?;
    Ok((response, reply.0))
}

/// Makes a change. This engine cannot mount: mounts fail, and everything else succeeds.
pub(super) fn change(engine: &Engine, change: Change) {
    let command = "a test".to_owned();
    let done = ask(engine, Request::Change { change, command });
    done.expect("done");
}

/// An engine that publishes nothing by itself, with the pool of [`pool_of`].
pub(super) fn pool(directory: &Path) -> Engine {
    let env = Arc::new(RealEnv::new());
    let engine = Engine::new(Box::new(NoMounter), EngineSettings::default(), env);
    pool_of(&engine, directory);
    engine
}

/// Makes the pool `heads` with the file system `heads/one`.
pub(super) fn pool_of(engine: &Engine, directory: &Path) {
    let device = directory.join("device");
    let file = std::fs::File::create(&device).expect("a file");
    file.set_len(128 << 20).expect("sparse");
    let pool = NewPool {
        name: "heads".to_owned(),
        vdevs: vec![NewVdev {
            role: NewVdevRole::Normal,
            kind: NewVdevKind::Disk,
            devices: vec![device.to_string_lossy().into_owned()],
        }],
        dataset_properties: vec![("mountpoint".to_owned(), "none".to_owned())],
        ..NewPool::default()
    };
    change(engine, Change::CreatePool(Box::new(pool)));
    let dataset = NewDataset {
        name: "heads/one".to_owned(),
        unmounted: true,
        ..NewDataset::default()
    };
    change(engine, Change::CreateDataset(Box::new(dataset)));
}
