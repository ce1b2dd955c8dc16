//! What a server said when it did not do what was asked.
//!
//! Of an answer only the status, the code and the message are kept: some servers repeat the key's
//! name and the signed text beside them.

use crate::xml;
use std::time::Duration;

/// Characters of a server's message that are kept.
const MESSAGE_MAX: usize = 300;

/// An answer that is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// The word of S3 for it; empty where there is none.
    pub code: String,
    /// The server's sentence.
    pub message: String,
    /// The region that the bucket is in, where the server says so.
    pub region: Option<String>,
    /// Seconds that the server's clock is ahead of ours.
    pub ahead: Option<i64>,
}

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server answered, and refused.
    #[error("{}", .0.text())]
    Refused(Refusal),
    /// Nothing moved for too long.
    #[error("nothing was heard for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The request took too long in all.
    #[error("the request took more than {} seconds", .0.as_secs())]
    Slow(Duration),
    /// The connection failed.
    #[error("{0}")]
    Broken(String),
    /// The request could not be made.
    #[error("{0}")]
    Wrong(String),
    /// The answer is longer than what was asked for can be.
    #[error("the answer is longer than what was asked for can be")]
    Long,
    /// Several answers together are longer than what is allowed at once.
    #[error("the answers together are too long")]
    Crowded,
    /// There are no keys to sign with.
    #[error("{0}")]
    NoKeys(String),
}

impl Refusal {
    /// What an answer's body says.
    pub fn new(status: u16, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let text = |name: &str| -> Option<String> {
            let start = body.split_once(&format!("<{name}>"))?.1;
            let text = start.split_once(&format!("</{name}>"))?.0;
            let text = xml::unescaped(text).unwrap_or_else(|_| text.to_owned());
            let printable = text.chars().filter(|character| !character.is_control());
            Some(printable.take(MESSAGE_MAX).collect())
        };
        Self {
            status,
            code: text("Code").unwrap_or_default(),
            message: text("Message").unwrap_or_default(),
            region: text("Region"),
            ahead: None,
        }
    }

    /// What it says, for people.
    pub fn text(&self) -> String {
        let mut text = match (&*self.code, &*self.message) {
            ("", "") => format!("the server answered {}", self.status),
            (code, "") => format!("{} {code}", self.status),
            ("", message) => format!("{}: {message}", self.status),
            (code, message) => format!("{} {code}: {message}", self.status),
        };
        if self.code == "AccessDenied" {
            // Amazon answers so, too, when a name is not there and may not be listed.
            text += " (the rights that are needed: s3:GetObject, s3:PutObject, s3:DeleteObject and \
                     s3:ListBucket)";
        }
        if let Some(region) = &self.region {
            text += &format!(" (the bucket is in region {region}: region={region})");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: people saw `&#34;` where the server had written a quote.
    #[test]
    fn messages_are_shown_without_escapes() {
        let body = "<Error><Code>NoSuchBucket</Code><Message>no &#34;a &amp; b&quot;&#10;&#x1b;\
                    &lt;here&gt;</Message></Error>";
        let text = Refusal::new(404, body.as_bytes()).text();
        assert_eq!(text, "404 NoSuchBucket: no \"a & b\"<here>");
        let odd = Refusal::new(404, b"<Message>this & that</Message>");
        assert_eq!(odd.message, "this & that", "no escape");
    }

    #[test]
    fn what_servers_repeat_is_not_kept() {
        let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>no\nmatch</Message>\
                    <AWSAccessKeyId>AKIA</AWSAccessKeyId><StringToSign>x</StringToSign></Error>";
        let refusal = Refusal::new(403, body.as_bytes());
        assert_eq!(refusal.text(), "403 SignatureDoesNotMatch: nomatch");
        let long = format!("<Message>{}</Message>", "x".repeat(10_000));
        assert_eq!(
            Refusal::new(400, long.as_bytes()).message.len(),
            MESSAGE_MAX
        );
    }
}
