//! The configuration file for alarms: which events are alarms, and where they are sent.
//!
//! Unknown keys are errors, reported with their line: an alarm that is silently not sent is worse
//! than a daemon that does not start. When the file is read, the programs, addresses and passwords
//! in it are checked as far as possible without network.
//!
//! Users that can write the file can make the daemon run programs. So it must belong to the
//! daemon's user or root, and other users must not be able to write it.

use super::mail::{Letterhead, Protection, Sendmail, Smtp};
use super::places::{WantedFile, place};
use super::program::Program;
use super::webhook::Webhook;
use cenote_alarms::{
    AlarmKind, AlarmLimits, AlarmPlan, AlarmPlanError, AlarmSeverity, AlarmSource, AlarmWay,
    AlarmWayPlan,
};
use cenote_control::regular;
use cenote_http_client::http::{HeaderName, HeaderValue, Uri};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of channels; more are a mistake.
const WAYS_MAX: usize = 32;
/// Maximum size of the file.
const SIZE_MAX: u64 = 1 << 20;
/// Maximum of a time limit, in seconds.
const TIMEOUT_MAX: u64 = 600;
/// Maximum of other times, in seconds: a year.
const TIME_MAX: u64 = 366 * 86_400;
/// Where mail systems install their program.
const SENDMAILS: [&str; 3] = [
    "/usr/sbin/sendmail",
    "/usr/lib/sendmail",
    "/usr/bin/sendmail",
];

/// The complete file.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    full_percent: u64,
    scrub_days: u64,
    gather_seconds: u64,
    repeat_seconds: u64,
    retry_seconds: Vec<u64>,
    mail: Vec<MailTable>,
    webhook: Vec<WebhookTable>,
    program: Vec<ProgramTable>,
}

impl Default for File {
    fn default() -> Self {
        let limits = AlarmLimits::default();
        Self {
            full_percent: limits.full_percent,
            scrub_days: limits.scrub_days,
            gather_seconds: limits.gather.as_secs(),
            repeat_seconds: limits.repeat.as_secs(),
            retry_seconds: vec![5, 30, 120, 600, 3600],
            mail: Vec::new(),
            webhook: Vec::new(),
            program: Vec::new(),
        }
    }
}

/// A `[[mail]]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MailTable {
    name: Option<String>,
    on: Option<Vec<Kind>>,
    least: Option<Severity>,
    timeout_seconds: Option<u64>,
    to: Vec<String>,
    from: Option<String>,
    sendmail: Option<PathBuf>,
    smtp: Option<String>,
    port: Option<u16>,
    tls: Option<Tls>,
    user: Option<String>,
    password_file: Option<PathBuf>,
}

/// A `[[webhook]]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookTable {
    name: Option<String>,
    on: Option<Vec<Kind>>,
    least: Option<Severity>,
    timeout_seconds: Option<u64>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A `[[program]]` table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTable {
    name: Option<String>,
    on: Option<Vec<Kind>>,
    least: Option<Severity>,
    timeout_seconds: Option<u64>,
    path: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Device,
    Errors,
    Data,
    Suspended,
    Scan,
    Full,
    Scrub,
    Daemon,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Note,
    Attention,
    Danger,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Tls {
    Yes,
    Starttls,
    No,
}

impl From<Kind> for AlarmKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Device => AlarmKind::Device,
            Kind::Errors => AlarmKind::Errors,
            Kind::Data => AlarmKind::Data,
            Kind::Suspended => AlarmKind::Suspended,
            Kind::Scan => AlarmKind::Scan,
            Kind::Full => AlarmKind::Full,
            Kind::Scrub => AlarmKind::Scrub,
            Kind::Daemon => AlarmKind::Daemon,
        }
    }
}

/// The keys that the tables of all channels share.
struct Common {
    name: Option<String>,
    on: Option<Vec<Kind>>,
    least: Option<Severity>,
    kind: &'static str,
    target: String,
}

