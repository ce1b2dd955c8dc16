//! Hostile clients: they are refused, and other clients are served.

use crate::common::{Shelf, Site, wait_until};
use crate::raw::{Raw, request};
use cenote_nbd::protocol::handshake::{ContextQuery, InfoQuery, encode_option};
use cenote_nbd::protocol::reply::ReplyStyle;
use cenote_nbd::protocol::{BASE_ALLOCATION, answer, command, command_flag, info, option};
use cenote_nbd::{Exports, Limits, MemoryDisk, TlsPolicy, serve_one};
use cenote_nbd_client::Monologue;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Checks that the server serves another client.
fn is_alive(site: &Site) {
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    raw.request(request(command::READ, 0, 0, 16), &[]);
    assert_eq!(raw.chunk(16).payload.len(), 16);
}

#[test]
fn bytes_without_meaning_end_the_connection() {
    let (site, _) = Site::with_disk(1 << 20);
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 4],
        vec![0xff; 4],
        [&3_u32.to_be_bytes()[..], &[0x55; 64]].concat(),
        [
            &3_u32.to_be_bytes()[..],
            &encode_option(option::EXPORT_NAME, &[0xff; 8]),
        ]
        .concat(),
    ] {
        let mut raw = Raw::connect(&site.socket());
        raw.send(&bytes);
        assert!(raw.is_closed(), "{bytes:x?}");
    }
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Structured);
    raw.send(&[0x25; 28]);
    assert!(raw.is_closed());
    is_alive(&site);
}

#[test]
fn giant_options_take_no_memory() {
    let (site, _) = Site::with_disk(1 << 20);
    let mut raw = Raw::greeted(&site.socket());
    let large = vec![0; 500_000];
    assert_eq!(raw.verdict(option::GO, &large), answer::TOO_BIG);
    assert_eq!(raw.verdict(option::LIST, &[]), answer::ACK, "it continues");
    let mut header = encode_option(option::INFO, &[]);
    header[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    raw.send(&header);
    assert!(raw.is_closed());
    let mut raw = Raw::greeted(&site.socket());
    // The server may close in the middle of them.
    let many: Vec<u8> = (0..2000).flat_map(|_| encode_option(99, &[])).collect();
    let mut writer = raw.stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || writer.write_all(&many).is_ok());
    assert!(raw.is_closed());
    let _ = sender.join();
    is_alive(&site);
}

#[test]
fn giant_requests_take_no_memory() {
    let (site, _) = Site::with_disk(1 << 40);
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Extended);
    raw.request(request(command::WRITE, 0, 0, 1 << 62), &[]);
    assert!(raw.is_closed());
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Structured);
    let length = (32 << 20) + 4096;
    raw.request(
        request(command::WRITE, 0, 0, length),
        &vec![1; length as usize],
    );
    assert_ne!(raw.chunk(0).kind, 0, "refused, and the connection lives");
    raw.request(request(command::TRIM, 0, 0, u32::MAX.into()), &[]);
    assert_eq!(raw.chunk(0).kind, 0);
    is_alive(&site);
}

#[test]
fn half_requests_are_no_requests() {
    let (site, disk) = Site::with_disk(1 << 20);
    let whole = request(command::WRITE, 0, 0, 4096).encode(false);
    for length in [1, 27, 28] {
        let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Structured);
        raw.send(&whole[..length]);
        raw.send(&[7; 100][..if length == 28 { 100 } else { 0 }]);
    }
    wait_until("they are gone", || site.connected() == 0);
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    raw.request(request(command::READ, 0, 0, 4096), &[]);
    assert_eq!(raw.chunk(4096).payload, [0; 4096]);
    assert_eq!(disk.flushes(), 0);
}

