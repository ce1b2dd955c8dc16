//! What a client does: how many requests of which kind, how large, how aligned, how long.
//!
//! Counters only, so that requests do not wait for one another.

use super::{Filter, FilteredRequest, RequestKind};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The kinds, in the order of the report.
const KINDS: [(&str, RequestKind); 5] = [
    ("read", RequestKind::Read),
    ("write", RequestKind::Write),
    ("flush", RequestKind::Flush),
    ("trim", RequestKind::Trim),
    ("zero", RequestKind::Zero),
];
/// Slots of a histogram: powers of two, of any number of 64 bits.
const SLOTS: usize = 65;
/// From here on alignment is alike: 1 MiB.
const ALIGNMENT_MAX: usize = 20;
/// The longest bar of a histogram.
const BAR: u64 = 40;

#[derive(Debug)]
struct Histogram([AtomicU64; SLOTS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Histogram {
    fn count(&self, slot: usize) {
        self.0[slot.min(SLOTS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    fn values(&self) -> Vec<(usize, u64)> {
        let slots = self.0.iter().map(|slot| slot.load(Ordering::Relaxed));
        slots.enumerate().filter(|(_, count)| *count > 0).collect()
    }
}

#[derive(Debug, Default)]
struct OfKind {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    durable: AtomicU64,
    nanoseconds: AtomicU64,
    longest: AtomicU64,
    sizes: Histogram,
    alignments: Histogram,
    times: Histogram,
}

/// Counts requests.
#[derive(Debug, Default)]
pub struct Statistics([OfKind; KINDS.len()]);

/// The power of two at or below a number.
fn power(number: u64) -> usize {
    number.checked_ilog2().unwrap_or(0) as usize
}

impl Filter for Statistics {
    fn after(&self, request: &FilteredRequest, took: Duration, is_well: bool) {
        let kind = KINDS.iter().position(|(_, kind)| *kind == request.kind);
        let of = &self.0[kind.expect("each kind stands in the table")];
        let order = Ordering::Relaxed;
        of.requests.fetch_add(1, order);
        of.failures.fetch_add(u64::from(!is_well), order);
        of.durable.fetch_add(u64::from(request.is_durable), order);
        of.bytes.fetch_add(request.length, order);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        of.nanoseconds.fetch_add(nanoseconds, order);
        of.longest.fetch_max(nanoseconds, order);
        of.times.count(power(nanoseconds / 1000));
        if request.length > 0 {
            of.sizes.count(power(request.length));
            let aligned = (request.offset | request.length).trailing_zeros() as usize;
            of.alignments.count(aligned.min(ALIGNMENT_MAX));
        }
    }
}

/// `4 KiB` of 4096.
fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = power(number) / 10;
    match number.is_power_of_two() || number == 0 {
        true => format!("{} {}", number >> (unit * 10), units[unit]),
        false => format!(
            "{:.1} {}",
            number as f64 / (1_u64 << (unit * 10)) as f64,
            units[unit]
        ),
    }
}

/// `1.5 ms` of 1,500,000.
fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{} us", nanoseconds / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}

fn print(text: &mut String, title: &str, histogram: &Histogram, label: impl Fn(usize) -> String) {
    let values = histogram.values();
    let most = values.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let _ = writeln!(text, "  {title}");
    for (slot, count) in values {
        let length = (count * BAR).div_ceil(most) as usize;
        let bar = "#".repeat(length);
        let _ = writeln!(text, "    {:>10}  {count:>10}  {bar}", label(slot));
    }
}

impl Statistics {
    /// What was counted so far, for people.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for ((name, kind), of) in KINDS.iter().zip(&self.0) {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let requests = load(&of.requests);
            if requests == 0 {
                continue;
            }
            let plural = if requests == 1 { "" } else { "s" };
            let _ = write!(text, "{name}: {requests} request{plural}");
            if *kind != RequestKind::Flush {
                let _ = write!(text, ", {}", bytes(load(&of.bytes)));
            }
            let mean = time(load(&of.nanoseconds) / requests);
            let _ = write!(
                text,
                ", {mean} on average, {} at most",
                time(load(&of.longest))
            );
            for (count, what) in [(&of.durable, "with FUA"), (&of.failures, "failed")] {
                if load(count) > 0 {
                    let _ = write!(text, ", {} {what}", load(count));
                }
            }
            text.push('\n');
            print(&mut text, "size", &of.sizes, |slot| bytes(1 << slot));
            print(&mut text, "alignment", &of.alignments, |slot| {
                bytes(1 << slot)
            });
            print(&mut text, "time", &of.times, |slot| {
                time(1000 << slot.min(50))
            });
        }
        match text.is_empty() {
            true => "no requests\n".to_owned(),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_size_and_alignment() {
        let statistics = Statistics::default();
        assert_eq!(statistics.report(), "no requests\n");
        let mut request = FilteredRequest {
            kind: RequestKind::Write,
            offset: 0,
            length: 4096,
            is_durable: true,
        };
        for offset in [0, 4096, 512] {
            request.offset = offset;
            statistics.after(&request, Duration::from_micros(1500), offset > 0);
        }
        request.length = u64::MAX;
        request.kind = RequestKind::Trim;
        statistics.after(&request, Duration::MAX, true);
        request.kind = RequestKind::Flush;
        request.length = 0;
        statistics.after(&request, Duration::ZERO, true);
        let report = statistics.report();
        let expected = "write: 3 requests, 12.0 KiB, 1.5 ms on average, 1.5 ms at most, 3 with \
                        FUA, 1 failed\n";
        assert!(report.starts_with(expected), "{report}");
        for line in [
            "         4 KiB           3  ########",
            "         512 B           1  ####",
            "flush: 1 request, 0 us on average",
            "         8 EiB           1  ####",
        ] {
            assert!(report.contains(line), "{line}\n{report}");
        }
    }
}
