//! What goes wrong inside of a mount: readers that are killed, requests that block, fail or panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{mount, mount_with, small_tree, unmount, wait_for};
use cenote_fuse::{
    Attr, Context, DirectoryReply, Errno, FileSystem, FileSystemStatus, Handle, Lifetime, Lookup,
    MemoryTree, MountOptions, NodeId, Payload, SeekTarget,
};
use std::fs::{self, File};
use std::io::Read;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What [`Troubled`] does when `file` is read.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// Waits until the reader is signalled, or until released.
    Wait,
    /// As with a missing device: the waiting thread does not check for interrupts.
    Stuck,
    Panic,
    Fail,
}

/// A tree whose reads go wrong.
struct Troubled {
    tree: MemoryTree,
    trouble: Trouble,
    waiting: Arc<AtomicUsize>,
    interrupted: Arc<AtomicUsize>,
    released: Arc<AtomicBool>,
}

impl Troubled {
    fn new(trouble: Trouble) -> Self {
        Troubled {
            tree: small_tree(),
            trouble,
            waiting: Arc::default(),
            interrupted: Arc::default(),
            released: Arc::default(),
        }
    }
}

impl FileSystem for Troubled {
    fn lookup(&self, context: &Context<'_>, at: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        self.tree.lookup(context, at, name)
    }

    fn getattr(&self, context: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        self.tree.getattr(context, node)
    }

    fn readlink(&self, _: &Context<'_>, _: NodeId, _: &mut Payload) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn read(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        offset: u64,
        size: usize,
        data: &mut Payload,
    ) -> Result<(), Errno> {
        match self.trouble {
            Trouble::Panic => panic!("a bug, on purpose"),
            Trouble::Fail => return Err(Errno::IO),
            Trouble::Wait | Trouble::Stuck => {}
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.released.load(Ordering::SeqCst) {
            if matches!(self.trouble, Trouble::Wait) && context.interrupt.is_raised() {
                self.interrupted.fetch_add(1, Ordering::SeqCst);
                return Err(Errno::INTR);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.tree.read(context, node, handle, offset, size, data)
    }

    fn seek(
        &self,
        _: &Context<'_>,
        _: NodeId,
        _: Handle,
        _: u64,
        _: SeekTarget,
    ) -> Result<u64, Errno> {
        Err(Errno::NXIO)
    }

    fn readdir(
        &self,
        context: &Context<'_>,
        node: NodeId,
        handle: Handle,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        self.tree.readdir(context, node, handle, cookie, reply)
    }

    fn statfs(&self, context: &Context<'_>, node: NodeId) -> Result<FileSystemStatus, Errno> {
        self.tree.statfs(context, node)
    }
}

#[test]
fn a_waiting_reader_can_be_killed() {
    let troubled = Troubled::new(Trouble::Wait);
    let (waiting, interrupted) = (troubled.waiting.clone(), troubled.interrupted.clone());
    let Some(mounted) = mount(troubled) else {
        return;
    };
    let mut reader = Command::new("cat")
        .arg(mounted.path("file"))
        .spawn()
        .unwrap();
    wait_for("the read arrives", || waiting.load(Ordering::SeqCst) == 1);
    reader.kill().unwrap();
    reader.wait().unwrap();
    wait_for("the interrupt arrives", || {
        interrupted.load(Ordering::SeqCst) == 1
    });
    assert_eq!(mounted.mount.metrics().channel_errors.get(), 0);
    unmount(&mounted.mount);
}

/// Requests wait for missing devices in many places, none of which checks for interrupts.
#[test]
fn a_reader_can_be_killed_though_its_request_goes_on() {
    let troubled = Troubled::new(Trouble::Stuck);
    let (waiting, released) = (troubled.waiting.clone(), troubled.released.clone());
    let Some(mounted) = mount(troubled) else {
        return;
    };
    let mut reader = Command::new("cat")
        .arg(mounted.path("file"))
        .spawn()
        .unwrap();
    wait_for("the read arrives", || waiting.load(Ordering::SeqCst) == 1);
    reader.kill().unwrap();
    wait_for("the reader ends", || reader.try_wait().unwrap().is_some());
    assert!(!released.load(Ordering::SeqCst), "the request continues");
    released.store(true, Ordering::SeqCst);
    // The late answer is not sent, and the connection still works.
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"hello");
    assert_eq!(mounted.mount.metrics().channel_errors.get(), 0);
    unmount(&mounted.mount);
}

/// A single caller's requests are received by one worker; when that one is blocked, others wait
/// for requests again.
#[test]
fn a_streak_of_requests_that_ends_blocked_does_not_block_others() {
    let troubled = Troubled::new(Trouble::Wait);
    let (waiting, released) = (troubled.waiting.clone(), troubled.released.clone());
    let Some(mounted) = mount(troubled) else {
        return;
    };
    let path = mounted.path("file");
    let mut file = File::open(&path).unwrap();
    for _ in 0..500 {
        rustix::fs::fstatvfs(&file).unwrap();
    }
    std::thread::scope(|scope| {
        // The streak's own thread blocks, so that no other request ends the streak before.
        let other = scope.spawn(|| {
            wait_for("the read waits", || waiting.load(Ordering::SeqCst) == 1);
            assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 2);
            rustix::fs::statvfs(mounted.root()).unwrap();
            released.store(true, Ordering::SeqCst);
        });
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        other.join().unwrap();
    });
}

#[test]
fn blocked_requests_do_not_block_others() {
    let troubled = Troubled::new(Trouble::Wait);
    let (waiting, released) = (troubled.waiting.clone(), troubled.released.clone());
    let options = |options: &mut MountOptions| {
        options.threads_min = 2;
        options.threads_max = 12;
    };
    let Some(mounted) = mount_with(troubled, options) else {
        return;
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let path = mounted.path("file");
            scope.spawn(|| assert_eq!(fs::read(path).unwrap(), b"hello"));
        }
        wait_for("eight reads wait", || waiting.load(Ordering::SeqCst) == 8);
        assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 2);
        assert!(!mounted.path("absent").exists());
        let workers = mounted.mount.workers();
        assert!((9..=12).contains(&workers), "{workers} workers");
        released.store(true, Ordering::SeqCst);
    });
    // With nothing blocked the surplus workers leave.
    wait_for("surplus workers leave", || {
        for name in 0..2000 {
            let _ = fs::metadata(mounted.path(&format!("none-{name}")));
            let _ = rustix::fs::statvfs(mounted.root());
        }
        mounted.mount.workers() <= 4
    });
}

#[test]
fn errors_and_panics_stay_with_their_request() {
    for trouble in [Trouble::Fail, Trouble::Panic] {
        let Some(mounted) = mount(Troubled::new(trouble)) else {
            return;
        };
        for _ in 0..5 {
            let error = fs::read(mounted.path("file")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
        }
        let panics = mounted.mount.metrics().panics.get();
        assert_eq!(panics > 0, trouble == Trouble::Panic);
        assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 2);
    }
}
