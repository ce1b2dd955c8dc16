//! Space of file systems and volumes.

use super::table::{
    DATASET_AVAILABLE, DATASET_COMPRESSION, DATASET_LOGICAL_REFERENCED, DATASET_LOGICAL_USED,
    DATASET_QUOTA, DATASET_REFERENCED, DATASET_USED, DATASET_USED_BY_CHILDREN,
    DATASET_USED_BY_DATASET, DATASET_USED_BY_RESERVATION, DATASET_USED_BY_SNAPSHOTS,
    DATASET_WRITTEN,
};
use crate::context::Context;
use crate::datasets::list::dataset_list;
use crate::mounts::table::Mounts;
use cenote_base::metrics::{Measure, Sample, Sink};
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection,
};
use cenote_control::protocol::Reply;
use std::os::fd::OwnedFd;

/// Properties in bytes.
static SPACES: [(&str, &Measure); 11] = [
    ("used", &DATASET_USED),
    ("available", &DATASET_AVAILABLE),
    ("referenced", &DATASET_REFERENCED),
    ("written", &DATASET_WRITTEN),
    ("logicalused", &DATASET_LOGICAL_USED),
    ("logicalreferenced", &DATASET_LOGICAL_REFERENCED),
    ("quota", &DATASET_QUOTA),
    ("usedbydataset", &DATASET_USED_BY_DATASET),
    ("usedbysnapshots", &DATASET_USED_BY_SNAPSHOTS),
    ("usedbychildren", &DATASET_USED_BY_CHILDREN),
    ("usedbyrefreservation", &DATASET_USED_BY_RESERVATION),
];
const COMPRESSION: &str = "compressratio";

/// Takes listed datasets.
struct Rows<'a>(&'a mut dyn Sink);

impl Reply for Rows<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        if let Part::Datasets(rows) = part {
            rows.iter().for_each(|row| dataset(row, self.0));
        }
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

/// All file systems and volumes of all pools. One that cannot be read has no series.
pub(super) fn datasets(
    context: &Context,
    mounts: &Mounts,
    sink: &mut dyn Sink,
) -> Result<(), ControlError> {
    let names = SPACES.iter().map(|(name, _)| *name).chain([COMPRESSION]);
    let selection = PropertySelection::Named(names.map(str::to_owned).collect());
    let (depth, kinds) = (Depth::All, KindSet::HEADS);
    let reply = &mut Rows(sink);
    dataset_list(context, mounts, &[], depth, kinds, selection, reply)?;
    Ok(())
}

fn dataset(row: &Dataset, sink: &mut dyn Sink) {
    let kind = match row.kind {
        DatasetKind::Volume => "volume",
        _ => "filesystem",
    };
    let labels = [row.pool(), row.name.as_str(), kind];
    let number = |name: &str| row.property(name)?.value.number();
    for (name, measure) in SPACES {
        if let Some(bytes) = number(name) {
            sink.number(measure, &labels, bytes);
        }
    }
    if let Some(hundredths) = number(COMPRESSION) {
        let ratio = Sample::Billionths(hundredths.saturating_mul(10_000_000));
        sink.put(&DATASET_COMPRESSION, &labels, ratio);
    }
}