impl Common {
    fn plan(self, way: Arc<dyn AlarmWay>) -> AlarmWayPlan {
        let all = || AlarmKind::ALL.to_vec();
        let some = |on: Vec<Kind>| on.into_iter().map(AlarmKind::from).collect();
        AlarmWayPlan {
            name: self.name.unwrap_or_else(|| self.kind.to_owned()),
            kind: self.kind,
            target: self.target,
            on: self.on.map_or_else(all, some),
            least: match self.least {
                None | Some(Severity::Note) => AlarmSeverity::Note,
                Some(Severity::Attention) => AlarmSeverity::Attention,
                Some(Severity::Danger) => AlarmSeverity::Danger,
            },
            way,
        }
    }
}

fn limit(seconds: Option<u64>) -> Result<Duration, String> {
    match seconds.unwrap_or(30) {
        seconds @ 1..=TIMEOUT_MAX => Ok(Duration::from_secs(seconds)),
        seconds => Err(format!(
            "timeout_seconds = {seconds} is not between 1 and {TIMEOUT_MAX}"
        )),
    }
}

/// Checks that a program can be run. It must be a path, because there is no search for names.
fn check_program(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("'{shown}' is no absolute path"));
    }
    let found = std::fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
    match found.is_file() && found.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(format!("{shown} is no program")),
    }
}

/// Checks text for a header: control characters could begin another header.
fn check_line(what: &str, text: &str) -> Result<(), String> {
    match text.chars().any(char::is_control) || text.trim().is_empty() {
        true => Err(format!("{what} {text:?} is no line of text")),
        false => Ok(()),
    }
}

impl MailTable {
    fn plan(self) -> Result<AlarmWayPlan, String> {
        let limit = limit(self.timeout_seconds)?;
        if self.to.is_empty() {
            return Err("'to' is empty".to_owned());
        }
        let addresses = self.to.iter().chain(&self.from);
        for address in addresses {
            check_line("the address", address)?;
        }
        let head = Letterhead {
            from: self.from.clone(),
            to: self.to.clone(),
        };
        let (target, way) = match &self.smtp {
            Some(server) => self.by_smtp(server.clone(), head, limit)?,
            None => self.by_sendmail(head, limit)?,
        };
        let common = Common {
            name: self.name,
            on: self.on,
            least: self.least,
            kind: "mail",
            target,
        };
        Ok(common.plan(way))
    }

    fn by_sendmail(
        &self,
        head: Letterhead,
        limit: Duration,
    ) -> Result<(String, Arc<dyn AlarmWay>), String> {
        let others = [
            (self.port.is_some(), "port"),
            (self.tls.is_some(), "tls"),
            (self.user.is_some(), "user"),
            (self.password_file.is_some(), "password_file"),
        ];
        if let Some((_, key)) = others.iter().find(|(is_set, _)| *is_set) {
            return Err(format!("'{key}' means nothing without 'smtp'"));
        }
        let usual = || {
            let mut places = SENDMAILS.iter().map(Path::new);
            places.find(|place| place.exists()).map(Path::to_owned)
        };
        let path =
            self.sendmail.clone().or_else(usual).ok_or(
                "there is no sendmail on this system: install a mail system, or set 'smtp'",
            )?;
        check_program(&path)?;
        let target = format!("{} by {}", head.to.join(", "), path.display());
        Ok((target, Arc::new(Sendmail { head, path, limit })))
    }

