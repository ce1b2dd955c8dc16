//! Serves a directory until it is killed: for measurements and by hand.
//!
//! ```text
//! cenote-http-serve DIRECTORY ADDRESS... [--tls CERTIFICATE KEY] [--log FILE] [--json]
//! ```

#![forbid(unsafe_code)]

use cenote_http::{
    AccessLog, Address, DirectoryTree, FileLog, Handler, Listen, ListingFormat, OneTree, Options,
    Server, TlsFiles,
};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const USAGE: &str = "usage: cenote-http-serve DIRECTORY ADDRESS... [--tls CERTIFICATE KEY] \
                     [--log FILE] [--json]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().ok_or(USAGE)?;
    let mut listen = Listen::default();
    let mut options = Options::default();
    let mut log: Option<Box<dyn AccessLog>> = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--tls" => {
                listen.tls = Some(TlsFiles {
                    certificate: words.next().ok_or(USAGE)?.into(),
                    key: words.next().ok_or(USAGE)?.into(),
                });
            }
            "--log" => log = Some(Box::new(FileLog::open(words.next().ok_or(USAGE)?)?)),
            "--json" => options.listing = ListingFormat::Json,
            address => listen.addresses.push(Address::parse(address)?),
        }
    }
    let handler = Handler {
        sites: Arc::new(OneTree(Arc::new(DirectoryTree::open(Path::new(
            &directory,
        ))?))),
        pages: None,
        options,
    };
    let server = Server::start(listen, handler, log)?;
    for address in server.addresses() {
        println!("serving {directory} at {address}");
    }
    loop {
        cenote_base::rt::park();
    }
}
