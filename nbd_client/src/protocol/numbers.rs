//! The protocol's numbers.
//!
//! They are constants and no enums: a peer may send others, and each place that reads one says
//! what happens then.

/// Options of the handshake.
pub mod option {
    /// Begins the transmission without an answer; the oldest way.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the connection.
    pub const ABORT: u32 = 2;
    /// Lists the exports.
    pub const LIST: u32 = 3;
    /// Goes over to TLS.
    pub const STARTTLS: u32 = 5;
    /// Asks for facts of an export.
    pub const INFO: u32 = 6;
    /// As `INFO`, and begins the transmission.
    pub const GO: u32 = 7;
    /// Asks for structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Lists the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Asks for headers with 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Answers to options.
pub mod answer {
    /// Done; the last answer to an option.
    pub const ACK: u32 = 1;
    /// An export, in a list.
    pub const SERVER: u32 = 2;
    /// A fact of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERROR: u32 = 1 << 31;
    /// The server does not know the option.
    pub const UNSUPPORTED: u32 = ERROR | 1;
    /// The server does not want to.
    pub const POLICY: u32 = ERROR | 2;
    /// The option makes no sense.
    pub const INVALID: u32 = ERROR | 3;
    /// Only after `STARTTLS`.
    pub const TLS_REQUIRED: u32 = ERROR | 5;
    /// There is no such export.
    pub const UNKNOWN: u32 = ERROR | 6;
    /// The server is about to end.
    pub const SHUTDOWN: u32 = ERROR | 7;
    /// Only for clients that ask for the block sizes.
    pub const BLOCK_SIZE_REQUIRED: u32 = ERROR | 8;
    /// The option is larger than the server takes.
    pub const TOO_BIG: u32 = ERROR | 9;
    /// Extended headers were agreed on, or have to be.
    pub const EXTENDED_HEADERS_REQUIRED: u32 = ERROR | 10;
}

/// Facts of an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// The export's own name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// The block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod export_flag {
    /// There are flags.
    pub const HAS_FLAGS: u16 = 1;
    /// No writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is there.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Single requests can be made durable.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Seeks are dear.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is there.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is there.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads can be had in one chunk.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection is one for all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is there.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `WRITE_ZEROES` can be refused where it would be slow.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// `BLOCK_STATUS` can choose among the contexts.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Commands of the transmission.
pub mod command {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes.
    pub const WRITE: u16 = 1;
    /// Ends the connection.
    pub const DISCONNECT: u16 = 2;
    /// Makes durable what was answered before.
    pub const FLUSH: u16 = 3;
    /// Contents of a range no longer matter.
    pub const TRIM: u16 = 4;
    /// A range is read soon.
    pub const CACHE: u16 = 5;
    /// Writes zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Asks for metadata of a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// Durable before it is answered.
    pub const FUA: u16 = 1;
    /// Zeros keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fast, or an error.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Chunks of structured replies.
pub mod chunk {
    /// The flag of a reply's last chunk.
    pub const DONE: u16 = 1;
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Data.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents with 32-bit lengths.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents with 64-bit lengths.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = 1 << 15 | 2;
}

/// Bits of extents in the context `base:allocation`.
pub mod allocation {
    /// No space is allocated.
    pub const HOLE: u32 = 1;
    /// Reads as zeros.
    pub const ZERO: u32 = 2;
}

/// The context that all servers have.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Bytes of a string at most: names of exports and contexts, descriptions.
pub const STRING_BYTES_MAX: usize = 4096;

/// Bytes of data that one request may carry or ask for when nothing else was agreed on.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
