//! What limits clients, and what the server says and writes about them.

use crate::common::{Answer, MemoryTree, Served, handler, pattern, wait_until};
use cenote_http::{Address, FileLog, Listen, Options, Server};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn with(change: impl FnOnce(&mut Options)) -> Served {
    let mut options = Options::default();
    change(&mut options);
    Served::with(options)
}

#[test]
fn an_address_has_so_many_connections_and_no_more() {
    let served = with(|options| options.limits.connections_per_address = 2);
    served.tree.put_bytes("f", "x");
    let first = served.connect();
    let second = served.connect();
    wait_until("two connections", || {
        served.server.status().connections == 2
    });
    let refused = served.raw("GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(
        refused.is_empty() || refused.starts_with("HTTP/1.1 503"),
        "{refused}"
    );
    assert_eq!(served.server.status().refused, 1);
    drop(first);
    wait_until("room", || served.server.status().connections == 1);
    assert_eq!(served.get("/f").status, 200);
    drop(second);
}

#[test]
fn a_full_server_makes_room_by_ending_who_is_idle() {
    let served = with(|options| options.limits.connections = 2);
    served.tree.put_bytes("f", "x");
    let mut older = served.connect();
    wait_until("a connection", || served.server.status().connections == 1);
    // Times are noted in milliseconds.
    std::thread::sleep(Duration::from_millis(20));
    let _younger = served.connect();
    wait_until("two connections", || {
        served.server.status().connections == 2
    });
    let request = "GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    wait_until("room", || served.raw(request).starts_with("HTTP/1.1 200"));
    assert_eq!(older.read(&mut [0; 1]).expect("an end"), 0);
}

/// An idle connection kept 16 KiB of buffers after its first request: 160 MiB for 10,000 of them.
/// One that rests is served as before: by requests in one piece or many, pages that take a body,
/// answers that are large; and it ends with the server.
#[test]
fn idle_connections_rest_and_are_served_again() {
    let served = Served::new();
    let bytes = pattern(3 << 20);
    served.tree.put_bytes("f", bytes.clone());
    let mut stream = served.connect();
    let rests = || served.server.status().resting == 1;
    let get = "GET /f HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /page/a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    for round in 0..3 {
        if round > 0 {
            wait_until("rest", rests);
        }
        let (begin, end) = get.split_at([0, 1, 26][round]);
        for piece in [begin, end] {
            stream.write_all(piece.as_bytes()).unwrap();
            stream.flush().unwrap();
        }
        let found = one_answer(&mut stream);
        assert!(found == bytes, "round {round}");
    }
    wait_until("rest", rests);
    stream.write_all(post.as_bytes()).unwrap();
    assert_eq!(one_answer(&mut stream), b"Post /page/a None - 4");
    wait_until("rest", rests);
    stream.write_all([get, post].concat().as_bytes()).unwrap();
    assert!(one_answer(&mut stream) == bytes);
    assert_eq!(one_answer(&mut stream), b"Post /page/a None - 4");
    assert_eq!(served.server.status().accepted, 1);
    // A head of which half came while the request before it was answered is no rest.
    let (begin, end) = get.split_at(10);
    stream.write_all([get, begin].concat().as_bytes()).unwrap();
    assert!(one_answer(&mut stream) == bytes);
    stream.write_all(end.as_bytes()).unwrap();
    assert!(one_answer(&mut stream) == bytes);
    wait_until("rest", rests);
    let begun = Instant::now();
    served.server.stop(Duration::from_secs(120));
    assert_eq!(stream.read(&mut [0; 1]).expect("an end"), 0);
    assert!(begun.elapsed() < Duration::from_secs(100), "it waited");
}

/// The body of the next answer on a connection that is kept alive.
fn one_answer(stream: &mut std::net::TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse().expect("a number"))
    });
    let mut body = vec![0; length.expect("a length")];
    stream.read_exact(&mut body).expect("a body");
    body
}

#[test]
fn requests_and_bytes_have_rates() {
    let served = with(|options| options.limits.requests_per_second = Some(2));
    served.tree.put_bytes("f", "x");
    let statuses: Vec<u16> = (0..3).map(|_| served.get("/f").status).collect();
    // A machine that takes a second for two requests makes up for the third.
    assert_eq!(&statuses[..2], [200, 200]);
    wait_until("a refusal", || {
        let answer = served.get("/f");
        answer.status == 429 && answer.header("retry-after").is_some()
    });
    let served = with(|options| options.limits.bytes_per_second = Some(100_000));
    served.tree.put_bytes("f", pattern(250_000));
    let begin = Instant::now();
    assert_eq!(served.get("/f").body.len(), 250_000);
    assert!(
        begin.elapsed() >= Duration::from_millis(1400),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_client_that_takes_nothing_is_ended_and_one_that_is_slowed_down_is_not() {
    let served = with(|options| {
        options.limits.slow_time = Duration::from_millis(600);
        options.limits.receive_rate_min = 1 << 20;
        options.limits.bytes_per_second = Some(200_000);
    });
    served.tree.put_bytes("small", pattern(400_000));
    // The server's own rate is below the least rate, which must not be the client's fault.
    assert_eq!(served.get("/small").body.len(), 400_000);
    let served = with(|options| options.limits.slow_time = Duration::from_millis(600));
    served.tree.put_bytes("large", pattern(64 << 20));
    let mut stream = served.connect();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    wait_until("it is ended", || served.server.status().slow == 1);
    wait_until("nothing is kept", || {
        served.server.status().connections == 0
    });
}

#[test]
fn heads_and_idle_connections_have_their_time() {
    let served = with(|options| {
        options.limits.head_time = Duration::from_millis(500);
        options.limits.idle_time = Duration::from_millis(1500);
    });
    let mut slow = served.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    let begin = Instant::now();
    while slow.write_all(b"a").is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(60), "drop by drop");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.server.status().slow, 1);
    let mut idle = served.connect();
    assert_eq!(idle.read(&mut [0; 1]).expect("an end"), 0);
    assert_eq!(served.server.status().slow, 1, "idle is not slow");
}

