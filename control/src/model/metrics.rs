//! Measurements, for `/metrics` and every command that shows figures of a running daemon.

use cenote_base::metrics;
use serde::{Deserialize, Serialize};

/// What kind of number a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Only grows while its owner exists.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A histogram of durations in nanoseconds.
    Durations,
    /// A histogram of sizes in bytes.
    Sizes,
    /// A number under a name of another program, which does not define its kind.
    Untyped,
}

impl From<metrics::Kind> for MetricKind {
    fn from(kind: metrics::Kind) -> Self {
        match kind {
            metrics::Kind::Counter => Self::Counter,
            metrics::Kind::Gauge => Self::Gauge,
            metrics::Kind::Durations => Self::Durations,
            metrics::Kind::Sizes => Self::Sizes,
        }
    }
}

/// A histogram: bucket *n* counts values from 2^n up to but not including 2^(n+1); the first also
/// counts zeros, the last of a full histogram everything above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many values each bucket has, without the empty ones at the end.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Distribution {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the values of another one.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The values that came since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |index: usize| earlier.counts.get(index).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate();
        Self {
            counts: counts
                .map(|(index, count)| count.saturating_sub(before(index)))
                .collect(),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }
}

impl From<metrics::Distribution> for Distribution {
    fn from(distribution: metrics::Distribution) -> Self {
        let mut counts = distribution.counts;
        let used = counts.iter().rposition(|count| *count != 0);
        counts.truncate(used.map_or(0, |last| last + 1));
        Self {
            counts,
            sum: distribution.sum,
        }
    }
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricValue {
    /// A whole number.
    Number(u64),
    /// So many billionths: seconds in nanoseconds, ratios.
    Billionths(u64),
    /// A histogram.
    Distribution(Distribution),
}

impl From<metrics::Sample> for MetricValue {
    fn from(sample: metrics::Sample) -> Self {
        match sample {
            metrics::Sample::Number(number) => Self::Number(number),
            metrics::Sample::Billionths(number) => Self::Billionths(number),
            metrics::Sample::Distribution(found) => Self::Distribution(found.into()),
        }
    }
}

/// One series of a measurement: the values of its labels and what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSeries {
    /// In the order of the family's labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: MetricValue,
}

/// A measurement with all its series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricFamily {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// One sentence about it.
    pub help: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// The series.
    pub series: Vec<MetricSeries>,
}

impl MetricFamily {
    /// The same measurement without series.
    #[must_use]
    pub fn without_series(&self) -> Self {
        Self {
            name: self.name.clone(),
            kind: self.kind,
            help: self.help.clone(),
            labels: self.labels.clone(),
            series: Vec::new(),
        }
    }
}

/// The requests of one class on one leaf vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRequests {
    /// The class: `sync_read`.
    pub class: String,
    /// Requests that the device carries out now.
    pub active: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Nanoseconds from the queue to the end.
    pub total: Distribution,
    /// Of these, on the device.
    pub device: Distribution,
    /// Of these, in the queue.
    pub queue: Distribution,
    /// Bytes of requests for one block.
    pub single_sizes: Distribution,
    /// Bytes of requests for several neighbouring blocks.
    pub joined_sizes: Distribution,
}

/// A transaction group in figures. Durations are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// Its number.
    pub txg: u64,
    /// Where it is, as OpenZFS's letter: `O` open, `Q` quiescing, `S` syncing, `C` committed.
    pub state: String,
    /// When it opened, on the clock that began with the machine or the daemon.
    pub opened: u64,
    /// Bytes that were dirty when it closed.
    pub dirty: u64,
    /// Bytes read while it was synced.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Blocks read.
    pub reads: u64,
    /// Blocks written.
    pub writes: u64,
    /// For how long it was open.
    pub open: u64,
    /// For how long it waited for its last transactions.
    pub quiesce: u64,
    /// How long it took to write.
    pub sync: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_added_and_compared() {
        let short = Distribution {
            counts: vec![1, 2],
            sum: 5,
        };
        let long = Distribution {
            counts: vec![0, 1, 4],
            sum: 20,
        };
        let mut sum = short.clone();
        sum.add(&long);
        assert_eq!((sum.counts.as_slice(), sum.sum), (&[1, 3, 4][..], 25));
        assert_eq!(sum.since(&short), long);
        let empty = metrics::SizeHistogram::default().distribution();
        assert_eq!(Distribution::from(empty), Distribution::default());
    }
}
