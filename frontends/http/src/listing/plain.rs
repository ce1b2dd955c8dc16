//! Listings for programs, byte by byte as nginx's `autoindex_format` makes them.
//!
//! Names are bytes there, and text here: JSON and XML cannot have anything else. What is no UTF-8
//! shows as U+FFFD, and cannot be fetched by that name.

use crate::date;
use crate::tree::{Entry, EntryKind};
use std::fmt::Write;

fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Link | EntryKind::Other => "other",
    }
}

/// Appends an entry as JSON. A string takes all that is written to it.
pub(super) fn json(entry: &Entry, is_first: bool, to: &mut String) {
    to.push_str(match is_first {
        true => "\r\n{ \"name\":\"",
        false => ",\r\n{ \"name\":\"",
    });
    for character in String::from_utf8_lossy(&entry.name).chars() {
        match character {
            '"' | '\\' => to.extend(['\\', character]),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\x08' => to.push_str("\\b"),
            '\x0c' => to.push_str("\\f"),
            '\0'..='\x1f' => drop(write!(to, "\\u{:04X}", character as u32)),
            character => to.push(character),
        }
    }
    let mtime = date::format(entry.modified);
    let _ = write!(
        to,
        "\", \"type\":\"{}\", \"mtime\":\"{mtime}\"",
        kind(entry)
    );
    if entry.kind == EntryKind::File {
        let _ = write!(to, ", \"size\":{}", entry.size);
    }
    to.push_str(" }");
}

pub(super) fn xml_head(to: &mut String) {
    to.push_str("<?xml version=\"1.0\"?>\r\n<list>\r\n");
}

/// Appends an entry as XML.
pub(super) fn xml(entry: &Entry, to: &mut String) {
    let kind = kind(entry);
    let parts = date::Parts::of(entry.modified);
    let (year, month, day) = (parts.year(), parts.month(), parts.day());
    let clock = parts.clock();
    let _ = write!(to, "<{kind} mtime=\"{year}-{month:02}-{day}T{clock}Z\"");
    if entry.kind == EntryKind::File {
        let _ = write!(to, " size=\"{}\"", entry.size);
    }
    to.push('>');
    escape(&entry.name, to);
    let _ = write!(to, "</{kind}>\r\n");
}

/// Appends a name as text of XML or HTML. What XML cannot have shows as U+FFFD.
pub(super) fn escape(name: &[u8], to: &mut String) {
    for character in String::from_utf8_lossy(name).chars() {
        match character {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\t' | '\n' | '\r' => drop(write!(to, "&#{};", character as u32)),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => to.push('\u{fffd}'),
            character => to.push(character),
        }
    }
}
