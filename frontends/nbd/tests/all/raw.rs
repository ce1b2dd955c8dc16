//! A client that says what a test wants it to.

use cenote_nbd::protocol::handshake::{
    ANSWER_SIZE, AnswerHeader, ContextQuery, GREETING_SIZE, Info, InfoQuery, encode_option,
};
use cenote_nbd::protocol::reply::{ReplyHeader, ReplyStyle, SIMPLE_SIZE};
use cenote_nbd::protocol::request::Request;
use cenote_nbd::protocol::{answer, info, option};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a server.
pub struct Raw {
    pub stream: UnixStream,
    pub style: ReplyStyle,
}

/// A chunk of a reply, or all of a simple one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub kind: u16,
    pub is_last: bool,
    pub cookie: u64,
    pub payload: Vec<u8>,
}

impl Raw {
    /// Connects, and reads the greeting.
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("a server");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).expect("a limit");
        stream.set_write_timeout(limit).expect("a limit");
        let mut raw = Self {
            stream,
            style: ReplyStyle::Simple,
        };
        raw.receive(GREETING_SIZE);
        raw
    }

    /// Connects and answers the greeting.
    pub fn greeted(socket: &Path) -> Self {
        let mut raw = Self::connect(socket);
        raw.send(&3_u32.to_be_bytes());
        raw
    }

    /// Connects to an export, with replies of that style.
    pub fn to(socket: &Path, export: &str, style: ReplyStyle) -> Self {
        Self::with_contexts(socket, export, style, &[]).0
    }

    /// The same with contexts; also the contexts' ids.
    pub fn with_contexts(
        socket: &Path,
        export: &str,
        style: ReplyStyle,
        contexts: &[&str],
    ) -> (Self, Vec<u32>) {
        let mut raw = Self::greeted(socket);
        raw.agree(style);
        let mut ids = Vec::new();
        if !contexts.is_empty() {
            let query = ContextQuery {
                name: export,
                queries: contexts.to_vec(),
            };
            let answers = raw.ask(option::SET_META_CONTEXT, &query.encode());
            for (kind, data) in answers {
                if kind == answer::META_CONTEXT {
                    ids.push(u32::from_be_bytes(data[..4].try_into().expect("as long")));
                }
            }
        }
        let answers = raw.go(export);
        assert_eq!(answers.last().expect("an answer").0, answer::ACK);
        (raw, ids)
    }

    /// Agrees on the style of replies.
    pub fn agree(&mut self, style: ReplyStyle) {
        let option = match style {
            ReplyStyle::Simple => return,
            ReplyStyle::Structured => option::STRUCTURED_REPLY,
            ReplyStyle::Extended => option::EXTENDED_HEADERS,
        };
        assert_eq!(self.ask(option, &[]), [(answer::ACK, vec![])]);
        self.style = style;
    }

    pub fn go(&mut self, export: &str) -> Vec<(u32, Vec<u8>)> {
        let wanted = vec![info::BLOCK_SIZE, info::NAME, info::DESCRIPTION];
        let query = InfoQuery {
            name: export,
            wanted,
        };
        self.ask(option::GO, &query.encode())
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    pub fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("an answer");
        bytes
    }

    /// Whether the server closes the connection now; what it says before is dropped.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends an option; the answers up to the last one.
    pub fn ask(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&encode_option(option, data));
        let mut answers = Vec::new();
        loop {
            let header = AnswerHeader::decode(&self.receive(ANSWER_SIZE)).expect("an answer");
            assert_eq!(header.option, option);
            let data = self.receive(header.length as usize);
            answers.push((header.answer, data));
            if header.answer == answer::ACK || header.answer & answer::ERROR != 0 {
                return answers;
            }
        }
    }

    /// The last answer to an option: its kind.
    pub fn verdict(&mut self, option: u32, data: &[u8]) -> u32 {
        self.ask(option, data).last().expect("an answer").0
    }

    pub fn request(&mut self, request: Request, data: &[u8]) {
        let header = request.encode(self.style == ReplyStyle::Extended);
        self.send(&header);
        self.send(data);
    }

    /// A reply, or a part of one; `data` is what follows a simple reply that is no error.
    pub fn chunk(&mut self, data: usize) -> Chunk {
        let mut bytes = self.receive(SIMPLE_SIZE);
        let rest = ReplyHeader::rest_size(&bytes, self.style).expect("a reply");
        bytes.extend(self.receive(rest));
        match ReplyHeader::decode(&bytes).expect("a reply") {
            ReplyHeader::Simple { error, cookie } => Chunk {
                kind: u16::try_from(error).expect("small"),
                is_last: true,
                cookie,
                payload: self.receive(if error == 0 { data } else { 0 }),
            },
            ReplyHeader::Chunk {
                flags,
                kind,
                cookie,
                length,
            } => Chunk {
                kind,
                is_last: flags & 1 != 0,
                cookie,
                payload: self.receive(usize::try_from(length).expect("short")),
            },
        }
    }

    /// All chunks of a reply.
    pub fn chunks(&mut self) -> Vec<Chunk> {
        let mut chunks = vec![self.chunk(0)];
        while !chunks.last().expect("one").is_last {
            chunks.push(self.chunk(0));
        }
        chunks
    }
}

/// A request whose cookie is 7.
pub fn request(command: u16, flags: u16, offset: u64, length: u64) -> Request {
    Request {
        flags,
        command,
        cookie: 7,
        offset,
        length,
    }
}

/// Facts among answers.
pub fn facts(answers: &[(u32, Vec<u8>)]) -> Vec<Info> {
    let facts = answers.iter().filter(|(kind, _)| *kind == answer::INFO);
    facts
        .map(|(_, data)| Info::decode(data).expect("a fact"))
        .collect()
}
