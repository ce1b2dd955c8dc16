//! What the server says, byte by byte.

use crate::common::{Site, wait_until};
use crate::raw::{Raw, facts, request};
use cenote_nbd::protocol::handshake::{ContextQuery, Info, InfoQuery};
use cenote_nbd::protocol::reply::{ReplyStyle, decode_error};
use cenote_nbd::protocol::request::Request;
use cenote_nbd::protocol::{
    BASE_ALLOCATION, ErrorCode, answer, chunk, command, command_flag, export_flag, info, option,
};
use cenote_nbd::{BlockDevice, Filter, Filtered, FilteredRequest, MemoryDisk};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const CHANGED: &str = "cenote:changed-since:monday";

#[test]
fn the_handshake_has_all_options() {
    let (site, _) = Site::with_disk(1 << 20);
    site.shelf
        .put("ro", Arc::new(MemoryDisk::new(4096).read_only()));
    let mut raw = Raw::greeted(&site.socket());
    let listed = raw.ask(option::LIST, &[]);
    assert_eq!(listed.len(), 3);
    assert_eq!(
        listed[0],
        (answer::SERVER, b"\0\0\0\x04diskdisk disk".to_vec())
    );
    let unknown = InfoQuery {
        name: "nothing",
        wanted: vec![],
    };
    assert_eq!(
        raw.verdict(option::INFO, &unknown.encode()),
        answer::UNKNOWN
    );
    assert_eq!(raw.verdict(4711, b"abc"), answer::UNSUPPORTED);
    assert_eq!(raw.verdict(option::STARTTLS, &[]), answer::POLICY);
    assert_eq!(raw.verdict(option::LIST, b"a"), answer::INVALID);
    assert_eq!(raw.verdict(option::INFO, b"a"), answer::INVALID);
    let query = ContextQuery {
        name: "disk",
        queries: vec![BASE_ALLOCATION],
    };
    let set = option::SET_META_CONTEXT;
    assert_eq!(raw.verdict(set, &query.encode()), answer::INVALID);
    assert_eq!(raw.verdict(option::STRUCTURED_REPLY, &[]), answer::ACK);
    assert_eq!(raw.verdict(option::STRUCTURED_REPLY, &[]), answer::INVALID);
    assert_eq!(raw.verdict(set, &query.encode()), answer::ACK);
    assert_eq!(raw.verdict(option::EXTENDED_HEADERS, &[]), answer::ACK);
    let required = answer::EXTENDED_HEADERS_REQUIRED;
    assert_eq!(raw.verdict(option::STRUCTURED_REPLY, &[]), required);

    let query = InfoQuery {
        name: "ro",
        wanted: vec![info::BLOCK_SIZE, info::DESCRIPTION, info::NAME, 99],
    };
    let answers = raw.ask(option::INFO, &query.encode());
    let found = facts(&answers);
    let Info::Export { size: 4096, flags } = found[0] else {
        panic!("{found:?}");
    };
    let wanted = export_flag::READ_ONLY | export_flag::CAN_MULTI_CONN | export_flag::SEND_DF;
    assert_eq!(flags & wanted, wanted);
    assert_eq!(
        flags & (export_flag::SEND_FLUSH | export_flag::SEND_TRIM),
        0
    );
    assert_eq!(found[1], Info::Name("ro".into()));
    assert_eq!(found[2], Info::Description("a disk in memory".into()));
    assert!(matches!(found[3], Info::BlockSize { minimum: 1, .. }));
    assert_eq!(raw.verdict(option::ABORT, &[]), answer::ACK);
    assert!(raw.is_closed());
}

#[test]
fn the_oldest_way_in_works() {
    let (site, _) = Site::with_disk(1 << 20);
    for (flags, zeros) in [(1_u32, 124), (3, 0)] {
        let mut raw = Raw::connect(&site.socket());
        raw.send(&flags.to_be_bytes());
        let option = cenote_nbd::protocol::handshake::encode_option(1, b"disk");
        raw.send(&option);
        let facts = raw.receive(10 + zeros);
        assert_eq!(facts[..8], (1_u64 << 20).to_be_bytes());
        raw.request(request(command::READ, 0, 0, 16), &[]);
        assert_eq!(raw.chunk(16).payload, [0; 16]);
    }
    let mut raw = Raw::greeted(&site.socket());
    raw.send(&cenote_nbd::protocol::handshake::encode_option(
        1, b"nothing",
    ));
    assert!(raw.is_closed());
}