    fn by_smtp(
        &self,
        server: String,
        head: Letterhead,
        limit: Duration,
    ) -> Result<(String, Arc<dyn AlarmWay>), String> {
        if self.sendmail.is_some() {
            return Err("'sendmail' and 'smtp' exclude each other".to_owned());
        }
        check_line("the server", &server)?;
        let (protection, port) = match self.tls.unwrap_or(Tls::Yes) {
            Tls::Yes => (Protection::Tls, 465),
            Tls::Starttls => (Protection::StartTls, 587),
            Tls::No => (Protection::None, 25),
        };
        let port = self.port.unwrap_or(port);
        let password = self.password_file.as_deref().map(password).transpose()?;
        let user = match (self.user.clone(), password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err("'user' and 'password_file' belong together".to_owned()),
        };
        if user.is_some() && protection == Protection::None {
            return Err("a password is not sent without TLS: take out tls = \"no\"".to_owned());
        }
        let target = format!("{} by {server}:{port}", head.to.join(", "));
        let envelope = Smtp::envelope(&head)?;
        let way = Smtp {
            head,
            envelope,
            server,
            port,
            protection,
            user,
            limit,
        };
        Ok((target, Arc::new(way)))
    }
}

/// The first line of a file that only its owner can read.
fn password(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let fail = |error: std::io::Error| format!("{shown}: {error}");
    let found = std::fs::metadata(path).map_err(fail)?;
    if found.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "{shown} can be read by others: run 'chmod 600 {shown}'"
        ));
    }
    if found.len() > SIZE_MAX {
        return Err(format!("{shown} is too large for a password"));
    }
    let text = regular::read_text(path, SIZE_MAX).map_err(fail)?;
    let line = text.lines().next().unwrap_or_default();
    match line.is_empty() {
        true => Err(format!("{shown} holds no password")),
        false => Ok(line.to_owned()),
    }
}

impl WebhookTable {
    fn plan(self) -> Result<AlarmWayPlan, String> {
        let limit = limit(self.timeout_seconds)?;
        check_line("the url", &self.url)?;
        let uri = self.url.parse::<Uri>();
        let is_known = uri.is_ok_and(|uri| {
            let scheme = uri.scheme_str();
            matches!(scheme, Some("http" | "https")) && uri.host().is_some()
        });
        if !is_known {
            return Err(format!("'{}' is no http or https address", self.url));
        }
        for (name, value) in &self.headers {
            let name_is_right = name.parse::<HeaderName>().is_ok();
            let value_is_right = value.parse::<HeaderValue>().is_ok();
            if !name_is_right || !value_is_right {
                return Err(format!("the header '{name}' cannot be sent"));
            }
        }
        let common = Common {
            name: self.name,
            on: self.on,
            least: self.least,
            kind: "webhook",
            target: self.url.clone(),
        };
        Ok(common.plan(Arc::new(Webhook {
            url: self.url,
            headers: self.headers.into_iter().collect(),
            limit,
        })))
    }
}

impl ProgramTable {
    fn plan(self) -> Result<AlarmWayPlan, String> {
        let limit = limit(self.timeout_seconds)?;
        check_program(&self.path)?;
        let common = Common {
            name: self.name,
            on: self.on,
            least: self.least,
            kind: "program",
            target: self.path.display().to_string(),
        };
        Ok(common.plan(Arc::new(Program {
            path: self.path,
            arguments: self.arguments,
            limit,
        })))
    }
}

fn seconds(name: &str, seconds: u64) -> Result<Duration, String> {
    match seconds <= TIME_MAX {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(format!("{name} = {seconds} is more than a year")),
    }
}

