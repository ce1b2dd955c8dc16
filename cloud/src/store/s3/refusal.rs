//! What a server said when it did not do what was asked, and what follows from it.
//!
//! Of an answer only the status, the code and the message are kept: some servers repeat the key's
//! name and the signed text beside them.

use crate::store::StoreError;
use std::time::Duration;

/// Characters of a server's message that are kept.
const MESSAGE_MAX: usize = 300;

/// An answer that is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The status of HTTP.
    pub(super) status: u16,
    /// The word of S3 for it; empty where there is none.
    pub(super) code: String,
    /// The server's sentence.
    pub(super) message: String,
    /// The region that the bucket is in, where the server says so.
    pub(super) region: Option<String>,
    /// Seconds that the server's clock is ahead of ours.
    pub(super) ahead: Option<i64>,
}

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// The server answered, and refused.
    #[error("{0:?}")]
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
    pub(super) fn new(status: u16, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let text = |name: &str| -> Option<String> {
            let start = body.split_once(&format!("<{name}>"))?.1;
            let text = start.split_once(&format!("</{name}>"))?.0;
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

    fn text(&self) -> String {
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

    fn error(&self) -> StoreError {
        let text = self.text();
        match (self.status, &*self.code) {
            (404, "NoSuchKey") => StoreError::NotFound,
            (412, _) => StoreError::Precondition,
            (_, "RequestTimeTooSkewed") => StoreError::Skewed {
                ahead: self.ahead.unwrap_or(0),
            },
            (_, "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired") => {
                StoreError::Expired(text)
            }
            (_, "SlowDown" | "ServiceUnavailable" | "TooManyRequests" | "ThrottlingException")
            | (429 | 503, _) => StoreError::Busy(text),
            (_, "RequestTimeout" | "InternalError")
            // What was sent arrived as something else.
            | (_, "BadDigest" | "InvalidDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody")
            | (408 | 409 | 425 | 500 | 502 | 504, _) => StoreError::Transient(text),
            // The last is versitygw's code for unknown keys.
            (_, "AuthorizationHeaderMalformed" | "InvalidToken" | "InvalidAccessKeyId")
            | (_, "SignatureDoesNotMatch" | "XAdminUserNotFound")
            | (401 | 403, _) => StoreError::Denied(text),
            (501, _) | (_, "NotImplemented") => StoreError::Unsupported(text),
            _ => StoreError::Other(text),
        }
    }
}

impl Fault {
    /// What it means to the caller.
    pub(super) fn error(&self) -> StoreError {
        match self {
            Self::Refused(refusal) => refusal.error(),
            // Those that came make room for it.
            Self::Silent(_) | Self::Slow(_) | Self::Broken(_) | Self::Crowded => {
                StoreError::Transient(self.to_string())
            }
            Self::NoKeys(_) => StoreError::Denied(self.to_string()),
            Self::Wrong(_) | Self::Long => StoreError::Other(self.to_string()),
        }
    }
}

/// What it means where an object was to be read: an answer that is longer than what was asked for
/// is damage, and so is a range that the object does not have.
pub(super) fn reading(key: &str, fault: &Fault) -> StoreError {
    match fault {
        Fault::Long => StoreError::damaged(key, Fault::Long),
        Fault::Refused(refusal) if refusal.status == 416 => {
            StoreError::damaged(key, "it is shorter than it was")
        }
        fault => fault.error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str) -> StoreError {
        let body = format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
        Refusal::new(status, body.as_bytes()).error()
    }

    #[test]
    fn only_a_missing_key_is_missing() {
        assert_eq!(error(404, "NoSuchKey"), StoreError::NotFound);
        for code in ["NoSuchBucket", "NoSuchUpload", ""] {
            assert!(matches!(error(404, code), StoreError::Other(_)), "{code}");
        }
        let bare = Refusal::new(404, b"<html>not here</html>").error();
        assert_eq!(bare, StoreError::Other("the server answered 404".into()));
    }

    #[test]
    fn refusals_are_told_apart() {
        assert_eq!(error(412, "PreconditionFailed"), StoreError::Precondition);
        let denied = error(403, "AccessDenied").to_string();
        assert!(
            denied.starts_with("refused: 403 AccessDenied: why (the rights"),
            "{denied}"
        );
        let text = "400 ExpiredToken: why".to_owned();
        assert_eq!(error(400, "ExpiredToken"), StoreError::Expired(text));
        let skewed = error(403, "RequestTimeTooSkewed");
        assert_eq!(skewed, StoreError::Skewed { ahead: 0 });
        assert!(matches!(error(503, "SlowDown"), StoreError::Busy(_)));
        assert!(matches!(error(429, ""), StoreError::Busy(_)));
        for (status, code) in [(500, ""), (409, "OperationAborted")] {
            assert!(
                matches!(error(status, code), StoreError::Transient(_)),
                "{code}"
            );
        }
        let nobody = error(404, "XAdminUserNotFound");
        assert!(matches!(nobody, StoreError::Denied(_)));
        assert!(matches!(
            error(501, "NotImplemented"),
            StoreError::Unsupported(_)
        ));
        assert!(matches!(error(400, "EntityTooLarge"), StoreError::Other(_)));
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
