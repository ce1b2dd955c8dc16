//! Hostile clients: their requests are refused, and do not affect other clients.

use crate::common::{Answer, Served, pattern, wait_until};
use std::io::{Read, Write};
use std::net::Shutdown;

fn served() -> Served {
    let served = Served::new();
    served.tree.put_bytes("f", "hello");
    served.tree.put_bytes("big", pattern(8 << 20));
    served
}

fn is_well(served: &Served) {
    assert_eq!(served.get("/f").text(), "hello");
}

/// The statuses of all answers in what a server sent.
fn statuses(answers: &str) -> Vec<&str> {
    let heads = answers.match_indices("HTTP/1.1 ");
    heads.map(|(at, _)| &answers[at + 9..at + 12]).collect()
}

#[test]
fn requests_with_two_lengths_end_their_connection() {
    let served = served();
    let smuggled = "GET /f HTTP/1.1\r\nHost: b\r\n\r\n";
    for head in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: 4, 4\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999\r\n",
    ] {
        for method in ["GET", "POST"] {
            let request =
                format!("{method} /f HTTP/1.1\r\nHost: a\r\n{head}\r\n0\r\n\r\n{smuggled}");
            let answers = served.raw(&request);
            let found = statuses(&answers);
            assert!(found.len() <= 1, "{method} {head}: {answers}");
            assert!(!answers.contains("hello"), "{method} {head}: {answers}");
        }
    }
    is_well(&served);
}

#[test]
fn a_get_with_a_body_ends_its_connection() {
    let served = served();
    let answers = served.raw(
        "GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n\
         GET /f HTTP/1.1\r\nHost: b\r\n\r\n",
    );
    assert_eq!(statuses(&answers), ["400"], "{answers}");
    let fine = served.ask("GET", "/f", &[("Content-Length", "0")]);
    assert_eq!(fine.status, 200);
}

#[test]
fn odd_heads_are_refused() {
    let served = served();
    let long = "a".repeat(200_000);
    let many: String = (0..500).map(|n| format!("X-{n}: 1\r\n")).collect();
    for request in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03".to_owned(),
        "GET /f\r\n\r\n".to_owned(),
        "GET /f HTTP/9.9\r\nHost: a\r\n\r\n".to_owned(),
        "GET  /f HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /f HTTP/1.1\r\nHost: a\r\nX: \x01\x00\r\n\r\n".to_owned(),
        "GET /f HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_owned(),
        format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
        format!("GET /f HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"),
        format!("GET /f HTTP/1.1\r\nHost: a\r\n{many}\r\n"),
        format!("{long}{long}"),
    ] {
        let mut stream = served.connect();
        // A server that refuses may end the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let start = request.get(..20).unwrap_or("bytes");
        assert!(!answer.starts_with("HTTP/1.1 2"), "{start}: {answer}");
    }
    is_well(&served);
}

#[test]
fn thousands_of_ranges_cost_one_answer() {
    let served = served();
    let many: Vec<String> = (0..2000).map(|n| format!("{n}-{n}")).collect();
    let value = format!("bytes={}", many.join(","));
    let answer = served.ask("GET", "/big", &[("Range", &value)]);
    assert_eq!((answer.status, answer.body.len()), (200, 8 << 20));
    let same = format!("bytes={}", ["0-"; 30].join(","));
    let answer = served.ask("GET", "/big", &[("Range", &same)]);
    assert_eq!((answer.status, answer.body.len()), (206, 8 << 20));
    let far = "bytes=18446744073709551615-18446744073709551615";
    assert_eq!(served.ask("GET", "/big", &[("Range", far)]).status, 416);
}

#[test]
fn a_client_that_is_done_sending_still_gets_its_answer() {
    let served = served();
    let mut stream = served.connect();
    stream
        .write_all(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut stream).body.len(), 8 << 20);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let served = served();
    let mut requests = String::new();
    for n in 0..200 {
        let path = ["/f", "/none"][n % 2];
        requests.push_str(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    requests.push_str("GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answers = served.raw(&requests);
    let found = statuses(&answers);
    assert_eq!(found.len(), 201);
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(n, status)| *status == ["200", "404"][n % 2])
    );
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let served = served();
    for n in 0..50 {
        let mut stream = served.connect();
        stream
            .write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        if n % 2 == 0 {
            stream.read_exact(&mut [0; 100]).unwrap();
        }
    }
    wait_until("all are gone", || served.server.status().connections == 0);
    assert_eq!(served.server.status().busy, 0);
    is_well(&served);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `GET /f` as header block: method, scheme, path, authority.
fn request_block() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 2];
    block.extend(b"/f");
    block.extend([0x41, 1]);
    block.extend(b"a");
    block
}

fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes
}

/// Sends bytes of HTTP/2 and reads until the server ends the connection, or says goodbye.
fn goodbye(served: &Served, bytes: &[u8]) -> bool {
    let mut stream = served.connect();
    let _ = stream.write_all(bytes);
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
        // GOAWAY, type 7, stream 0.
        let is_goodbye = |nine: &[u8]| nine[3] == 7 && nine[5..9] == [0; 4] && nine[0] == 0;
        if all.windows(9).any(is_goodbye) {
            return true;
        }
    }
}

#[test]
fn requests_that_are_taken_back_at_once_end_the_connection() {
    let served = served();
    let mut bytes = preface();
    for n in 0..20_000 {
        let stream = 2 * n + 1;
        bytes.extend(frame(1, 5, stream, &request_block()));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    assert!(goodbye(&served, &bytes), "rapid reset");
    is_well(&served);
    wait_until("nothing is left", || served.server.status().busy == 0);
}

#[test]
fn header_blocks_without_end_end_the_connection() {
    let served = served();
    let mut bytes = preface();
    bytes.extend(frame(1, 1, 1, &request_block()));
    for _ in 0..2000 {
        let mut block = vec![0x00, 1, b'x', 0x7f, 0x80 + 10, 7];
        block.extend([b'y'; 1000]);
        bytes.extend(frame(9, 0, 1, &block));
    }
    assert!(goodbye(&served, &bytes), "CONTINUATION flood");
    is_well(&served);
}

#[test]
fn frames_that_make_no_sense_end_the_connection() {
    let served = served();
    for odd in [
        frame(1, 5, 0, &request_block()),
        frame(1, 5, 2, &request_block()),
        frame(8, 0, 0, &0_u32.to_be_bytes()),
        frame(4, 0, 0, &[0; 5]),
        frame(6, 0, 0, &[0; 3]),
        vec![0xff; 64],
    ] {
        let mut bytes = preface();
        bytes.extend(odd);
        assert!(goodbye(&served, &bytes));
    }
    is_well(&served);
}
