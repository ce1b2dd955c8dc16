//! The handshake with a client: options until it begins the transmission.
//!
//! The client is not trusted. It gets a limited time, a limited number of options, and no memory
//! beyond one option of limited size. What it sent before TLS began is not trusted afterwards:
//! bytes that came too early end the connection, as an attacker in the middle could inject options
//! there.

use crate::contexts::{self, Chosen};
use crate::device::{BlockDevice, BlockSizes};
use crate::exports::{Client, Exports, Limits, OpenError, TlsPolicy};
use cenote_base::rt::Instant;
use cenote_nbd_client::protocol::handshake::{
    ContextQuery, FIXED_NEWSTYLE, Info, InfoQuery, NO_ZEROES, OPTION_SIZE, OptionHeader,
    encode_answer, encode_greeting, push_text,
};
use cenote_nbd_client::protocol::reply::ReplyStyle;
use cenote_nbd_client::protocol::{Malformed, STRING_BYTES_MAX, answer, export_flag, info, option};
use cenote_nbd_client::receiver::Receiver;
use cenote_nbd_client::tls::Tls;
use cenote_nbd_client::transport::{Transport, send_bytes};
use std::io;
use std::sync::Arc;

/// Options that a client may send.
const OPTIONS_MAX: usize = 1024;
/// The most bytes of an option's data that are read.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Bytes of an option's data that are received at all.
const OPTION_BYTES_SKIPPED_MAX: u32 = 1 << 20;
/// Answers are sent when this many bytes are pending.
const ANSWER_BYTES: usize = 64 << 10;

