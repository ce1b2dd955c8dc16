//! The handshake: greeting, options, and answers to them.
//!
//! ```text
//! greeting        "NBDMAGIC"  "IHAVEOPT"  flags (16)           18 bytes, from the server
//! client's flags  flags (32)                                    4 bytes
//! option          "IHAVEOPT"  option (32)  length (32)  data   16 bytes and data
//! answer          magic (64)  option (32)  answer (32)  length (32)  data
//! ```

use super::fields::{Fields, Malformed};
use super::numbers::info;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const ANSWER: u64 = 0x0003_e889_0455_65a9;

/// Bytes of the greeting.
pub const GREETING_SIZE: usize = 18;
/// Bytes of an option's header.
pub const OPTION_SIZE: usize = 16;
/// Bytes of an answer's header.
pub const ANSWER_SIZE: usize = 20;

/// Options that the server does not know are answered, and no reason to end.
pub const FIXED_NEWSTYLE: u16 = 1;
/// `EXPORT_NAME` is answered without 124 zeros at the end.
pub const NO_ZEROES: u16 = 2;

/// The server's first bytes.
pub fn encode_greeting(flags: u16) -> Vec<u8> {
    let mut bytes = GREETING.to_be_bytes().to_vec();
    bytes.extend_from_slice(&OPTION.to_be_bytes());
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes
}

/// The flags of a greeting.
///
/// # Errors
/// It is no greeting, or one of the old style.
pub fn decode_greeting(bytes: &[u8]) -> Result<u16, Malformed> {
    let mut fields = Fields::new("greeting of the server", bytes);
    fields.magic(GREETING)?;
    fields.magic(OPTION)?;
    fields.u16()
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// See [`super::option`].
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// The header in `bytes`.
    ///
    /// # Errors
    /// There is none in them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("option", bytes);
        fields.magic(OPTION)?;
        let option = fields.u32()?;
        let length = fields.u32()?;
        Ok(Self { option, length })
    }
}

/// An option with its data.
pub fn encode_option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    push_length(&mut bytes, data.len());
    bytes.extend_from_slice(data);
    bytes
}

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHeader {
    /// The option that is answered.
    pub option: u32,
    /// See [`super::answer`].
    pub answer: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl AnswerHeader {
    /// The header in `bytes`.
    ///
    /// # Errors
    /// There is none in them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("answer to an option", bytes);
        fields.magic(ANSWER)?;
        Ok(Self {
            option: fields.u32()?,
            answer: fields.u32()?,
            length: fields.u32()?,
        })
    }
}

/// An answer with its data.
pub fn encode_answer(option: u32, answer: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = ANSWER.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&answer.to_be_bytes());
    push_length(&mut bytes, data.len());
    bytes.extend_from_slice(data);
    bytes
}

fn push_length(bytes: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("data of the handshake is short");
    bytes.extend_from_slice(&length.to_be_bytes());
}

/// Appends a text behind its length.
pub fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

/// The data of `INFO` and `GO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoQuery<'a> {
    /// The export.
    pub name: &'a str,
    /// Facts that the client wants, see [`info`].
    pub wanted: Vec<u16>,
}

impl<'a> InfoQuery<'a> {
    /// The query in an option's data.
    ///
    /// # Errors
    /// There is none in it.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("name of an export", data);
        let name = fields.text()?;
        let count = fields.u16()?;
        let wanted = (0..count).map(|_| fields.u16()).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { name, wanted })
    }

    /// The option's data.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_text(&mut bytes, self.name);
        let count = u16::try_from(self.wanted.len()).expect("there are four facts");
        bytes.extend_from_slice(&count.to_be_bytes());
        for wanted in &self.wanted {
            bytes.extend_from_slice(&wanted.to_be_bytes());
        }
        bytes
    }

    /// Whether the client wants this fact.
    pub fn wants(&self, fact: u16) -> bool {
        self.wanted.contains(&fact)
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextQuery<'a> {
    /// The export.
    pub name: &'a str,
    /// What the client asks for.
    pub queries: Vec<&'a str>,
}

/// Queries that one option may hold.
const QUERIES_MAX: u32 = 4096;