#[test]
fn a_reload_is_taken_as_a_whole_or_not_at_all() {
    let served = Served::new();
    served.tree.put_bytes("f.secret", "x");
    let mut kept = served.connect();
    let ask = |stream: &mut std::net::TcpStream, end: &str| {
        let request = format!("GET /f.secret HTTP/1.1\r\nHost: a\r\n{end}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
    };
    ask(&mut kept, "");
    let mut answer = [0; 15];
    kept.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut options = Options::default();
    options.hidden.push("*.secret".into());
    options.limits.connections = 0;
    let error = served
        .server
        .reload(options.clone(), None)
        .expect_err("refused");
    assert!(error.to_string().contains("connections"), "{error}");
    assert_eq!(served.get("/f.secret").status, 200);
    options.limits.connections = 10;
    served.server.reload(options, None).expect("fine");
    assert_eq!(served.get("/f.secret").status, 404);
    // The old connection stays open, with the new rules.
    ask(&mut kept, "Connection: close\r\n");
    let mut answer = String::new();
    kept.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1 404"), "{answer}");
}

#[test]
fn what_was_asked_is_logged_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let socket = directory.path().join("http");
    let tree = Arc::new(MemoryTree::default());
    tree.put_bytes("f", "hello");
    let listen = Listen {
        addresses: vec![
            Address::parse("127.0.0.1:0").unwrap(),
            Address::Unix(socket.clone()),
        ],
        tls: None,
    };
    let log = Box::new(FileLog::open(&path).unwrap());
    let server = Server::start(listen, handler(&tree, Options::default()), Some(log));
    let server = server.expect("it starts");
    let Address::Tcp { address, .. } = server.addresses()[0] else {
        panic!("a port");
    };
    let request = b"GET /f?q HTTP/1.1\r\nHost: a\r\nReferer: r\"\r\nUser-Agent: t\r\n\
                    Connection: close\r\n\r\n";
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    assert_eq!(Answer::read(&mut stream).text(), "hello");
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream
        .write_all(b"GET /no HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    wait_until("both are counted", || {
        server.status().answers == [0, 1, 0, 1, 0]
    });
    let status = server.status();
    assert_eq!((status.requests, status.accepted), (2, 2));
    assert_eq!(status.busiest[0].bytes, 5);
    server.stop(Duration::from_secs(5));
    assert!(!socket.exists());
    // It waits for the thread that writes the log.
    drop(server);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("127.0.0.1 - - ["), "{text}");
    assert!(
        lines[0].ends_with("\"GET /f?q HTTP/1.1\" 200 5 \"r\\\"\" \"t\""),
        "{text}"
    );
    assert!(lines[1].starts_with("unix: - - ["), "{text}");
    assert!(lines[1].contains("\"GET /no HTTP/1.1\" 404 "), "{text}");
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    let served = Served::new();
    let start = |addresses: Vec<Address>| {
        let tree = Arc::new(MemoryTree::default());
        let listen = Listen {
            addresses,
            tls: None,
        };
        let started = Server::start(listen, handler(&tree, Options::default()), None);
        started.err().expect("refused").to_string()
    };
    let taken = served.server.addresses();
    let error = start(taken.clone());
    assert!(
        error.contains(&taken[0].to_string()) && error.contains("in use"),
        "{error}"
    );
    assert!(start(Vec::new()).contains("no address"));
    let error = start(vec![Address::parse("tls:127.0.0.1:0").unwrap()]);
    assert!(error.contains("certificate"), "{error}");
}

/// In the child, a process without other tests whose memory would be counted.
const ALONE: &str = "CENOTE_TEST_ALONE";

/// Each idle connection costs a task and little more, before its first request and after it.
#[test]
fn many_idle_connections_take_little_memory() {
    if std::env::var_os(ALONE).is_some() {
        return measure_idle_connections();
    }
    let program = std::env::current_exe().unwrap();
    let name = "limits::many_idle_connections_take_little_memory";
    let child = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("bytes for each connection"), "{said}");
}

fn measure_idle_connections() {
    const COUNT: usize = 1000;
    let served = with(|options| options.limits.connections_per_address = 2 * COUNT);
    served.tree.put_bytes("f", "x");
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    };
    let mut streams = Vec::with_capacity(COUNT);
    let before = resident();
    for _ in 0..COUNT {
        let mut stream = served.connect();
        stream
            .write_all(b"GET /f HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        streams.push(stream);
    }
    wait_until("all are answered", || {
        served.server.status().answers[1] == COUNT as u64
    });
    wait_until("all rest", || served.server.status().resting == COUNT);
    let each = resident().saturating_sub(before) / COUNT as u64;
    eprintln!("{each} bytes for each connection");
    assert!(each < 28 << 10, "{each} bytes for each connection");
}
