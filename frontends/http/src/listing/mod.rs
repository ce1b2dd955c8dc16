//! Listings of directories: in which order, in which form, piece by piece.
//!
//! The entries are collected and sorted when the request comes; text is made of them only as fast
//! as the client takes it, in pieces of about [`PIECE`] bytes. So a listing costs the memory of
//! its entries, which are limited, however long its text is.

mod heading;
mod html;
mod plain;

use crate::options::ListingFormat;
use crate::tree::Entry;
use bytes::Bytes;
pub(crate) use heading::{Heading, Order};

/// About how many bytes of text are made at once.
const PIECE: usize = 32 << 10;

/// A listing that is being sent.
#[derive(Debug)]
pub(crate) struct Listing {
    entries: Vec<Entry>,
    format: ListingFormat,
    heading: Heading,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Head,
    /// The next entry.
    Entry(usize),
    Done,
}

impl Listing {
    /// Sorts the entries and begins.
    pub fn new(mut entries: Vec<Entry>, format: ListingFormat, heading: Heading) -> Self {
        heading.order.sort(&mut entries);
        Self {
            entries,
            format,
            heading,
            step: Step::Head,
        }
    }

    /// The value of `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        match self.format {
            ListingFormat::Html | ListingFormat::Off => "text/html; charset=utf-8",
            ListingFormat::Json => "application/json",
            ListingFormat::Xml => "text/xml; charset=utf-8",
        }
    }

    /// The next piece of text; `None` at the end.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        let mut text = String::new();
        while text.len() < PIECE {
            self.step = match self.step {
                Step::Head => {
                    match self.format {
                        ListingFormat::Json => text.push('['),
                        ListingFormat::Xml => plain::xml_head(&mut text),
                        _ => html::head(&self.heading, self.entries.len(), &mut text),
                    }
                    Step::Entry(0)
                }
                Step::Entry(index) => match self.entries.get(index) {
                    Some(entry) => {
                        match self.format {
                            ListingFormat::Json => plain::json(entry, index == 0, &mut text),
                            ListingFormat::Xml => plain::xml(entry, &mut text),
                            _ => html::entry(entry, &mut text),
                        }
                        Step::Entry(index + 1)
                    }
                    None => {
                        match self.format {
                            ListingFormat::Json => text.push_str("\r\n]"),
                            ListingFormat::Xml => text.push_str("</list>\r\n"),
                            _ => html::tail(&mut text),
                        }
                        Step::Done
                    }
                },
                Step::Done => break,
            };
        }
        (!text.is_empty()).then(|| text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::EntryKind;
    use std::time::{Duration, UNIX_EPOCH};

    fn entry(name: &str, kind: EntryKind, size: u64, seconds: u64) -> Entry {
        Entry {
            name: name.into(),
            kind,
            size,
            modified: UNIX_EPOCH + Duration::from_secs(1_795_748_400 + seconds),
        }
    }

    fn entries() -> Vec<Entry> {
        vec![
            entry("b", EntryKind::File, 5, 1),
            entry("a&\"<b>", EntryKind::File, 1500, 0),
            entry("z", EntryKind::Directory, 0, 2),
            entry("pipe\n", EntryKind::Other, 0, 3),
        ]
    }

    fn text(mut listing: Listing) -> String {
        let mut all = Vec::new();
        while let Some(piece) = listing.next_piece() {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).expect("UTF-8")
    }

    fn listed(format: ListingFormat) -> String {
        text(Listing::new(entries(), format, Heading::default()))
    }

    #[test]
    fn json_is_nginxs() {
        let expected = "[\r\n\
            { \"name\":\"z\", \"type\":\"directory\", \
              \"mtime\":\"Fri, 27 Nov 2026 03:00:02 GMT\" },\r\n\
            { \"name\":\"a&\\\"<b>\", \"type\":\"file\", \
              \"mtime\":\"Fri, 27 Nov 2026 03:00:00 GMT\", \"size\":1500 },\r\n\
            { \"name\":\"b\", \"type\":\"file\", \
              \"mtime\":\"Fri, 27 Nov 2026 03:00:01 GMT\", \"size\":5 },\r\n\
            { \"name\":\"pipe\\n\", \"type\":\"other\", \
              \"mtime\":\"Fri, 27 Nov 2026 03:00:03 GMT\" }\r\n]";
        assert_eq!(listed(ListingFormat::Json), expected);
        let empty = Listing::new(Vec::new(), ListingFormat::Json, Heading::default());
        assert_eq!(text(empty), "[\r\n]");
    }

    #[test]
    fn xml_is_nginxs() {
        let expected = "<?xml version=\"1.0\"?>\r\n<list>\r\n\
            <directory mtime=\"2026-11-27T03:00:02Z\">z</directory>\r\n\
            <file mtime=\"2026-11-27T03:00:00Z\" size=\"1500\">a&amp;&quot;&lt;b&gt;</file>\r\n\
            <file mtime=\"2026-11-27T03:00:01Z\" size=\"5\">b</file>\r\n\
            <other mtime=\"2026-11-27T03:00:03Z\">pipe&#10;</other>\r\n\
            </list>\r\n";
        assert_eq!(listed(ListingFormat::Xml), expected);
    }

    #[test]
    fn names_on_a_page_stay_names() {
        let html = listed(ListingFormat::Html);
        assert!(
            html.contains("<a href=\"./a%26%22%3Cb%3E\">a&amp;&quot;&lt;b&gt;</a>"),
            "{html}"
        );
        assert!(html.contains("<a href=\"./z/\">z/</a>"), "{html}");
        assert!(!html.contains("<b>") && !html.contains('\n'.to_string().repeat(2).as_str()));
        assert!(
            html.contains("1.5 KiB") && html.contains("2026-11-27 03:00"),
            "{html}"
        );
    }

    #[test]
    fn each_column_sorts_with_directories_first() {
        let names = |query: &str| {
            let order = Order::of_query(Some(query));
            let heading = Heading {
                order,
                ..Heading::default()
            };
            let listing = Listing::new(entries(), ListingFormat::Html, heading);
            let first = |entry: &Entry| entry.name[0] as char;
            listing.entries.iter().map(first).collect::<String>()
        };
        assert_eq!(names(""), "zabp");
        assert_eq!(names("C=N;O=D"), "zpba");
        assert_eq!(names("C=M&O=A"), "zabp");
        assert_eq!(names("C=S;O=D"), "zabp");
        assert_eq!(names("C=S"), "zpba");
        assert_eq!(names("C=X;O=Y;<script>"), "zabp");
    }

    #[test]
    fn a_long_listing_comes_in_pieces() {
        let many = (0..5000).map(|n| entry(&format!("file{n:05}"), EntryKind::File, n, n));
        let mut listing = Listing::new(many.collect(), ListingFormat::Html, Heading::default());
        let (mut pieces, mut rows) = (0, 0);
        while let Some(piece) = listing.next_piece() {
            assert!(piece.len() < 2 * PIECE);
            rows += piece.windows(4).filter(|four| four == b"<tr>").count();
            pieces += 1;
        }
        assert!(pieces > 5 && rows > 5000, "{pieces} {rows}");
    }
}
