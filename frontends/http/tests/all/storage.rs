//! Storage that is cold, slow, changes or fails.

use crate::common::{Answer, MemoryFile, Served, pattern, wait_until};
use cenote_http::{Options, Purpose, TreeError};
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn what_memory_has_not_is_read_and_read_ahead() {
    let served = Served::new();
    let bytes = pattern(5 << 20);
    let file = served.tree.put_bytes("f.bin", bytes.clone());
    file.set_cached(300_000);
    served.tree.is_cold.store(true, Ordering::SeqCst);
    assert!(served.get("/f.bin").body == bytes);
    assert!(file.reads.load(Ordering::SeqCst) >= 5, "in pieces");
    let purposes = file.purposes.lock().unwrap().clone();
    assert!(purposes.iter().all(|purpose| *purpose == Purpose::Keep));
}

#[test]
fn a_large_download_passes_through_and_a_part_of_it_does_not() {
    let served = Served::with(Options {
        pass_through_bytes: 1 << 20,
        ..Options::default()
    });
    let file = served.tree.put_bytes("f.bin", pattern(2 << 20));
    file.set_cached(0);
    assert_eq!(served.get("/f.bin").body.len(), 2 << 20);
    let purposes = std::mem::take(&mut *file.purposes.lock().unwrap());
    assert!(
        purposes
            .iter()
            .all(|purpose| *purpose == Purpose::PassThrough)
    );
    served.ask("GET", "/f.bin", &[("Range", "bytes=0-99")]);
    assert_eq!(*file.purposes.lock().unwrap(), [Purpose::Keep]);
}

#[test]
fn errors_of_the_storage_have_answers_of_their_own() {
    let served = Served::new();
    let file = served.tree.put_bytes("f", "hello");
    file.set_cached(0);
    for (error, status) in [
        (
            TreeError::Storage("checksum error at secret place".into()),
            500,
        ),
        (TreeError::Unavailable("key not loaded".into()), 503),
        (TreeError::Forbidden, 403),
    ] {
        *file.error.lock().unwrap() = Some(error);
        let answer = served.get("/f");
        assert_eq!(answer.status, status);
        assert!(!answer.text().contains("secret") && !answer.text().contains("key"));
        assert_eq!(
            answer.header("etag"),
            None,
            "an error is no version of the file"
        );
    }
}

#[test]
fn an_error_in_the_middle_ends_the_connection_before_the_body_is_complete() {
    let served = Served::new();
    let file = served.tree.put_bytes("f.bin", pattern(3 << 20));
    file.set_cached(256 << 10);
    *file.error.lock().unwrap() = Some(TreeError::Storage("checksum".into()));
    let answer = served.get("/f.bin");
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (200, Some("3145728"))
    );
    assert!(answer.body.len() < 3 << 20, "{}", answer.body.len());
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_not_mixed_with_its_next_version() {
    let served = Served::new();
    let file = served.tree.put_bytes("f.bin", vec![1; 3 << 20]);
    file.set_cached(256 << 10);
    file.set_open(false);
    let mut stream = served.connect();
    stream
        .write_all(b"GET /f.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    wait_until("a read", || file.reads.load(Ordering::SeqCst) > 0);
    file.change(vec![2; 3 << 20]);
    file.set_open(true);
    let answer = Answer::read(&mut stream);
    assert!(answer.body.len() < 3 << 20);
    assert!(
        answer.body.iter().all(|byte| *byte == 1),
        "only the old version"
    );
}

#[test]
fn a_device_that_hangs_holds_up_its_own_readers_only() {
    let mut options = Options::default();
    options.limits.storage_time = Duration::from_millis(300);
    options.limits.waiting_threads = 2;
    let served = Served::with(options);
    served.tree.put_bytes("warm", "warm");
    let stuck: Vec<_> = (0..3)
        .map(|n| {
            let file = MemoryFile::new("cold");
            file.set_cached(0);
            file.set_open(false);
            served.tree.put(&format!("cold{n}"), &file);
            file
        })
        .collect();
    for n in 0..3 {
        let answer = served.get(&format!("/cold{n}"));
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("60"))
        );
        assert_eq!(served.get("/warm").text(), "warm");
    }
    for file in &stuck {
        file.set_open(true);
    }
    wait_until("no request waits", || served.server.status().waiting == 0);
    assert_eq!(served.get("/cold2").text(), "cold");
}

#[test]
fn the_end_of_the_server_lets_downloads_end_and_idle_connections_at_once() {
    let served = Served::new();
    let bytes = pattern(8 << 20);
    let file = served.tree.put_bytes("f.bin", bytes.clone());
    file.set_cached(256 << 10);
    file.set_open(false);
    let mut idle = served.connect();
    let mut busy = served.connect();
    busy.write_all(b"GET /f.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    wait_until("a read", || file.reads.load(Ordering::SeqCst) > 0);
    let server = &served.server;
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| server.stop(Duration::from_secs(60)));
        assert_eq!(idle.read(&mut [0; 1]).expect("an end"), 0);
        // The address is free although a download is under way.
        server.close();
        assert!(std::net::TcpStream::connect(served.address).is_err());
        drop(std::net::TcpListener::bind(served.address).expect("free"));
        file.set_open(true);
        let answer = Answer::read(&mut busy);
        assert!(answer.body == bytes);
        stop.join().expect("it ended");
    });
}

#[test]
fn the_grace_of_the_end_is_kept() {
    let served = Served::new();
    let file = served.tree.put_bytes("f", "x");
    file.set_cached(0);
    file.set_open(false);
    let mut busy = served.connect();
    busy.write_all(b"GET /f HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    wait_until("a read", || file.reads.load(Ordering::SeqCst) > 0);
    let server = &served.server;
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| server.stop(Duration::from_secs(120)));
        // Regression: the first stop could not be hurried, and nothing else ended the server.
        server.stop(Duration::from_millis(100));
        assert_eq!(busy.read(&mut [0; 1]).unwrap_or(0), 0, "it was cut");
        stop.join().expect("it ended, too");
    });
    assert!(begun.elapsed() < Duration::from_secs(100), "it waited");
    file.set_open(true);
}
