//! Measurements of the daemon, and lookups in them.

use std::collections::HashMap;

use cenote_control::model::{
    ControlError, Distribution, MetricFamily, MetricSeries, MetricValue, Part, Request, Response,
};

use cenote_words::context::{Context, mismatch};

/// The measurements of one moment.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    families: Vec<MetricFamily>,
    places: HashMap<String, usize>,
}

/// Labels with the values that they must have.
pub type Wanted<'a> = &'a [(&'a str, &'a str)];

impl Figures {
    /// Asks the daemon for measurements whose names begin with one of these; without names, for
    /// all.
    pub fn ask(context: &mut Context, names: &[&str]) -> Result<Self, ControlError> {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let mut figures = Self::default();
        let response = context.ask_in_parts(Request::Metrics { names }, &mut |part| {
            if let Part::Metrics(families) = part {
                figures.add(families);
            }
        })?;
        match response {
            Response::Done => Ok(figures),
            _ => Err(mismatch()),
        }
    }

    /// Adds the measurements of one part of an answer.
    pub fn add(&mut self, families: Vec<MetricFamily>) {
        for family in families {
            match self.places.get(&family.name) {
                Some(place) => self.families[*place].series.extend(family.series),
                None => {
                    let place = self.families.len();
                    self.places.insert(family.name.clone(), place);
                    self.families.push(family);
                }
            }
        }
    }

    /// All of them.
    pub fn families(&self) -> &[MetricFamily] {
        &self.families
    }

    /// The series of a measurement that have these labels.
    pub fn series(&self, name: &str, wanted: Wanted<'_>) -> std::vec::IntoIter<Labelled<'_>> {
        let family = self.places.get(name).map(|place| &self.families[*place]);
        let all = family.into_iter().flat_map(|family| {
            let series = family.series.iter();
            series.map(move |series| Labelled { family, series })
        });
        let found = all.filter(|series| {
            let is_so = |(label, value): &(&str, &str)| series.label(label) == *value;
            wanted.iter().all(is_so)
        });
        // Collected, so that the labels in `wanted` need not outlive the result.
        found.collect::<Vec<Labelled<'_>>>().into_iter()
    }

    /// The sum of the series that have these labels; 0 if there is none.
    pub fn sum(&self, name: &str, wanted: Wanted<'_>) -> u64 {
        let numbers = self.series(name, wanted).map(|series| series.number());
        numbers.fold(0, u64::saturating_add)
    }

    /// The distributions of the series that have these labels, added.
    pub fn distribution(&self, name: &str, wanted: Wanted<'_>) -> Distribution {
        let mut sum = Distribution::default();
        for series in self.series(name, wanted) {
            if let MetricValue::Distribution(found) = &series.series.value {
                sum.add(found);
            }
        }
        sum
    }

    /// The pools that are imported.
    pub fn pools(&self) -> Vec<String> {
        let pools = self.series("cenote_pool_info", &[]);
        pools.map(|pool| pool.label("pool").to_owned()).collect()
    }
}

/// A series with the names of its labels.
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    family: &'a MetricFamily,
    series: &'a MetricSeries,
}

impl<'a> Labelled<'a> {
    /// The value of a label; empty if it has none of that name.
    pub fn label(&self, name: &str) -> &'a str {
        let place = self.family.labels.iter().position(|label| label == name);
        let value = place.and_then(|place| self.series.labels.get(place));
        value.map_or("", String::as_str)
    }

    /// The values of its labels, in order.
    pub fn labels(&self) -> &'a [String] {
        &self.series.labels
    }

    /// The number: for durations in nanoseconds, for histograms the number of values.
    pub fn number(&self) -> u64 {
        match &self.series.value {
            MetricValue::Number(number) | MetricValue::Billionths(number) => *number,
            MetricValue::Distribution(found) => found.count(),
        }
    }

    /// The value.
    pub fn value(&self) -> &'a MetricValue {
        &self.series.value
    }
}