/// Parses the file.
fn parse(text: &str) -> Result<AlarmPlan, String> {
    let file: File = toml::from_str(text).map_err(|error| said(text, &error))?;
    if file.full_percent > 100 {
        return Err(format!(
            "full_percent = {} is more than 100",
            file.full_percent
        ));
    }
    let retries = file.retry_seconds.iter();
    let retries = retries.map(|time| seconds("retry_seconds", *time));
    let mut ways = Vec::new();
    let place = |kind: &str, index: usize| format!("[[{kind}]] number {}", index + 1);
    for (index, table) in file.mail.into_iter().enumerate() {
        ways.push((place("mail", index), table.plan()));
    }
    for (index, table) in file.webhook.into_iter().enumerate() {
        ways.push((place("webhook", index), table.plan()));
    }
    for (index, table) in file.program.into_iter().enumerate() {
        ways.push((place("program", index), table.plan()));
    }
    if ways.len() > WAYS_MAX {
        return Err(format!("there are more than {WAYS_MAX} ways"));
    }
    let told = |(place, plan): (String, Result<AlarmWayPlan, String>)| {
        plan.map_err(|reason| format!("{place}: {reason}"))
    };
    let mut plan = AlarmPlan {
        limits: AlarmLimits {
            full_percent: file.full_percent,
            scrub_days: file.scrub_days,
            gather: seconds("gather_seconds", file.gather_seconds)?,
            repeat: seconds("repeat_seconds", file.repeat_seconds)?,
        },
        retries: retries.collect::<Result<_, _>>()?,
        ways: ways.into_iter().map(told).collect::<Result<_, _>>()?,
        file: None,
    };
    name_apart(&mut plan.ways);
    Ok(plan)
}

/// Numbers channels with the same name, so that messages distinguish them.
fn name_apart(ways: &mut [AlarmWayPlan]) {
    let mut seen = HashSet::new();
    for way in ways {
        let mut name = way.name.clone();
        for number in 2.. {
            if seen.insert(name.clone()) {
                break;
            }
            name = format!("{}-{number}", way.name);
        }
        way.name = name;
    }
}

/// An error with its line number, in one line.
fn said(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let reason = error.message().replace('\n', ", ");
    match before {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {reason}")
        }
        None => reason,
    }
}

/// The configuration file of this daemon, read again at each request.
pub struct AlarmFile {
    place: Option<WantedFile>,
}

impl AlarmFile {
    /// The given file, otherwise the default one.
    pub fn find(given: Option<PathBuf>) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self {
            place: place(given, is_root, &|name| std::env::var_os(name)),
        }
    }
}

impl AlarmSource for AlarmFile {
    fn load(&self) -> Result<AlarmPlan, AlarmPlanError> {
        let Some(place) = &self.place else {
            return Ok(AlarmPlan::default());
        };
        let shown = place.path.display();
        let fail = |reason: String| AlarmPlanError {
            message: format!("{shown}: {reason}"),
        };
        match read(&place.path) {
            Ok(text) => {
                let mut plan = parse(&text).map_err(fail)?;
                plan.file = Some(shown.to_string());
                Ok(plan)
            }
            Err(Fault::Absent) if !place.is_wanted => Ok(AlarmPlan::default()),
            Err(Fault::Absent) => Err(fail("there is no such file".to_owned())),
            Err(Fault::Other(reason)) => Err(fail(reason)),
        }
    }
}

enum Fault {
    Absent,
    Other(String),
}