#[test]
fn a_silent_client_is_sent_away() {
    let limits = Limits {
        handshake_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let site = Site::with(limits, TlsPolicy::Off);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(1 << 20)));
    let mut silent = Raw::connect(&site.socket());
    assert!(silent.is_closed());
    // One that sends a byte now and then gets no more time.
    let mut slow = Raw::connect(&site.socket());
    let mut writer = slow.stream.try_clone().expect("a second handle");
    let drip = std::thread::spawn(move || {
        while writer.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(slow.is_closed());
    drip.join().expect("the server has closed");
    // After the handshake, silence is a client's right.
    let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    std::thread::sleep(Duration::from_millis(400));
    raw.request(request(command::READ, 0, 0, 16), &[]);
    assert_eq!(raw.chunk(16).payload.len(), 16);
}

/// A few clients announced large writes and sent nothing; they held all memory for requests, and no
/// other client was served.
#[test]
fn data_that_was_announced_has_to_come() {
    let limits = Limits {
        bytes: 64 << 10,
        own_bytes: 0,
        payload_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let site = Site::with(limits, TlsPolicy::Off);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(1 << 20)));
    let mut stalled = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    stalled.request(request(command::WRITE, 0, 0, 64 << 10), &[1; 100]);
    let mut other = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    other.request(request(command::WRITE, 0, 0, 512), &[2; 512]);
    assert!(other.chunk(0).payload.is_empty());
    assert!(stalled.is_closed());
    // Between requests, silence is a client's right.
    std::thread::sleep(Duration::from_millis(400));
    other.request(request(command::READ, 0, 0, 512), &[]);
    assert_eq!(other.chunk(512).payload, [2; 512]);
}

/// Clients that received no replies held all memory for requests for a minute and longer, and no
/// other client was served meanwhile.
#[test]
fn small_requests_are_served_when_others_keep_all_memory() {
    let limits = Limits {
        bytes: 8 << 20,
        ..Limits::default()
    };
    let site = Site::with(limits, TlsPolicy::Off);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(1 << 30)));
    let mut slow: Vec<Raw> = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
        (0..4).for_each(|_| raw.request(request(command::READ, 0, 0, 4 << 20), &[]));
        slow.push(raw);
    }
    // They are under way.
    std::thread::sleep(Duration::from_millis(300));
    let begun = std::time::Instant::now();
    let mut other = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    for _ in 0..10 {
        other.request(request(command::WRITE, 0, 0, 128 << 10), &[2; 128 << 10]);
        assert!(other.chunk(0).payload.is_empty());
        other.request(request(command::READ, 0, 0, 256 << 10), &[]);
        assert_eq!(other.chunk(256 << 10).payload.len(), 256 << 10);
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// A client that had only asked about an export, or had named it by the empty name, was not
/// disconnected when the export was withdrawn, and wrote on.
#[test]
fn clients_of_a_withdrawn_export_are_disconnected() {
    let (site, _) = Site::with_disk(1 << 20);
    let query = InfoQuery {
        name: "disk",
        wanted: Vec::new(),
    };
    let mut asking = Raw::greeted(&site.socket());
    assert_eq!(asking.verdict(option::INFO, &query.encode()), answer::ACK);
    let mut nameless = Raw::to(&site.socket(), "", ReplyStyle::Simple);
    nameless.request(request(command::READ, 0, 0, 16), &[]);
    assert_eq!(nameless.chunk(16).payload.len(), 16);
    let server = site.server.as_ref().expect("it runs");
    let names = || server.connections().into_iter().map(|one| one.export);
    wait_until("both are known", || {
        names().all(|name| name.as_deref() == Some("disk"))
    });
    site.shelf.remove("disk");
    assert!(server.disconnect("disk", Duration::from_secs(20)));
    assert!(asking.is_closed() && nameless.is_closed());
    let mut late = Raw::greeted(&site.socket());
    let verdict = late.verdict(option::INFO, &query.encode());
    assert_eq!(verdict, answer::UNKNOWN);
    assert!(names().all(|name| name.is_none()), "it has nothing open");
}

/// 256 silent connections kept everybody out until their handshakes timed out, again and again.
#[test]
fn thousands_of_silent_connections_keep_no_client_out() {
    let limits = Limits {
        connections: 20,
        handshake_time: Duration::from_secs(300),
        ..Limits::default()
    };
    let site = Site::with(limits, TlsPolicy::Off);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(1 << 20)));
    let mut used = Raw::to(&site.socket(), "disk", ReplyStyle::Simple);
    used.request(request(command::READ, 0, 0, 16), &[]);
    assert_eq!(used.chunk(16).payload.len(), 16);
    let mut kept = Vec::new();
    for _ in 0..2000 {
        if let Ok(stream) = UnixStream::connect(site.socket()) {
            kept.push(stream);
        }
    }
    is_alive(&site);
    assert!(site.connected() <= 40, "the threads that end are bounded");
    wait_until("most are gone", || site.connected() <= 20);
    // A disk in use is never disconnected for others.
    used.request(request(command::READ, 0, 0, 16), &[]);
    assert_eq!(used.chunk(16).payload.len(), 16);
    drop(kept);
    wait_until("they are gone", || site.connected() == 1);
    is_alive(&site);
}

