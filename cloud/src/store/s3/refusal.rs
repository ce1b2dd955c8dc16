//! What follows from a request that was refused or had no answer.

use crate::store::StoreError;
use cenote_s3::{Fault, Refusal};

fn of_refusal(refusal: &Refusal) -> StoreError {
    let text = refusal.text();
    match (refusal.status, &*refusal.code) {
            (404, "NoSuchKey") => StoreError::NotFound,
            (412, _) => StoreError::Precondition,
            (_, "RequestTimeTooSkewed") => StoreError::Skewed {
                ahead: refusal.ahead.unwrap_or(0),
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

/// What a failure means to the caller.
pub(super) fn meaning(fault: &Fault) -> StoreError {
    match fault {
        Fault::Refused(refusal) => of_refusal(refusal),
        // Those that came make room for it.
        Fault::Silent(_) | Fault::Slow(_) | Fault::Broken(_) | Fault::Crowded => {
            StoreError::Transient(fault.to_string())
        }
        Fault::NoKeys(_) => StoreError::Denied(fault.to_string()),
        Fault::Wrong(_) | Fault::Long => StoreError::Other(fault.to_string()),
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
        fault => meaning(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str) -> StoreError {
        let body = format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
        of_refusal(&Refusal::new(status, body.as_bytes()))
    }

    #[test]
    fn only_a_missing_key_is_missing() {
        assert_eq!(error(404, "NoSuchKey"), StoreError::NotFound);
        for code in ["NoSuchBucket", "NoSuchUpload", ""] {
            assert!(matches!(error(404, code), StoreError::Other(_)), "{code}");
        }
        let bare = of_refusal(&Refusal::new(404, b"<html>not here</html>"));
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
}