#[test]
fn reads_have_holes_and_writes_are_there() {
    let (site, disk) = Site::with_disk(1 << 20);
    for style in [
        ReplyStyle::Simple,
        ReplyStyle::Structured,
        ReplyStyle::Extended,
    ] {
        disk.trim(0..1 << 20).expect("it takes trims");
        let mut raw = Raw::to(&site.socket(), "disk", style);
        let payload = match style {
            ReplyStyle::Extended => command_flag::PAYLOAD_LEN,
            _ => 0,
        };
        let flushes = disk.flushes();
        let write = request(command::WRITE, payload, (64 << 10) - 2, 4);
        raw.request(write, b"abcd");
        assert_eq!(raw.chunk(0).kind, 0, "{style:?}");
        raw.request(request(command::FLUSH, 0, 0, 0), &[]);
        assert_eq!(raw.chunk(0).kind, 0);
        assert_eq!(disk.flushes(), flushes + 1);
        let read = request(command::READ, 0, (64 << 10) - 4, 8);
        raw.request(read, &[]);
        if style == ReplyStyle::Simple {
            assert_eq!(raw.chunk(8).payload, b"\0\0abcd\0\0");
            continue;
        }
        let chunks = raw.chunks();
        assert_eq!(chunks.len(), 1);
        assert_eq!(chunks[0].kind, chunk::OFFSET_DATA);
        assert_eq!(chunks[0].payload[8..], *b"\0\0abcd\0\0");
        let read = request(command::READ, 0, 0, 1 << 20);
        raw.request(read, &[]);
        let kinds: Vec<_> = raw.chunks().iter().map(|chunk| chunk.kind).collect();
        assert_eq!(kinds, [chunk::OFFSET_DATA, chunk::OFFSET_HOLE]);
        let read = request(command::READ, command_flag::DF, 0, 1 << 20);
        raw.request(read, &[]);
        let chunks = raw.chunks();
        assert_eq!(chunks.len(), 1);
        assert_eq!(chunks[0].payload.len(), 8 + (1 << 20));
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_connection_lives() {
    let (site, disk) = Site::with_disk(1 << 20);
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Structured);
    let end = 1 << 20;
    for (request, code) in [
        (request(command::READ, 0, end, 1), ErrorCode::Invalid),
        (request(command::READ, 0, u64::MAX, 2), ErrorCode::Invalid),
        (request(command::READ, 0, 0, 0), ErrorCode::Invalid),
        (
            request(command::READ, 0, 0, u32::MAX.into()),
            ErrorCode::Invalid,
        ),
        (request(command::READ, 1 << 9, 0, 1), ErrorCode::Invalid),
        (request(command::TRIM, 0, 1, end), ErrorCode::Invalid),
        (
            request(command::WRITE_ZEROES, 0, 1, end),
            ErrorCode::NoSpace,
        ),
        (request(command::FLUSH, 0, 1, 0), ErrorCode::Invalid),
        (
            request(command::BLOCK_STATUS, 0, 0, end),
            ErrorCode::Invalid,
        ),
        (request(99, 0, 0, 0), ErrorCode::Invalid),
    ] {
        raw.request(request, &[]);
        let reply = raw.chunk(0);
        assert_eq!(reply.kind, chunk::ERROR, "{request:?}");
        let (found, text) = decode_error(&reply.payload, reply.kind).expect("an error");
        assert_eq!(found, code, "{request:?}");
        assert!(!text.is_empty());
    }
    raw.request(request(command::WRITE, 0, end - 2, 4), b"abcd");
    let reply = raw.chunk(0);
    let (found, _) = decode_error(&reply.payload, reply.kind).expect("an error");
    assert_eq!(found, ErrorCode::NoSpace);
    // What was beyond the end is there as soon as the device has grown.
    disk.resize(end + 4096);
    raw.request(request(command::WRITE, 0, end - 2, 4), b"abcd");
    assert_eq!(raw.chunk(0).kind, 0);
    raw.request(request(command::DISCONNECT, 0, 0, 0), &[]);
    assert!(raw.is_closed());
}

#[test]
fn a_read_only_export_takes_no_writes() {
    let site = Site::new();
    site.shelf
        .put("", Arc::new(MemoryDisk::new(1 << 20).read_only()));
    let mut raw = Raw::to(&site.socket(), "", ReplyStyle::Structured);
    for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let data: &[u8] = match command {
            command::WRITE => &[1; 512],
            _ => &[],
        };
        raw.request(request(command, 0, 0, 512), data);
        let reply = raw.chunk(0);
        let (code, _) = decode_error(&reply.payload, reply.kind).expect("an error");
        assert_eq!(code, ErrorCode::NotPermitted);
    }
    raw.request(request(command::READ, 0, 0, 512), &[]);
    assert_eq!(raw.chunks()[0].kind, chunk::OFFSET_HOLE);
}

