//! Progress of long commands: a bar on a terminal, occasional lines in a log, or JSON.
//!
//! Everything goes to standard error, so that standard output carries only results.

use cenote_base::rt::job;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The interval of lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The interval of JSON lines.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A bar on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// One JSON object per line.
    Json,
    /// Not at all.
    Quiet,
}

/// The state of a log or of JSON lines.
#[derive(Debug)]
struct Lines {
    is_json: bool,
    interval: Duration,
    start: Instant,
    last: Instant,
    /// Whether anything was printed: short runs leave no trace.
    printed: bool,
    done: u64,
    total: Option<u64>,
    at: String,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
    Nothing,
}

/// The progress of one command.
#[derive(Debug)]
pub struct Progress(Shown);

impl Progress {
    /// Progress over `total` bytes, if that many are known.
    pub fn new(style: Style, total: Option<u64>) -> Self {
        Self::with_interval(style, total, LOG_INTERVAL)
    }

    /// As [`Self::new`], with this interval of lines in a log.
    pub fn with_interval(style: Style, total: Option<u64>, log_interval: Duration) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let lines = |is_json, interval| {
            let now = Instant::now();
            Shown::Lines(Mutex::new(Lines {
                is_json,
                interval,
                start: now,
                last: now,
                printed: false,
                done: 0,
                total,
                at: String::new(),
            }))
        };
        Self(match style {
            Style::Quiet => Shown::Nothing,
            Style::Json => lines(true, JSON_INTERVAL),
            Style::Auto if is_terminal => Shown::Bar(bar(total)),
            Style::Auto => lines(false, log_interval),
        })
    }

    /// Sets how much is done, the total, and the current item.
    pub fn set(&self, done: u64, total: Option<u64>, at: &str) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                if let Some(total) = total.filter(|total| bar.length() != Some(*total)) {
                    if bar.length().is_none() {
                        bar.set_style(style(true));
                    }
                    bar.set_length(total);
                }
                bar.set_position(done);
                if bar.message() != at {
                    bar.set_message(crate::format::harmless::escaped(at.as_bytes()));
                }
            }
            Shown::Lines(lines) => {
                let mut lines = lines
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                (lines.done, lines.total) = (done, total.or(lines.total));
                if lines.at != at {
                    lines.at = at.to_owned();
                }
                lines.tick();
            }
        }
    }

    /// Hides the bar while `message` prints.
    pub fn interrupt(&self, message: impl FnOnce()) {
        match &self.0 {
            Shown::Bar(bar) => bar.suspend(message),
            Shown::Lines(_) | Shown::Nothing => message(),
        }
    }

    /// Ends the progress: removes the bar, or writes the last line if a log was begun.
    pub fn finish(&self) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines(lines) => {
                let mut lines = lines
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                if lines.printed || lines.is_json {
                    lines.print();
                }
            }
        }
    }
}

/// The style of a bar; it shows more if the total is known.
fn style(has_total: bool) -> ProgressStyle {
    let template = match has_total {
        true => "{wide_msg} {bytes}/{total_bytes} [{bar:24}] {binary_bytes_per_sec} {eta} left",
        false => "{wide_msg} {bytes} {binary_bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    style.progress_chars("=> ")
}

fn bar(total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    bar.set_style(style(total.is_some()));
    bar
}

impl Lines {
    fn tick(&mut self) {
        if self.last.elapsed() >= self.interval {
            self.print();
        }
    }

    fn print(&mut self) {
        self.last = Instant::now();
        self.printed = true;
        let elapsed = self.start.elapsed();
        let seconds = elapsed.as_secs_f64();
        let progress = job::Progress {
            done: self.done,
            total: self.total.unwrap_or(0),
            fresh: self.done,
            elapsed,
        };
        let rate = progress.rate();
        let left = progress.seconds_left().filter(|_| self.total.is_some());
        if self.is_json {
            let mut value = json!({
                "done": self.done,
                "bytes_per_second": rate,
                "seconds": (seconds * 1000.0).round() / 1000.0,
                "at": self.at,
            });
            if let Some(total) = self.total {
                value["total"] = total.into();
            }
            if let Some(left) = left {
                value["seconds_left"] = left.into();
            }
            eprintln!("{}", json!({"progress": value}));
            return;
        }
        let size = crate::format::number::nicebytes;
        let total = self.total.map(|total| format!("/{}", size(total)));
        let left = left.map(|left| format!(", {} left", time_text(left)));
        eprintln!(
            "cenote: {}{}, {}/s{}  {}",
            size(self.done),
            total.unwrap_or_default(),
            size(rate),
            left.unwrap_or_default(),
            crate::format::harmless::escaped(self.at.as_bytes()),
        );
    }
}

/// `45s`, `3m05s`, `2h07m`.
pub fn time_text(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let texts = [45, 185, 7620].map(time_text);
        assert_eq!(texts, ["45s", "3m05s", "2h07m"]);
    }

    #[test]
    fn every_template_is_well_formed() {
        bar(Some(10)).finish_and_clear();
        bar(None).finish_and_clear();
    }
}
