//! Sending volumes that OpenZFS wrote: to Cenote, from there to Cenote, and back.
//!
//! Only OpenZFS can write to a volume in this test; its library makes a random history of some.
//! OpenZFS sends each of their snapshots, Cenote receives it and sends it to another dataset, and
//! from that back to OpenZFS, which knows the expected contents.

use super::link;
use super::rival::Rival;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Operations of a history.
const OPERATIONS: u64 = 300;

/// Streams that were received.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeReport {
    pub full: u64,
    pub increments: u64,
}

/// Makes a history on OpenZFS's pool, and sends its volumes around; `number` makes their names.
pub fn send_volumes(
    rival: &Rival,
    site: &Site,
    number: u64,
    random: &mut Random,
) -> Result<VolumeReport> {
    let made = rival.churn(random.next_u64() % 1_000_000, OPERATIONS)?;
    let mut report = VolumeReport::default();
    let datasets = made["datasets"].as_array().context("datasets")?;
    let is_volume = |dataset: &&Value| dataset["type"] == "zvol" && dataset["key"].is_null();
    for (index, volume) in datasets.iter().filter(is_volume).enumerate() {
        let name = volume["name"].as_str().context("a name")?;
        let short = format!("v{number}-{index}");
        let done = send_around(rival, site, (name, &short), volume, random, &mut report);
        done.with_context(|| format!("the volume {name}"))?;
    }
    Ok(report)
}

fn send_around(
    rival: &Rival,
    site: &Site,
    (name, short): (&str, &str),
    volume: &Value,
    random: &mut Random,
    report: &mut VolumeReport,
) -> Result<()> {
    let snapshots = volume["snapshots"].as_array().context("snapshots")?;
    let mut last: Option<&str> = None;
    for snapshot in snapshots {
        let to = snapshot["name"].as_str().context("a name")?;
        let from = last.map(|last| format!("@{last}"));
        let flags: Vec<&str> = ["-c", "-e"]
            .into_iter()
            .filter(|_| random.below(2) == 0)
            .collect();
        let stream = rival.send(&flags, from.as_deref(), &format!("{name}@{to}"))?;
        let (first, second) = (format!("tank/{short}"), format!("tank/{short}-on"));
        let place = || format!("{from:?} {to} {flags:?}");
        link::receive(site, &first, &stream)?
            .success()
            .with_context(place)?;
        let since = from
            .as_ref()
            .map_or(String::new(), |from| format!("-i {from}"));
        let flags = flags.join(" ");
        let stream = link::send(site, &format!("{flags} {since} {first}@{to}"))?;
        link::receive(site, &second, &stream)?.success()?;
        let stream = link::send(site, &format!("{flags} {since} {second}@{to}"))?;
        rival.receive(&format!("rival/back-{short}"), &stream, false)?;
        match last {
            None => report.full += 3,
            Some(_) => report.increments += 3,
        }
        last = Some(to);
    }
    let Some(newest) = snapshots.last() else {
        return Ok(());
    };
    let mut wanted = volume.clone();
    let fields = wanted.as_object_mut().context("a volume")?;
    // The dataset is another; its snapshots are the same.
    fields.remove("guid");
    fields.insert("name".into(), json!(format!("rival/back-{short}")));
    fields.insert("origin".into(), Value::Null);
    fields.insert("objects".into(), newest["objects"].clone());
    rival.verify(&wanted)
}
