//! The size of a volume.

use cenote_control::model::{ControlError, Depth, KindSet, Part, PropertySelection, Request};
use cenote_words::context::{Context, Stop, failed};

/// The size of a volume; `None` if the dataset does not exist.
pub fn size_of(name: &str, context: &mut Context) -> Result<Option<u64>, Stop> {
    let mut found = None;
    let request = Request::DatasetList {
        roots: vec![name.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::ALL,
        properties: PropertySelection::Named(vec!["volsize".to_owned()]),
    };
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Datasets(rows) = part {
            found = found.take().or_else(|| rows.into_iter().next());
        }
    });
    if let Err(error) = answer
        && !matches!(error, ControlError::NoSuchDataset { .. })
    {
        return failed(format!("{name}: {error}"));
    }
    let Some(found) = found else {
        return Ok(None);
    };
    let size = found.property("volsize").and_then(|p| p.value.number());
    match size {
        Some(size) => Ok(Some(size)),
        None => failed(format!("{name} is no volume")),
    }
}
