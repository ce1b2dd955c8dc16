//! Servers whose very certificate is among those that the user trusts.
//!
//! A small server has a certificate that it signed itself, as `openssl req -x509` makes them. Such
//! a certificate calls itself an authority, and often has the server's name only as its common
//! name. The usual rules refuse both. But a user that lists this certificate means this server. So
//! a certificate that is listed, byte for byte, is accepted if the name and the dates fit; in the
//! handshake the server proves, as always, that it has the key.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The usual rules, and listed certificates.
#[derive(Debug)]
pub(crate) struct ListedVerifier {
    pub usual: Arc<WebPkiServerVerifier>,
    pub listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for ListedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let is_listed = || self.listed.iter().any(|listed| listed == end_entity);
        match usual {
            Err(_) if is_listed() && fits(end_entity, server_name, now) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Whether a certificate is for this server, now.
fn fits(certificate: &CertificateDer<'_>, server: &ServerName<'_>, now: UnixTime) -> bool {
    let Some(facts) = Facts::of(certificate) else {
        return false;
    };
    let parsed = ParsedCertificate::try_from(certificate);
    let is_named = parsed.is_ok_and(|parsed| verify_server_name(&parsed, server).is_ok());
    let is_called = || {
        let name = server.to_str();
        facts
            .common_name
            .is_some_and(|called| called.eq_ignore_ascii_case(name.as_bytes()))
    };
    // The common name counts only where there are no others.
    let is_for_it = is_named || !facts.has_other_names && is_called();
    is_for_it && facts.dates.contains(&now.as_secs())
}

/// What a certificate says (RFC 5280, 4.1).
#[derive(Debug, PartialEq, Eq)]
struct Facts<'a> {
    /// Seconds since the epoch.
    dates: RangeInclusive<u64>,
    common_name: Option<&'a [u8]>,
    has_other_names: bool,
}

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// `id-at-commonName` and `id-ce-subjectAltName`.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const OTHER_NAMES: [u8; 5] = [OBJECT, 3, 0x55, 0x1d, 0x11];

impl<'a> Facts<'a> {
    fn of(certificate: &'a [u8]) -> Option<Self> {
        let (body, _) = expect(SEQUENCE, certificate)?;
        let (body, _) = expect(SEQUENCE, body)?;
        let has_other_names = body
            .windows(OTHER_NAMES.len())
            .any(|part| part == OTHER_NAMES);
        let rest = match element(body)? {
            (VERSION, _, rest) => rest,
            _ => body,
        };
        let (_, rest) = expect(INTEGER, rest)?;
        let (_, rest) = expect(SEQUENCE, rest)?;
        let (_, rest) = expect(SEQUENCE, rest)?;
        let (dates, rest) = expect(SEQUENCE, rest)?;
        let (from, until) = moment(dates)?;
        let (to, _) = moment(until)?;
        let (mut subject, _) = expect(SEQUENCE, rest)?;
        let mut common_name = None;
        while !subject.is_empty() {
            let (part, next) = expect(SET, subject)?;
            let (pair, _) = expect(SEQUENCE, part)?;
            let (kind, value) = expect(OBJECT, pair)?;
            if kind == COMMON_NAME {
                common_name = Some(element(value)?.1);
            }
            subject = next;
        }
        Some(Self {
            dates: from..=to,
            common_name,
            has_other_names,
        })
    }
}

/// The first element of DER: its tag, what is in it, and what follows.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], mut rest) = input.split_first_chunk()?;
    let mut length = usize::from(short);
    if short >= 0x80 {
        let count = usize::from(short & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (bytes, more) = rest.split_at_checked(count)?;
        length = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = more;
    }
    let (body, rest) = rest.split_at_checked(length)?;
    Some((tag, body, rest))
}

fn expect(tag: u8, input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, body, rest) = element(input)?;
    (found == tag).then_some((body, rest))
}

/// A time as seconds since the epoch, and what follows it.
fn moment(input: &[u8]) -> Option<(u64, &[u8])> {
    let (tag, text, rest) = element(input)?;
    let (year, text) = match (tag, number(text.get(..2)?)?) {
        (UTC_TIME, year) if year >= 50 => (1900 + year, text.get(2..)?),
        (UTC_TIME, year) => (2000 + year, text.get(2..)?),
        (TIME, century) => (century * 100 + number(text.get(2..4)?)?, text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| number(text.get(at..at + 2)?);
    let (month, day) = (part(0)?, part(2)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    if !is_date || text.get(10..) != Some(b"Z") {
        return None;
    }
    // Days since March 1st of the year 0: years begin with March here, so leap days come last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leaps + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = (part(4)? * 60 + part(6)?) * 60 + part(8)?;
    Some((days * 86_400 + seconds, rest))
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tag: u8, text: &str) -> Option<u64> {
        let length = u8::try_from(text.len()).expect("short");
        let bytes = [&[tag, length], text.as_bytes()].concat();
        moment(&bytes).map(|(seconds, _)| seconds)
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds(UTC_TIME, "231114221320Z"), Some(1_700_000_000));
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(TIME, "20240229000000Z"), Some(1_709_164_800));
        assert_eq!(seconds(TIME, "20510301000000Z"), Some(2_561_241_600));
        for wrong in ["", "23", "231314221320Z", "231114221320", "2311142213zzZ"] {
            assert_eq!(seconds(UTC_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(seconds(0x04, "231114221320Z"), None);
    }

    #[test]
    fn no_bytes_panic() {
        let mut bytes = vec![
            SEQUENCE, 0x82, 1, 0, SEQUENCE, 0x81, 0xf0, VERSION, 3, INTEGER, 1, 2,
        ];
        bytes.resize(300, SEQUENCE);
        for end in 0..bytes.len() {
            assert_eq!(Facts::of(&bytes[..end]), None);
        }
        for length in [[SEQUENCE, 0x80], [SEQUENCE, 0xff], [SEQUENCE, 0x85]] {
            assert_eq!(element(&length), None);
        }
    }
}
