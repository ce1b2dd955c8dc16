//! The names and units of measurements, and the trait that collects their samples.

use super::histogram::Distribution;

/// What kind of number a measurement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while its owner exists.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A histogram of durations; the buckets are in nanoseconds.
    Durations,
    /// A histogram of sizes in bytes.
    Sizes,
}

impl Kind {
    /// The word in Prometheus' text form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Durations | Self::Sizes => "histogram",
        }
    }
}

/// The description of a measurement. All are statics, in tables from which the documentation is
/// made.
#[derive(Debug, PartialEq, Eq)]
pub struct Measure {
    /// The name, with the unit last, as Prometheus wants it.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// One sentence about it.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The value of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A whole number.
    Number(u64),
    /// So many billionths: nanoseconds of what is measured in seconds, and ratios.
    Billionths(u64),
    /// A histogram.
    Distribution(Distribution),
}

/// Takes samples.
pub trait Sink {
    /// Takes one, with the values of the measure's labels in their order.
    fn put(&mut self, measure: &'static Measure, labels: &[&str], sample: Sample);

    /// Whether any measure is wanted whose name begins with `group`. If not, a source need not
    /// collect its samples.
    fn wants(&self, _group: &str) -> bool {
        true
    }

    /// Takes a whole number.
    fn number(&mut self, measure: &'static Measure, labels: &[&str], number: u64) {
        self.put(measure, labels, Sample::Number(number));
    }

    /// Takes a histogram.
    fn distribution(
        &mut self,
        measure: &'static Measure,
        labels: &[&str],
        distribution: Distribution,
    ) {
        self.put(measure, labels, Sample::Distribution(distribution));
    }
}