/// Why a handshake ended without a transmission.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeEnd {
    /// The client has what it wanted.
    #[error("the client left")]
    Left,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the client does not keep the protocol: {0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Refused(#[from] OpenError),
    /// Something else that is against the rules.
    #[error("the client does not keep the protocol: {0}")]
    Broken(&'static str),
}

/// What client and server agreed on.
pub(crate) struct Agreed {
    pub device: Arc<dyn BlockDevice>,
    /// The export's name.
    pub name: String,
    pub style: ReplyStyle,
    pub contexts: Vec<Chosen>,
    pub transport: Arc<dyn Transport>,
    pub receiver: Receiver,
    pub client: Client,
}

/// A handshake under way.
pub(crate) struct Handshake<'a> {
    exports: &'a dyn Exports,
    tls: &'a TlsPolicy,
    /// Learns which export the client has open.
    note: &'a dyn Fn(Option<&str>),
    deadline: Instant,
    /// Data of one request at most, in bytes.
    payload_max: u32,
    transport: Arc<dyn Transport>,
    receiver: Receiver,
    client: Client,
    wants_zeroes: bool,
    style: ReplyStyle,
    /// The export for which contexts were chosen.
    chosen: Option<(String, Vec<Chosen>)>,
    /// The export that was opened last: clients ask several questions about the same.
    opened: Option<(String, Arc<dyn BlockDevice>)>,
    /// Answers that are not sent yet.
    answers: Vec<u8>,
}

/// What an option leads to.
enum Next {
    Option,
    Transmission(String, Arc<dyn BlockDevice>),
}

impl<'a> Handshake<'a> {
    pub fn new(
        exports: &'a dyn Exports,
        (tls, limits): (&'a TlsPolicy, &Limits),
        note: &'a dyn Fn(Option<&str>),
        (transport, address): (Arc<dyn Transport>, &str),
    ) -> Self {
        Self {
            exports,
            tls,
            note,
            deadline: Instant::now() + limits.handshake_time,
            payload_max: limits.payload_max(),
            receiver: Receiver::new(Arc::clone(&transport)),
            client: Client {
                address: address.to_owned(),
                is_encrypted: transport.is_encrypted(),
            },
            transport,
            wants_zeroes: true,
            style: ReplyStyle::Simple,
            chosen: None,
            opened: None,
            answers: Vec::new(),
        }
    }

    /// Answers options until the transmission begins.
    pub fn run(mut self) -> Result<Agreed, HandshakeEnd> {
        self.receiver.set_deadline(Some(self.deadline))?;
        send_bytes(
            &*self.transport,
            &encode_greeting(FIXED_NEWSTYLE | NO_ZEROES),
        )?;
        let mut flags = [0; 4];
        if !self.receiver.fill_or_end(&mut flags)? {
            return Err(HandshakeEnd::Left);
        }
        let flags = u32::from_be_bytes(flags);
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(HandshakeEnd::Broken("its flags are unknown"));
        }
        if flags & u32::from(FIXED_NEWSTYLE) == 0 {
            return Err(HandshakeEnd::Broken("it does not know fixed newstyle"));
        }
        self.wants_zeroes = flags & u32::from(NO_ZEROES) == 0;
        for _ in 0..OPTIONS_MAX {
            if let Next::Transmission(name, device) = self.option()? {
                self.receiver.set_deadline(None)?;
                let chosen = self.chosen.take().filter(|(of, _)| *of == name);
                return Ok(Agreed {
                    device,
                    contexts: chosen.map(|(_, contexts)| contexts).unwrap_or_default(),
                    name: self.opened_name(),
                    style: self.style,
                    transport: self.transport,
                    receiver: self.receiver,
                    client: self.client,
                });
            }
            self.send_answers()?;
        }
        Err(HandshakeEnd::Broken("it sends options without end"))
    }

    /// Receives an option and answers it.
    fn option(&mut self) -> Result<Next, HandshakeEnd> {
        let mut header = [0; OPTION_SIZE];
        if !self.receiver.fill_or_end(&mut header)? {
            return Err(HandshakeEnd::Left);
        }
        let OptionHeader { option, length } = OptionHeader::decode(&header)?;
        if length > OPTION_BYTES_MAX {
            if length > OPTION_BYTES_SKIPPED_MAX || option == option::EXPORT_NAME {
                return Err(HandshakeEnd::Broken("an option is too large"));
            }
            self.receiver.skip(length.into())?;
            self.refuse(option, answer::TOO_BIG, "the option is too large")?;
            return Ok(Next::Option);
        }
        let mut data = vec![0; length as usize];
        self.receiver.fill(&mut data)?;
        if self.tls.is_required() && !self.client.is_encrypted {
            match option {
                option::STARTTLS | option::ABORT => {}
                option::EXPORT_NAME => {
                    return Err(OpenError::TlsRequired(String::new()).into());
                }
                _ => {
                    let text = "this server is reached over TLS only; connect with nbds://";
                    self.refuse(option, answer::TLS_REQUIRED, text)?;
                    return Ok(Next::Option);
                }
            }
        }
        self.carry_out(option, &data)
    }

    fn carry_out(&mut self, option: u32, data: &[u8]) -> Result<Next, HandshakeEnd> {
        match option {
            option::EXPORT_NAME => return self.export_name(data),
            option::INFO | option::GO => return self.info(option, data),
            option::ABORT => {
                self.answer(option, answer::ACK, &[])?;
                // A client need not wait for it.
                let _ = self.send_answers();
                return Err(HandshakeEnd::Left);
            }
            option::LIST
            | option::STARTTLS
            | option::STRUCTURED_REPLY
            | option::EXTENDED_HEADERS
                if !data.is_empty() =>
            {
                self.refuse(option, answer::INVALID, "this option has no data")?;
            }
            option::LIST => self.list()?,
            option::STARTTLS => self.start_tls()?,
            option::STRUCTURED_REPLY => self.change_style(option, ReplyStyle::Structured)?,
            option::EXTENDED_HEADERS => self.change_style(option, ReplyStyle::Extended)?,
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, data)?;
            }
            _ => self.refuse(option, answer::UNSUPPORTED, "this option is not known here")?,
        }
        Ok(Next::Option)
    }

    fn answer(&mut self, option: u32, answer: u32, data: &[u8]) -> io::Result<()> {
        let bytes = encode_answer(option, answer, data);
        self.answers.extend_from_slice(&bytes);
        match self.answers.len() >= ANSWER_BYTES {
            true => self.send_answers(),
            false => Ok(()),
        }
    }

    fn refuse(&mut self, option: u32, answer: u32, text: &str) -> io::Result<()> {
        let text = &text[..text.floor_char_boundary(STRING_BYTES_MAX)];
        self.answer(option, answer, text.as_bytes())
    }

    fn send_answers(&mut self) -> io::Result<()> {
        let answers = std::mem::take(&mut self.answers);
        send_bytes(&*self.transport, &answers)
    }

    fn list(&mut self) -> io::Result<()> {
        for entry in self.exports.list() {
            // The protocol has no way to say a longer name.
            if entry.name.len() > STRING_BYTES_MAX {
                continue;
            }
            let mut data = Vec::new();
            push_text(&mut data, &entry.name);
            let end = entry.description.floor_char_boundary(STRING_BYTES_MAX);
            data.extend_from_slice(&entry.description.as_bytes()[..end]);
            self.answer(option::LIST, answer::SERVER, &data)?;
        }
        self.answer(option::LIST, answer::ACK, &[])
    }

    fn start_tls(&mut self) -> Result<(), HandshakeEnd> {
        let option = option::STARTTLS;
        let Some(config) = self.tls.config() else {
            let text = "this server has no certificates; connect with nbd://";
            return Ok(self.refuse(option, answer::POLICY, text)?);
        };
        if self.client.is_encrypted {
            return Ok(self.refuse(option, answer::INVALID, "the connection is encrypted")?);
        }
        if self.receiver.has_more() {
            return Err(HandshakeEnd::Broken("it sent bytes before TLS began"));
        }
        self.answer(option, answer::ACK, &[])?;
        self.send_answers()?;
        let tls = Tls::accept(Arc::clone(&self.transport), config, self.deadline)?;
        self.transport = Arc::new(tls);
        self.receiver = Receiver::new(Arc::clone(&self.transport));
        self.receiver.set_deadline(Some(self.deadline))?;
        self.client.is_encrypted = true;
        // Settings that were negotiated in the clear may come from an attacker.
        self.style = ReplyStyle::Simple;
        (self.chosen, self.opened) = (None, None);
        Ok(())
    }

    fn change_style(&mut self, option: u32, style: ReplyStyle) -> io::Result<()> {
        match self.style {
            ReplyStyle::Extended if style == ReplyStyle::Structured => {
                let text = "extended headers were agreed on";
                self.refuse(option, answer::EXTENDED_HEADERS_REQUIRED, text)
            }
            current if current == style => {
                self.refuse(option, answer::INVALID, "this was agreed on already")
            }
            _ => {
                self.style = style;
                self.answer(option, answer::ACK, &[])
            }
        }
    }

    /// Opens an export, unless it was opened just before.
    ///
    /// The server registers the client first. So a withdrawal of the export either finds this
    /// client and disconnects it, or happens before the export is opened.
    fn open(&mut self, name: &str) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let name = self.exports.resolved(name);
        if let Some((opened, device)) = &self.opened
            && *opened == name
        {
            return Ok(Arc::clone(device));
        }
        self.opened = None;
        (self.note)(Some(&name));
        let opened = self.exports.open(&name, &self.client);
        let device = opened.inspect_err(|_| (self.note)(None))?;
        self.opened = Some((name, Arc::clone(&device)));
        Ok(device)
    }

    /// The name of the export that is open.
    fn opened_name(&self) -> String {
        let opened = self.opened.as_ref();
        opened.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    fn refuse_open(&mut self, option: u32, error: &OpenError) -> io::Result<()> {
        let kind = match error {
            OpenError::Unknown(_) => answer::UNKNOWN,
            OpenError::Refused(_) => answer::POLICY,
            OpenError::TlsRequired(_) => answer::TLS_REQUIRED,
        };
        self.refuse(option, kind, &error.to_string())
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> Result<(), HandshakeEnd> {
        let is_chosen = option == option::SET_META_CONTEXT;
        if is_chosen {
            self.chosen = None;
        }
        if self.style == ReplyStyle::Simple && is_chosen {
            let text = "metadata contexts need structured replies";
            return Ok(self.refuse(option, answer::INVALID, text)?);
        }
        let query = match ContextQuery::decode(data) {
            Ok(query) => query,
            Err(error) => return Ok(self.refuse(option, answer::INVALID, &error.to_string())?),
        };
        let device = match self.open(query.name) {
            Ok(device) => device,
            Err(error) => return Ok(self.refuse_open(option, &error)?),
        };
        let found: Vec<(u32, String)> = match is_chosen {
            false => contexts::listed(&*device, &query.queries)
                .into_iter()
                .map(|name| (0, name))
                .collect(),
            true => {
                let chosen = contexts::chosen(&*device, &query.queries);
                self.chosen = Some((query.name.to_owned(), chosen.clone()));
                let named = chosen.into_iter().map(|chosen| (chosen.id, chosen.name));
                named.collect()
            }
        };
        for (id, name) in found {
            let data = [&id.to_be_bytes()[..], name.as_bytes()].concat();
            self.answer(option, answer::META_CONTEXT, &data)?;
        }
        Ok(self.answer(option, answer::ACK, &[])?)
    }

    fn info(&mut self, option: u32, data: &[u8]) -> Result<Next, HandshakeEnd> {
        let query = match InfoQuery::decode(data) {
            Ok(query) => query,
            Err(error) => {
                self.refuse(option, answer::INVALID, &error.to_string())?;
                return Ok(Next::Option);
            }
        };
        let device = match self.open(query.name) {
            Ok(device) => device,
            Err(error) => {
                self.refuse_open(option, &error)?;
                return Ok(Next::Option);
            }
        };
        let sizes = device.block_sizes();
        if sizes.minimum > 1 && !query.wants(info::BLOCK_SIZE) {
            let text = format!(
                "requests have to be multiples of {} bytes; ask for the block sizes",
                sizes.minimum
            );
            self.refuse(option, answer::BLOCK_SIZE_REQUIRED, &text)?;
            return Ok(Next::Option);
        }
        for fact in facts(&*device, &query, self.style, self.payload_max) {
            self.answer(option, answer::INFO, &fact.encode())?;
        }
        self.answer(option, answer::ACK, &[])?;
        if option == option::INFO {
            return Ok(Next::Option);
        }
        self.send_answers()?;
        Ok(Next::Transmission(query.name.to_owned(), device))
    }

    fn export_name(&mut self, data: &[u8]) -> Result<Next, HandshakeEnd> {
        let name = std::str::from_utf8(data);
        let name = name.map_err(|_| HandshakeEnd::Broken("the export's name is not UTF-8"))?;
        let device = self.open(name)?;
        let mut bytes = device.size().to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags(&*device, self.style).to_be_bytes());
        if self.wants_zeroes {
            bytes.extend_from_slice(&[0; 124]);
        }
        send_bytes(&*self.transport, &bytes)?;
        Ok(Next::Transmission(name.to_owned(), device))
    }
}

