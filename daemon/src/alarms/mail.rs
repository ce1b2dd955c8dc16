//! A message by mail: handed to `sendmail`, or to a server by SMTP.
//!
//! `sendmail -t` is what every mail system provides; it takes the receivers from the header. A
//! server is asked for its name in the certificate unless TLS is turned off, which is for
//! servers on this machine.

use super::child;
use cenote_engine::{Alarm, AlarmSendError, AlarmWay};
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

/// Letters of a subject: longer lines of a header would have to be folded.
const SUBJECT_MAX: usize = 200;

/// From whom and to whom.
#[derive(Clone, Debug)]
pub struct Letterhead {
    pub from: Option<String>,
    pub to: Vec<String>,
}

/// Header and text of a message, with the ends of lines that mail has.
pub fn message(head: &Letterhead, alarm: &Alarm, zone: &TimeZone) -> Vec<u8> {
    let subject = format!("[{}] {}", alarm.severity.word(), alarm.subject);
    let plain = |letter: char| match letter {
        ' '..='~' => letter,
        // Headers are plain text; the message itself has the letter.
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
    // Answers of absent people are not wanted.
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

/// `sendmail` or what stands in for it.
pub struct Sendmail {
    pub head: Letterhead,
    pub path: PathBuf,
    pub limit: Duration,
}

impl AlarmWay for Sendmail {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let mut command = Command::new(&self.path);
        // -i: a line with a dot alone does not end the message.
        command.args(["-t", "-i"]);
        let text = message(&self.head, alarm, &TimeZone::system());
        // A program on this machine reads lines as they are here.
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        child::run(command, text.into_bytes(), self.limit)
    }
}

/// How the connection to a server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// TLS from the beginning.
    Tls,
    /// TLS after a plain beginning; without it nothing is sent.
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
    /// The sender and receivers as a server knows them: full addresses.
    pub fn envelope(head: &Letterhead) -> Result<Envelope, String> {
        let address = |text: &String| {
            // Between angle brackets, if a name stands before it.
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
        // The outermost error names only the step.
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