/// Numbers of a chunk's payload.
fn numbers(payload: &[u8]) -> Vec<u32> {
    let numbers = payload.chunks(4);
    numbers
        .map(|number| u32::from_be_bytes(number.try_into().expect("as long")))
        .collect()
}

#[test]
fn block_status_tells_of_all_chosen_contexts() {
    let site = Site::new();
    let disk = MemoryDisk::new(1 << 20).with_context(CHANGED);
    disk.write(128 << 10, &[1; 1 << 16], false).expect("room");
    site.shelf.put("disk", Arc::new(disk));
    let mut list = Raw::greeted(&site.socket());
    let query = ContextQuery {
        name: "disk",
        queries: vec!["cenote:changed-since:"],
    };
    let listed = list.ask(option::LIST_META_CONTEXT, &query.encode());
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].1[4..], *CHANGED.as_bytes());

    let contexts = [BASE_ALLOCATION, CHANGED, "qemu:allocation-depth"];
    let style = ReplyStyle::Structured;
    let (mut raw, ids) = Raw::with_contexts(&site.socket(), "disk", style, &contexts);
    assert_eq!(ids, [1, 2]);
    raw.request(request(command::BLOCK_STATUS, 0, 4096, 512 << 10), &[]);
    let chunks = raw.chunks();
    let (hole, data) = (124 << 10, 64 << 10);
    let rest = (512 << 10) - hole - data;
    assert_eq!(numbers(&chunks[0].payload), [1, hole, 3, data, 0, rest, 3]);
    assert_eq!(numbers(&chunks[1].payload), [2, hole, 0, data, 1, rest, 0]);
    let one = command_flag::REQ_ONE;
    raw.request(request(command::BLOCK_STATUS, one, 4096, 512 << 10), &[]);
    assert_eq!(numbers(&raw.chunks()[1].payload), [2, hole, 0]);

    let style = ReplyStyle::Extended;
    let (mut raw, _) = Raw::with_contexts(&site.socket(), "disk", style, &contexts);
    let payload = [&(512_u64 << 10).to_be_bytes()[..], &2_u32.to_be_bytes()].concat();
    let flag = command_flag::PAYLOAD_LEN;
    raw.request(request(command::BLOCK_STATUS, flag, 4096, 12), &payload);
    let chunks = raw.chunks();
    assert_eq!((chunks.len(), chunks[0].kind), (1, chunk::BLOCK_STATUS_EXT));
    let expected = [2, 3, 0, hole, 0, 0, 0, data, 0, 1, 0, rest, 0, 0];
    assert_eq!(numbers(&chunks[0].payload), expected);
    raw.request(request(command::BLOCK_STATUS, flag, 0, 13), &[0; 13]);
    assert_eq!(raw.chunks()[0].kind, chunk::ERROR, "no whole number");
    raw.request(request(command::READ, flag, 0, 9), &[0; 9]);
    assert_eq!(raw.chunks()[0].kind, chunk::ERROR, "a payload of a read");
    raw.request(request(command::FLUSH, 0, 0, 0), &[]);
    assert_eq!(raw.chunk(0).kind, chunk::NONE);
}

