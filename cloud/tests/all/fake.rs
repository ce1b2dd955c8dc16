//! A server that answers what a test wants, to requests that a test can look at.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answered {
    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!("<Error><Code>{code}</Code><Message>so be it</Message></Error>");
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }
}

type Answer = dyn Fn(&Asked) -> Answered + Send + Sync;

pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeServer {
    /// Its threads end with the test.
    pub(crate) fn new(answer: impl Fn(&Asked) -> Answered + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(client, &*answer, &seen));
            }
        });
        Self { address, asked }
    }
}

/// Answers one request after the other.
fn serve(client: TcpStream, answer: &Answer, seen: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut writer = client.try_clone().ok()?;
    let mut reader = BufReader::new(client);
    loop {
        let asked = read(&mut reader)?;
        let answered = answer(&asked);
        let is_head = asked.method == "HEAD";
        seen.lock().expect("no panic").push(asked);
        let mut text = format!("HTTP/1.1 {} Said\r\n", answered.status);
        for (name, value) in &answered.headers {
            text += &format!("{name}: {value}\r\n");
        }
        let has = |wanted: &str| answered.headers.iter().any(|(name, _)| *name == wanted);
        let is_chunked = has("transfer-encoding");
        if !has("content-length") && !is_chunked {
            text += &format!("content-length: {}\r\n", answered.body.len());
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        if is_chunked && !is_head {
            for chunk in answered.body.chunks(5000) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk.iter().chain(b"\r\n"));
            }
            bytes.extend(b"0\r\n\r\n");
        } else if !is_head {
            bytes.extend_from_slice(&answered.body);
        }
        writer.write_all(&bytes).ok()?;
        if has("connection") {
            writer.shutdown(Shutdown::Both).ok()?;
            return None;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|length| *length > 0)?;
    let mut words = line.split(' ');
    let mut asked = Asked {
        method: words.next()?.into(),
        path: words.next()?.into(),
        ..Asked::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        asked
            .headers
            .insert(name.to_ascii_lowercase(), value.into());
    }
    let length = asked.headers.get("content-length");
    let length = length.map_or(0, |length| length.parse().expect("a number"));
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