impl<'a> ContextQuery<'a> {
    /// The query in an option's data.
    ///
    /// # Errors
    /// There is none in it.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("query for contexts", data);
        let name = fields.text()?;
        let count = fields.u32()?;
        if count > QUERIES_MAX {
            return Err(Malformed::Value {
                what: "number of queries",
                found: count.into(),
            });
        }
        let queries = (0..count)
            .map(|_| fields.text())
            .collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { name, queries })
    }

    /// The option's data.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_text(&mut bytes, self.name);
        push_length(&mut bytes, self.queries.len());
        for query in &self.queries {
            push_text(&mut bytes, query);
        }
        bytes
    }
}

/// A fact of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Info {
    /// Size in bytes and flags ([`super::export_flag`]).
    Export {
        /// In bytes.
        size: u64,
        /// What it can do.
        flags: u16,
    },
    /// The export's own name.
    Name(String),
    /// Text for people.
    Description(String),
    /// Block sizes in bytes.
    BlockSize {
        /// Offsets and lengths are multiples of it.
        minimum: u32,
        /// What does best.
        preferred: u32,
        /// Data of one request at most.
        maximum: u32,
    },
    /// Something newer.
    Unknown(u16),
}

impl Info {
    /// The fact in an answer's data.
    ///
    /// # Errors
    /// There is none in it.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("fact of an export", data);
        let info = match fields.u16()? {
            info::EXPORT => Self::Export {
                size: fields.u64()?,
                flags: fields.u16()?,
            },
            info::NAME => Self::Name(fields.rest_as_text()?.to_owned()),
            info::DESCRIPTION => Self::Description(fields.rest_as_text()?.to_owned()),
            info::BLOCK_SIZE => Self::BlockSize {
                minimum: fields.u32()?,
                preferred: fields.u32()?,
                maximum: fields.u32()?,
            },
            kind => return Ok(Self::Unknown(kind)),
        };
        fields.end()?;
        Ok(info)
    }

    /// The answer's data.
    pub fn encode(&self) -> Vec<u8> {
        let begin = |kind: u16| kind.to_be_bytes().to_vec();
        match self {
            Self::Export { size, flags } => {
                let mut bytes = begin(info::EXPORT);
                bytes.extend_from_slice(&size.to_be_bytes());
                bytes.extend_from_slice(&flags.to_be_bytes());
                bytes
            }
            Self::Name(text) => [begin(info::NAME), text.clone().into_bytes()].concat(),
            Self::Description(text) => {
                [begin(info::DESCRIPTION), text.clone().into_bytes()].concat()
            }
            Self::BlockSize {
                minimum,
                preferred,
                maximum,
            } => {
                let mut bytes = begin(info::BLOCK_SIZE);
                for size in [minimum, preferred, maximum] {
                    bytes.extend_from_slice(&size.to_be_bytes());
                }
                bytes
            }
            Self::Unknown(kind) => begin(*kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_go_both_ways() {
        for fact in [
            Info::Export {
                size: 1 << 40,
                flags: 3,
            },
            Info::Name("vol".into()),
            Info::Description("a volume".into()),
            Info::BlockSize {
                minimum: 1,
                preferred: 4096,
                maximum: 1 << 25,
            },
        ] {
            let data = fact.encode();
            assert_eq!(Info::decode(&data), Ok(fact));
        }
        assert_eq!(Info::decode(&[0, 9, 1]), Ok(Info::Unknown(9)));
        assert!(Info::decode(&[0, 0, 1]).is_err());
        assert!(Info::decode(&[0]).is_err());
    }

    #[test]
    fn queries_are_read_whole_or_not_at_all() {
        let query = InfoQuery {
            name: "tank/vol",
            wanted: vec![info::BLOCK_SIZE, info::NAME],
        };
        let data = query.encode();
        assert_eq!(InfoQuery::decode(&data), Ok(query));
        for length in 0..data.len() {
            assert!(InfoQuery::decode(&data[..length]).is_err(), "{length}");
        }
        let contexts = ContextQuery {
            name: "",
            queries: vec!["base:", "cenote:x"],
        };
        let data = contexts.encode();
        assert_eq!(ContextQuery::decode(&data), Ok(contexts));
        let many = [[0, 0, 0, 0], [255, 255, 255, 255]].concat();
        assert!(ContextQuery::decode(&many).is_err());
        let long = [10_000_u32.to_be_bytes().to_vec(), vec![b'a'; 10_002]].concat();
        assert!(InfoQuery::decode(&long).is_err(), "a name of 10000 bytes");
    }
}
