//! Sends a message by mail: with `sendmail`, or to a server with SMTP.
//!
//! Every mail system provides `sendmail -t`, which takes the recipients from the header. A server
//! must have a certificate for its name, unless TLS is turned off, which is meant for servers on
//! this machine.

use super::child;
use cenote_alarms::{Alarm, AlarmSendError, AlarmWay};
use jiff::{Timestamp, tz::TimeZone};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, SmtpTransport, Transport};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Maximum length of a subject: longer header lines would have to be folded.
const SUBJECT_MAX: usize = 200;

/// The sender and the recipients.
#[derive(Clone, Debug)]
pub struct Letterhead {
    pub from: Option<String>,
    pub to: Vec<String>,
}

/// Header and text of a message, with CRLF line ends.
pub fn message(head: &Letterhead, alarm: &Alarm, zone: &TimeZone) -> Vec<u8> {
    let subject = format!("[{}] {}", alarm.severity.word(), alarm.subject);
    let plain = |letter: char| match letter {
        ' '..='~' => letter,
        // Headers are ASCII; the message itself has the letter.
        _ => '?',
    };
    let subject: String = subject.chars().take(SUBJECT_MAX).map(plain).collect();
    let mut lines = Vec::new();
    lines.extend(head.from.iter().map(|from| format!("From: {from}")));
    lines.push(format!("To: {}", head.to.join(", ")));
    lines.push(format!("Subject: {subject}"));
    let seconds = i64::try_from(alarm.event.seconds).unwrap_or_default();
    if let Ok(time) = Timestamp::from_second(seconds) {
        let time = time.to_zoned(zone.clone());
        let date = time.strftime("%a, %d %b %Y %H:%M:%S %z");
        lines.push(format!("Date: {date}"));
    }
    let id = (alarm.event.seconds, alarm.event.nanoseconds, alarm.event_id);
    let host: String = alarm.host.chars().map(plain).collect();
    lines.push(format!("Message-ID: <{}.{}.{}@{host}>", id.0, id.1, id.2));
    // Suppresses automatic replies.
    lines.push("Auto-Submitted: auto-generated".to_owned());
    lines.push("MIME-Version: 1.0".to_owned());
    lines.push("Content-Type: text/plain; charset=utf-8".to_owned());
    lines.push("Content-Transfer-Encoding: 8bit".to_owned());
    lines.push(String::new());
    lines.extend(alarm.text.lines().map(str::to_owned));
    if alarm.lost > 0 {
        let lost = alarm.lost;
        lines.push(format!(
            "\n{lost} alarms before this one could not be sent."
        ));
    }
    lines.push(format!(
        "\nHost {}, event {} ({}).",
        alarm.host, alarm.event_id, alarm.event.class
    ));
    let text = lines.join("\n") + "\n";
    text.replace('\n', "\r\n").into_bytes()
}

/// `sendmail` or a compatible program.
pub struct Sendmail {
    pub head: Letterhead,
    pub path: PathBuf,
    pub limit: Duration,
}

impl AlarmWay for Sendmail {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let mut command = Command::new(&self.path);
        // -i: a line with only a dot does not end the message.
        command.args(["-t", "-i"]);
        let text = message(&self.head, alarm, &TimeZone::system());
        // Local programs expect LF line ends.
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        child::run(command, text.into_bytes(), self.limit)
    }
}

/// The encryption of the connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// TLS from the start.
    Tls,
    /// STARTTLS; if the server does not support it, nothing is sent.
    StartTls,
    /// None.
    None,
}

/// A mail server.
pub struct Smtp {
    pub head: Letterhead,
    pub envelope: Envelope,
    pub server: String,
    pub port: u16,
    pub protection: Protection,
    pub user: Option<(String, String)>,
    pub limit: Duration,
}

impl Smtp {
    /// The sender and recipients for the server: bare addresses.
    pub fn envelope(head: &Letterhead) -> Result<Envelope, String> {
        let address = |text: &String| {
            // In angle brackets, if a name precedes it.
            let bare = text
                .rsplit_once('<')
                .and_then(|(_, rest)| rest.split_once('>'));
            let bare = bare.map_or(text.as_str(), |(bare, _)| bare);
            let parsed = bare.trim().parse::<Address>();
            parsed.map_err(|error| format!("'{text}' is no full address: {error}"))
        };
        let from = head
            .from
            .as_ref()
            .ok_or("'from' is missing, which SMTP needs")?;
        let to = head.to.iter().map(address).collect::<Result<_, _>>()?;
        Envelope::new(Some(address(from)?), to).map_err(|error| error.to_string())
    }

    fn place(&self) -> String {
        format!("{}:{}", self.server, self.port)
    }

    fn failed(&self, error: lettre::transport::smtp::Error) -> AlarmSendError {
        let place = self.place();
        if error.is_timeout() {
            let limit = self.limit;
            return AlarmSendError::Slow { place, limit };
        }
        // The outermost error only names the step.
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        match error.is_permanent() || error.is_transient() {
            true => AlarmSendError::Refused {
                place,
                answer: text,
            },
            false => AlarmSendError::Io {
                place,
                source: io::Error::other(text),
            },
        }
    }
}

impl AlarmWay for Smtp {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let parameters = || TlsParameters::new(self.server.clone());
        let tls = match self.protection {
            Protection::None => Ok(Tls::None),
            Protection::Tls => parameters().map(Tls::Wrapper),
            Protection::StartTls => parameters().map(Tls::Required),
        };
        let tls = tls.map_err(|error| self.failed(error))?;
        let mut builder = SmtpTransport::builder_dangerous(self.server.clone())
            .port(self.port)
            .timeout(Some(self.limit))
            .hello_name(ClientId::Domain(alarm.host.clone()))
            .tls(tls);
        if let Some((name, password)) = self.user.clone() {
            builder = builder.credentials(Credentials::new(name, password));
        }
        let text = message(&self.head, alarm, &TimeZone::system());
        let sent = builder.build().send_raw(&self.envelope, &text);
        sent.map(|_| ()).map_err(|error| self.failed(error))
    }
}