#[test]
fn zeros_can_be_holes_or_not() {
    let (site, disk) = Site::with_disk(1 << 20);
    let style = ReplyStyle::Structured;
    let (mut raw, _) = Raw::with_contexts(&site.socket(), "disk", style, &[BASE_ALLOCATION]);
    disk.write(0, &[1; 1 << 20], false).expect("room");
    let fast = command_flag::FAST_ZERO;
    raw.request(request(command::WRITE_ZEROES, fast, 0, 1 << 18), &[]);
    assert_eq!(raw.chunk(0).kind, 0);
    let flags = command_flag::NO_HOLE | command_flag::FUA;
    raw.request(request(command::WRITE_ZEROES, flags, 1 << 18, 1 << 18), &[]);
    assert_eq!(raw.chunk(0).kind, 0);
    assert_eq!(disk.flushes(), 1);
    raw.request(request(command::BLOCK_STATUS, 0, 0, 1 << 20), &[]);
    let status = numbers(&raw.chunks()[0].payload);
    assert_eq!(status, [1, 1 << 18, 3, 3 << 18, 0]);
    raw.request(request(command::READ, command_flag::DF, 0, 1 << 20), &[]);
    let read = raw.chunks()[0].payload[8..].to_vec();
    assert!(read[..1 << 19].iter().all(|byte| *byte == 0));
    assert!(read[1 << 19..].iter().all(|byte| *byte == 1));
    raw.request(request(command::CACHE, 0, 0, 4096), &[]);
    assert_eq!(raw.chunk(0).kind, 0);
}

#[test]
fn an_end_answers_what_is_under_way() {
    let (mut site, _) = Site::with_disk(1 << 20);
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    wait_until("the server knows the export", || {
        let server = site.server.as_ref().expect("it runs");
        server.connections()[0].export.as_deref() == Some("disk")
    });
    let server = site.server.as_ref().expect("it runs");
    assert!(server.disconnect("other", Duration::ZERO));
    assert_eq!(site.connected(), 1);
    let server = site.server.as_ref().expect("it runs");
    assert!(server.disconnect("disk", Duration::from_secs(60)));
    assert!(raw.is_closed());
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    site.stop();
    assert!(raw.is_closed());
    assert!(!site.socket().exists());
}

/// Holds up reads of the first bytes until it is opened.
#[derive(Default)]
struct Barrier(Mutex<bool>, Condvar);

impl Barrier {
    fn open(&self) {
        *self.0.lock().expect("no panic") = true;
        self.1.notify_all();
    }
}

impl Filter for Barrier {
    fn before(&self, request: &FilteredRequest) {
        if request.offset == 0 {
            let is_open = self.0.lock().expect("no panic");
            let opened = self.1.wait_while(is_open, |is_open| !*is_open);
            drop(opened.expect("no panic"));
        }
    }
}

/// The thread that receives answers quick requests itself. When one of them then waits for a
/// device, those that came behind it, and came together with it, are still answered.
#[test]
fn a_request_that_waits_holds_up_no_other() {
    let (site, disk) = Site::with_disk(1 << 20);
    let barrier = Arc::new(Barrier::default());
    let filtered = Filtered::new(disk, Arc::clone(&barrier));
    site.shelf.put("slow", Arc::new(filtered));
    let mut raw = Raw::to(&site.socket(), "slow", ReplyStyle::Simple);
    let read = |cookie: u64, offset: u64| Request {
        cookie,
        ..request(command::READ, 0, offset, 512)
    };
    for is_alone in [true, false] {
        for round in 0..200 {
            let together = if is_alone { 1 } else { 4 };
            let burst = (0..together).map(|_| read(round, 4096).encode(false));
            raw.send(&burst.collect::<Vec<_>>().concat());
            for _ in 0..together {
                assert_eq!(raw.chunk(512).cookie, round);
            }
        }
        let burst = [read(1, 4096), read(2, 0), read(3, 4096), read(4, 8192)];
        raw.send(&burst.map(|read| read.encode(false)).concat());
        raw.request(read(5, 4096), &[]);
        let mut answered: Vec<u64> = (0..4).map(|_| raw.chunk(512).cookie).collect();
        answered.sort_unstable();
        assert_eq!(answered, [1, 3, 4, 5]);
        barrier.open();
        assert_eq!(raw.chunk(512).cookie, 2);
        *barrier.0.lock().expect("no panic") = false;
    }
}