/// A client that requests much and receives nothing holds a bounded amount of memory, and is
/// disconnected.
#[test]
fn a_client_that_does_not_read_is_bounded_and_cut() {
    let limits = Limits {
        bytes: 8 << 20,
        connection_bytes: 4 << 20,
        send_time: Duration::from_millis(500),
        ..Limits::default()
    };
    let site = Site::with(limits, TlsPolicy::Off);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(1 << 30)));
    let mut slow: Vec<Raw> = (0..8)
        .map(|_| Raw::to(&site.socket(), "disk", ReplyStyle::Simple))
        .collect();
    for raw in &mut slow {
        for _ in 0..100 {
            raw.request(request(command::READ, 0, 0, 2 << 20), &[]);
        }
    }
    // Each client requests 200 MiB, and receives nothing.
    is_alive(&site);
    wait_until("they are cut", || site.connected() == 0);
    assert!(slow.iter_mut().all(Raw::is_closed));
    is_alive(&site);
}

/// What a client says that uses everything.
fn conversation(option: u32) -> Vec<u8> {
    let is_extended = option == option::EXTENDED_HEADERS;
    let contexts = ContextQuery {
        name: "",
        queries: vec![BASE_ALLOCATION, "a:b"],
    };
    let go = InfoQuery {
        name: "",
        wanted: vec![info::BLOCK_SIZE, info::NAME],
    };
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(encode_option(option::LIST, &[]));
    bytes.extend(encode_option(option, &[]));
    bytes.extend(encode_option(option::LIST_META_CONTEXT, &contexts.encode()));
    bytes.extend(encode_option(option::SET_META_CONTEXT, &contexts.encode()));
    bytes.extend(encode_option(option::GO, &go.encode()));
    for (command, flags, length) in [
        (command::WRITE, command_flag::FUA, 16),
        (command::READ, 0, 100_000),
        (command::READ, command_flag::DF, 100_000),
        (command::BLOCK_STATUS, 0, 100_000),
        (command::WRITE_ZEROES, command_flag::NO_HOLE, 512),
        (command::TRIM, 0, 512),
        (command::CACHE, 0, 512),
        (command::FLUSH, 0, 0),
    ] {
        let offset = if length == 0 { 0 } else { 4096 };
        bytes.extend(request(command, flags, offset, length).encode(is_extended));
        bytes.extend(&[7_u8; 16][..if command == command::WRITE { 16 } else { 0 }]);
    }
    bytes
}

/// Every beginning of a conversation, and every byte of it changed: no panic and no hang.
#[test]
fn conversations_that_are_cut_or_changed_only_end() {
    let shelf = Shelf::default();
    let disk = Arc::new(MemoryDisk::new(1 << 20).with_context("a:b"));
    shelf.put("", Arc::clone(&disk) as _);
    let serve = |bytes: &[u8]| {
        let limits = Limits {
            threads_per_connection: 1,
            ..Limits::default()
        };
        let exports: &dyn Exports = &shelf;
        serve_one(exports, Monologue::new(bytes), limits, &TlsPolicy::Off);
    };
    for option in [option::STRUCTURED_REPLY, option::EXTENDED_HEADERS] {
        let whole = conversation(option);
        let flushes = disk.flushes();
        serve(&whole);
        assert!(disk.flushes() > flushes, "it is served to its end");
        for at in 0..whole.len() {
            serve(&whole[..at]);
            for change in [0x01, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= change;
                serve(&changed);
            }
        }
    }
}