/// The text of a file, which other users must not be able to write.
fn read(path: &Path) -> Result<String, Fault> {
    let fail = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Fault::Absent,
        _ => Fault::Other(error.to_string()),
    };
    let found = std::fs::metadata(path).map_err(fail)?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        return Err(Fault::Other("it belongs to another user".to_owned()));
    }
    if found.permissions().mode() & 0o022 != 0 {
        return Err(Fault::Other(
            "others may write it: run 'chmod go-w'".to_owned(),
        ));
    }
    if !found.is_file() || found.len() > SIZE_MAX {
        return Err(Fault::Other(
            "it is no file of a reasonable size".to_owned(),
        ));
    }
    regular::read_text(path, SIZE_MAX).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match parse(text) {
            Ok(_) => panic!("'{text}' is right"),
            Err(fault) => fault,
        }
    }

    #[test]
    fn a_file_with_every_key_is_understood() {
        let text = r#"
            full_percent = 90
            scrub_days = 0
            gather_seconds = 1
            repeat_seconds = 60
            retry_seconds = [1, 2]
            [[mail]]
            to = ["root", "Admin <me@example.org>"]
            sendmail = "/bin/sh"
            on = ["device", "errors", "data", "suspended", "scan", "full", "scrub"]
            [[mail]]
            name = "relay"
            smtp = "mail.example.org"
            tls = "starttls"
            from = "nas@example.org"
            to = ["Admin <me@example.org>"]
            timeout_seconds = 5
            [[webhook]]
            url = "https://example.org/hook?x=1"
            headers = { Authorization = "Bearer x" }
            least = "danger"
            [[program]]
            path = "/bin/sh"
            arguments = ["-c", "true"]
        "#;
        let plan = parse(text).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((plan.limits.full_percent, plan.limits.scrub_days), (90, 0));
        assert_eq!(plan.retries, [1, 2].map(Duration::from_secs));
        let ways: Vec<(&str, &str)> = plan
            .ways
            .iter()
            .map(|way| (way.name.as_str(), way.target.as_str()))
            .collect();
        let expected = [
            ("mail", "root, Admin <me@example.org> by /bin/sh"),
            ("relay", "Admin <me@example.org> by mail.example.org:587"),
            ("webhook", "https://example.org/hook?x=1"),
            ("program", "/bin/sh"),
        ];
        assert_eq!(ways, expected);
        assert_eq!(plan.ways[2].least, AlarmSeverity::Danger);
        assert_eq!(plan.ways[3].on, AlarmKind::ALL);
        let nothing = parse("").unwrap_or_else(|fault| panic!("{fault}"));
        assert!(nothing.ways.is_empty() && nothing.limits.full_percent == 80);
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let faults = [
            ("\nfull_procent = 3", "line 2: unknown field `full_procent`"),
            ("full_percent = 101", "more than 100"),
            ("full_percent = \"x\"", "line 1: invalid type"),
            ("retry_seconds = [99999999999]", "more than a year"),
            ("[[mail]]\nsendmail = \"/bin/sh\"", "missing field `to`"),
            ("[[mail]]\nto = []", "[[mail]] number 1: 'to' is empty"),
            ("[[mail]]\nto = [\"a\\nBcc: b\"]", "is no line of text"),
            (
                "[[mail]]\nto = [\"a\"]\nport = 1",
                "'port' means nothing without 'smtp'",
            ),
            ("[[mail]]\nto = [\"a\"]\nsmtp = \"h\"", "'from' is missing"),
            (
                "[[mail]]\nto = [\"a\"]\nsmtp = \"h\"\nfrom = \"a@b\"",
                "'a' is no full address",
            ),
            (
                "[[mail]]\nto = [\"a@b\"]\nsmtp = \"h\"\nfrom = \"a@b\"\nuser = \"u\"",
                "together",
            ),
            (
                "[[webhook]]\nurl = \"ftp://x\"",
                "is no http or https address",
            ),
            (
                "[[webhook]]\nurl = \"http://x\"\nheaders = {\"a b\" = \"c\"}",
                "cannot be sent",
            ),
            (
                "[[webhook]]\nurl = \"http://x\"\non = [\"scrubs\"]",
                "line 3: unknown variant",
            ),
            ("[[program]]\npath = \"x\"", "is no absolute path"),
            ("[[program]]\npath = \"/no/such\"", "/no/such: No such file"),
            ("[[program]]\npath = \"/etc/passwd\"", "is no program"),
            (
                "[[program]]\npath = \"/bin/sh\"\ntimeout_seconds = 0",
                "between 1 and 600",
            ),
        ];
        for (text, expected) in faults {
            let found = fault(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("alarms.toml");
        let file = AlarmFile::find(Some(path.clone()));
        let said = |file: &AlarmFile| match file.load() {
            Ok(plan) => plan.file.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert!(said(&file).ends_with("there is no such file"));
        std::fs::write(&path, "full_percent = 70").expect("a file");
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode(0o666)).expect("permissions");
        assert!(
            said(&file).contains("others may write it"),
            "{}",
            said(&file)
        );
        std::fs::set_permissions(&path, mode(0o644)).expect("permissions");
        assert_eq!(said(&file), path.display().to_string());
    }
}
