//! Parts that are asked for their samples although nothing above knows them.

use super::measure::Sink;
use crate::rt::{Mutex, ranks};
use std::fmt;
use std::sync::{Arc, Weak};

/// Something that has figures.
pub trait Collect: Send + Sync {
    /// Puts its samples into a sink.
    fn collect(&self, sink: &mut dyn Sink);
}

/// The parts of one daemon that have figures of their own.
#[derive(Default)]
pub struct Registry {
    parts: Mutex<Vec<Weak<dyn Collect>>, ranks::MeasuredParts>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// Asks this part, too, from now on and as long as it exists.
    pub fn add(&self, part: &Arc<dyn Collect>) {
        self.parts.lock().push(Arc::downgrade(part));
    }
}

impl Collect for Registry {
    fn collect(&self, sink: &mut dyn Sink) {
        let mut parts = Vec::new();
        self.parts.lock().retain(|part| match part.upgrade() {
            Some(part) => {
                parts.push(part);
                true
            }
            None => false,
        });
        // Without the lock: a part may take any of its own.
        for part in parts {
            part.collect(sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Count, Kind, Measure, Sample};
    use super::*;

    static EVENTS: Measure = Measure {
        name: "events_total",
        kind: Kind::Counter,
        help: "Events.",
        labels: &["what"],
    };

    struct Part(&'static str, Count);

    impl Collect for Part {
        fn collect(&self, sink: &mut dyn Sink) {
            sink.number(&EVENTS, &[self.0], self.1.get());
        }
    }

    #[derive(Default)]
    struct Taken(Vec<(String, Sample)>);

    impl Sink for Taken {
        fn put(&mut self, measure: &'static Measure, labels: &[&str], sample: Sample) {
            let name = format!("{}{labels:?}", measure.name);
            self.0.push((name, sample));
        }
    }

    #[test]
    fn a_part_that_is_gone_has_no_samples() {
        let registry = Registry::default();
        let (one, two) = (
            Arc::new(Part("one", Count::default())),
            Arc::new(Part("two", Count::default())),
        );
        one.1.add(7);
        registry.add(&(Arc::clone(&one) as Arc<dyn Collect>));
        registry.add(&(Arc::clone(&two) as Arc<dyn Collect>));
        drop(two);
        let mut taken = Taken::default();
        registry.collect(&mut taken);
        let expected = ("events_total[\"one\"]".to_owned(), Sample::Number(7));
        assert_eq!(taken.0, [expected]);
    }
}