/// The information about an export that is sent to a client.
fn facts(
    device: &dyn BlockDevice,
    query: &InfoQuery<'_>,
    style: ReplyStyle,
    payload_max: u32,
) -> Vec<Info> {
    let mut facts = vec![Info::Export {
        size: device.size(),
        flags: flags(device, style),
    }];
    if query.wants(info::NAME) && query.name.len() <= STRING_BYTES_MAX {
        facts.push(Info::Name(query.name.to_owned()));
    }
    if query.wants(info::DESCRIPTION)
        && let Some(mut text) = device.description()
    {
        text.truncate(text.floor_char_boundary(STRING_BYTES_MAX));
        facts.push(Info::Description(text));
    }
    if query.wants(info::BLOCK_SIZE) {
        let BlockSizes {
            minimum,
            preferred,
            maximum,
        } = device.block_sizes();
        facts.push(Info::BlockSize {
            minimum,
            preferred,
            maximum: maximum.min(payload_max),
        });
    }
    facts
}

/// What an export can do.
fn flags(device: &dyn BlockDevice, style: ReplyStyle) -> u16 {
    let is_writable = !device.is_read_only();
    let all = [
        (true, export_flag::HAS_FLAGS | export_flag::SEND_CACHE),
        (!is_writable, export_flag::READ_ONLY),
        (
            is_writable,
            export_flag::SEND_FLUSH | export_flag::SEND_FUA | export_flag::SEND_WRITE_ZEROES,
        ),
        (is_writable && device.can_trim(), export_flag::SEND_TRIM),
        (
            is_writable && device.knows_fast_zero(),
            export_flag::SEND_FAST_ZERO,
        ),
        (device.is_rotational(), export_flag::ROTATIONAL),
        (device.can_share(), export_flag::CAN_MULTI_CONN),
        (style != ReplyStyle::Simple, export_flag::SEND_DF),
        (
            style == ReplyStyle::Extended,
            export_flag::BLOCK_STATUS_PAYLOAD,
        ),
    ];
    let set = all.iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |flags, (_, flag)| flags | flag)
}
