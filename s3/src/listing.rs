//! Lists of names, as servers answer them (`ListObjectsV2`).

use crate::xml;
use jiff::Timestamp;

/// One page of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its objects.
    pub objects: Vec<Listed>,
    /// What to ask the next page with, if there is one.
    pub next: Option<String>,
}

/// An object of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its name in the bucket.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// When it was put.
    pub modified: Timestamp,
    /// Its version.
    pub tag: Option<String>,
}

/// What of an object has come so far.
#[derive(Default)]
struct Begun {
    key: Option<String>,
    size: Option<u64>,
    modified: Option<Timestamp>,
    tag: Option<String>,
}

impl Begun {
    fn listed(self) -> Option<Listed> {
        Some(Listed {
            key: self.key?,
            size: self.size?,
            modified: self.modified?,
            tag: self.tag,
        })
    }
}

/// Reads a page. One that is not the last says what to ask for the next with.
///
/// # Errors
/// Why it is none.
pub fn read(body: &[u8]) -> Result<Page, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let mut page = Page::default();
    let mut begun = Begun::default();
    let mut is_list = false;
    let mut is_cut = None;
    xml::read(text, |names, text| {
        match names {
            ["ListBucketResult"] => is_list = true,
            ["ListBucketResult", "IsTruncated"] => {
                is_cut = match text.trim() {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => return Err("it does not say whether it is the last page".into()),
                };
            }
            ["ListBucketResult", "NextContinuationToken"] if !text.is_empty() => {
                page.next = Some(text.to_owned());
            }
            ["ListBucketResult", "Contents"] => {
                let listed = std::mem::take(&mut begun).listed();
                let listed = listed.ok_or("an object lacks its name, size or time")?;
                page.objects.push(listed);
            }
            ["ListBucketResult", "Contents", "Key"] => begun.key = Some(text.to_owned()),
            ["ListBucketResult", "Contents", "ETag"] => begun.tag = Some(text.to_owned()),
            ["ListBucketResult", "Contents", "Size"] => {
                begun.size = Some(
                    text.trim()
                        .parse()
                        .map_err(|_| "the size of an object is none")?,
                );
            }
            ["ListBucketResult", "Contents", "LastModified"] => {
                begun.modified = Some(
                    text.trim()
                        .parse()
                        .map_err(|_| "the time of an object is none")?,
                );
            }
            _ => {}
        }
        Ok(())
    })?;
    if !is_list {
        return Err("it is no list of a bucket".into());
    }
    match is_cut {
        Some(true) if page.next.is_none() => {
            Err("it is not the last page, and does not say how to ask for the next".into())
        }
        Some(false) => Ok(Page { next: None, ..page }),
        _ => Ok(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inside: &str) -> Result<Page, String> {
        read(format!("<ListBucketResult xmlns=\"x\">{inside}</ListBucketResult>").as_bytes())
    }

    const OBJECT: &str = "<Contents><Key>a &amp; b</Key><Size>5</Size><Owner><Key>no</Key></Owner>\
                          <LastModified>2024-01-02T03:04:05.678Z</LastModified>\
                          <ETag>&quot;e&quot;</ETag></Contents>";

    #[test]
    fn pages_have_objects() {
        let expected = Listed {
            key: "a & b".into(),
            size: 5,
            modified: "2024-01-02T03:04:05.678Z".parse().expect("a time"),
            tag: Some("\"e\"".into()),
        };
        let next = "<NextContinuationToken>n==</NextContinuationToken>";
        let found = page(&format!("<Prefix>p</Prefix>{OBJECT}{next}")).expect("a page");
        assert_eq!(found.objects, [expected]);
        assert_eq!(found.next.as_deref(), Some("n=="));
        assert_eq!(page("<KeyCount>0</KeyCount>"), Ok(Page::default()));
    }

    /// Regression: whether a page is the last was not read, so that a list that was cut had an end.
    #[test]
    fn a_page_that_is_not_the_last_has_a_next() {
        let next = "<NextContinuationToken>n</NextContinuationToken>";
        let said = |is_cut: &str, next: &str| {
            let found = page(&format!(
                "<IsTruncated>{is_cut}</IsTruncated>{OBJECT}{next}"
            ));
            found.map(|page| (page.objects.len(), page.next))
        };
        assert_eq!(said("true", next), Ok((1, Some("n".into()))));
        assert_eq!(said("false", ""), Ok((1, None)));
        assert_eq!(said("false", next), Ok((1, None)));
        for is_cut in ["true", "", "perhaps"] {
            let nothing = "<NextContinuationToken/>";
            assert!(said(is_cut, nothing).is_err(), "{is_cut}");
        }
    }

    /// Whatever comes is a list or an error, and what is cut off is no list.
    #[test]
    fn damaged_pages_end() {
        let whole = format!("<ListBucketResult>{OBJECT}<!-- c --></ListBucketResult>");
        for length in 0..whole.len() {
            assert!(read(&whole.as_bytes()[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for byte in b"<>&;/!?\"'= \x00\xff" {
                let mut damaged = whole.clone().into_bytes();
                damaged[at] = *byte;
                // A name may have become another one.
                let _ = read(&damaged);
            }
        }
    }

    #[test]
    fn what_is_no_list_is_not_empty() {
        assert!(read(b"<html><body/></html>").is_err(), "a page for people");
        assert!(read(b"<ListBucketResult>").is_err(), "cut off");
        assert!(read(b"").is_err() && read(&[0xff]).is_err());
        for (part, other) in [
            ("<Size>5</Size>", ""),
            ("<Size>5</Size>", "<Size>-5</Size>"),
            ("<Key>a &amp; b</Key>", ""),
            ("2024-01-02", "yesterday"),
        ] {
            assert!(page(&OBJECT.replace(part, other)).is_err(), "{other}");
        }
    }
}
