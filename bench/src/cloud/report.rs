//! The table: what each phase cost, and whether it keeps to its bar.

use super::line::Traffic;
use serde_json::{Value, json};

/// What a phase may cost at most; nothing said, anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bar {
    pub(super) seconds: Option<f64>,
    pub(super) requests: Option<u64>,
    /// Bytes.
    pub(super) sent: Option<u64>,
    /// Bytes.
    pub(super) received: Option<u64>,
}

impl Bar {
    pub(super) const NONE: Self = Self {
        seconds: None,
        requests: None,
        sent: None,
        received: None,
    };

    pub(super) const fn new(seconds: f64, requests: u64) -> Self {
        Self {
            seconds: Some(seconds),
            requests: Some(requests),
            ..Self::NONE
        }
    }

    /// What of it is missed.
    fn missed(&self, traffic: &Traffic) -> Vec<String> {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let mut missed = Vec::new();
        if let Some(bar) = self.seconds.filter(|bar| traffic.seconds > *bar) {
            missed.push(format!("more than {bar} s"));
        }
        if let Some(bar) = self.requests.filter(|bar| traffic.requests > *bar) {
            missed.push(format!("more than {bar} requests"));
        }
        if let Some(bar) = self.sent.filter(|bar| traffic.sent > *bar) {
            missed.push(format!("more than {} sent", megabytes(bar)));
        }
        if let Some(bar) = self.received.filter(|bar| traffic.received > *bar) {
            missed.push(format!("more than {} received", megabytes(bar)));
        }
        missed
    }
}

/// All rows so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Value>,
    has_missed: bool,
}

impl Report {
    /// Begins a part.
    pub(super) fn part(&self, title: &str) {
        println!(
            "\n{title:<44} {:>8} {:>8} {:>9} {:>9}",
            "seconds", "requests", "sent", "received"
        );
    }

    /// Puts a row, and judges it.
    pub(super) fn put(&mut self, name: &str, traffic: &Traffic, bar: Bar) {
        let missed = bar.missed(traffic);
        let has_bar = bar.seconds.is_some() || bar.requests.is_some();
        let verdict = match (has_bar, missed.is_empty()) {
            (false, _) => String::new(),
            (true, true) => "ok".into(),
            (true, false) => format!("MISSED: {}", missed.join(", ")),
        };
        println!(
            "  {name:<42} {:>8.2} {:>8} {:>8.2}M {:>8.2}M  {verdict}",
            traffic.seconds,
            traffic.requests,
            traffic.sent as f64 / 1e6,
            traffic.received as f64 / 1e6,
        );
        if !missed.is_empty() {
            println!("    ({})", traffic.kinds);
        }
        self.has_missed |= !missed.is_empty();
        self.rows.push(json!({
            "name": name,
            "seconds": traffic.seconds,
            "requests": traffic.requests,
            "sent": traffic.sent,
            "received": traffic.received,
            "kinds": traffic.kinds,
            "missed": missed,
        }));
    }

    pub(super) fn is_good(&self) -> bool {
        !self.has_missed
    }

    pub(super) fn json(&self) -> Value {
        Value::from(self.rows.clone())
    }
}
