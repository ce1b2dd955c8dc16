//! Answering a request for measurements.

use super::table::POOL_MISSING;
use super::{cache, datasets, groups, pools, process, serving, vdevs};
use crate::context::Context;
use crate::daemon::status::About;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_base::metrics::{Collect, Measure, Sample, Sink};
use cenote_control::model::{
    ControlError, MetricFamily, MetricSeries, MissingPool, Part, Response,
};
use cenote_control::protocol::Reply;
use std::collections::HashMap;
use std::sync::Arc;

/// Series that are sent at once: their frame stays below a few MiB.
const SERIES_MAX: usize = 4096;

/// Samples by measurement, those that are wanted.
pub(super) struct Families<'a> {
    names: &'a [String],
    order: Vec<MetricFamily>,
    /// By the address of the measure.
    places: HashMap<*const Measure, usize>,
}

impl<'a> Families<'a> {
    fn new(names: &'a [String]) -> Self {
        Self {
            names,
            order: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl Sink for Families<'_> {
    fn wants(&self, group: &str) -> bool {
        let mut names = self.names.iter();
        self.names.is_empty()
            || names.any(|name| name.starts_with(group) || group.starts_with(name.as_str()))
    }

    fn put(&mut self, measure: &'static Measure, labels: &[&str], sample: Sample) {
        assert_eq!(labels.len(), measure.labels.len(), "{}", measure.name);
        let mut names = self.names.iter();
        if !self.names.is_empty() && !names.any(|name| measure.name.starts_with(name.as_str())) {
            return;
        }
        let place = *self.places.entry(measure).or_insert_with(|| {
            self.order.push(MetricFamily {
                name: measure.name.to_owned(),
                kind: measure.kind.into(),
                help: measure.help.to_owned(),
                labels: measure
                    .labels
                    .iter()
                    .map(|&label| label.to_owned())
                    .collect(),
                series: Vec::new(),
            });
            self.order.len() - 1
        });
        self.order[place].series.push(MetricSeries {
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            value: sample.into(),
        });
    }
}

/// Collects what is wanted and sends it.
pub(crate) fn metrics(
    context: &Context,
    mounts: &Mounts,
    (about, missing): (&About, &[MissingPool]),
    names: &[String],
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let mut families = Families::new(names);
    let pools = context.registry.all();
    if families.wants("cenote_daemon_") || families.wants("cenote_memory_") {
        process::daemon(context, about, &pools, &mut families);
    }
    if families.wants("process_") {
        process::process(&mut families);
    }
    for pool in missing {
        let labels = [pool.name.as_str(), &pool.guid.to_string()];
        families.number(&POOL_MISSING, &labels, 1);
    }
    for imported in &pools {
        if reply.cancelled() {
            return Err(ControlError::Interrupted);
        }
        one_pool(context, imported, &mut families);
    }
    if families.wants("cenote_mount_") {
        serving::mounts(mounts, &mut families);
    }
    context.publisher.measure(&mut families);
    if families.wants("cenote_dataset_") {
        datasets::datasets(context, mounts, &mut families)?;
    }
    context.measured.collect(&mut families);
    send(families.order, reply)?;
    Ok(Response::Done)
}

fn one_pool(context: &Context, imported: &Arc<Imported>, families: &mut Families<'_>) {
    if families.wants("cenote_pool_") || families.wants("cenote_scan_") {
        pools::pool(imported, families);
    }
    if families.wants("cenote_vdev_") {
        vdevs::vdevs(imported, families);
    }
    if families.wants("cenote_arc_") {
        cache::cache(imported, families);
    }
    if families.wants("cenote_txg_") {
        groups::groups(imported, families);
    }
    if families.wants("cenote_log_") {
        groups::logs(imported, families);
    }
    if families.wants("cenote_store_") {
        serving::stores(&context.clouds, imported, families);
    }
}

/// Sends families in parts, a long one in several.
fn send(families: Vec<MetricFamily>, reply: &mut dyn Reply) -> Result<(), ControlError> {
    let (mut part, mut count) = (Vec::new(), 0);
    for mut family in families {
        loop {
            let rest = match family.series.len() > SERIES_MAX {
                true => family.series.split_off(SERIES_MAX),
                false => Vec::new(),
            };
            let following = MetricFamily {
                series: rest,
                ..family.without_series()
            };
            count += family.series.len();
            part.push(family);
            if count >= SERIES_MAX {
                reply.part(Part::Metrics(std::mem::take(&mut part)))?;
                count = 0;
            }
            if following.series.is_empty() {
                break;
            }
            family = following;
        }
    }
    if !part.is_empty() {
        reply.part(Part::Metrics(part))?;
    }
    Ok(())
}
