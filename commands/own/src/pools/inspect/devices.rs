//! Labels and uberblocks, read from the devices themselves.

use super::arguments::{Arguments, wrong};
use super::node::{Members, Node};
use super::printer::Printer;
use crate::files::show::Clock;
use crate::reading::failure::Failure;
use crate::reading::opener::opener;
use crate::reading::session::find_devices;
use cenote_cloud::scheme;
use cenote_ondisk::Uberblock;
use cenote_ondisk::uberblock::{Multihost, RaidzReflow, ReflowScratch};
use cenote_vdev::{DeviceLabels, Label};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A device and its labels.
struct Labelled {
    path: PathBuf,
    /// The partition's number on its disk, if it is one.
    partition: Option<String>,
    size: u64,
    labels: DeviceLabels,
}

/// The named devices, or the devices of the named pool.
fn labelled(arguments: &Arguments, printer: &mut Printer) -> Result<Vec<Labelled>, Failure> {
    let mut found = Vec::new();
    for operand in &arguments.operands {
        let path = Path::new(operand);
        if scheme(path).is_none() && !path.exists() {
            found.extend(of_pool(arguments, &operand.to_string_lossy(), printer));
            continue;
        }
        if let Some(device) = open(path, arguments.pool.offset, printer) {
            found.push(device);
        }
    }
    if arguments.operands.is_empty() {
        if arguments.pool.devices.is_empty() {
            return Err(wrong("give devices, or a pool with -d"));
        }
        found = scanned(arguments, printer);
        if found.is_empty() {
            // No output would look like success.
            let places: Vec<String> = arguments
                .pool
                .devices
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            printer.complain(&format!(
                "{}: no device there has labels of a pool; name a device without -d to see what \
                 it has",
                places.join(", ")
            ));
        }
    }
    Ok(found)
}

/// Opens exactly this device. A whole disk is not replaced by its partitions; the user must name
/// those.
fn open(path: &Path, offset: u64, printer: &mut Printer) -> Option<Labelled> {
    match opener(offset).open(path) {
        Ok(device) => Some(Labelled {
            path: path.to_owned(),
            partition: None,
            size: device.size(),
            labels: DeviceLabels::read(device.as_ref()),
        }),
        Err(error) => {
            printer.complain(&error.to_string());
            None
        }
    }
}

fn scanned(arguments: &Arguments, printer: &mut Printer) -> Vec<Labelled> {
    let (scan, _) = find_devices(&arguments.pool);
    for failure in &scan.failures {
        printer.complain(&failure.to_string());
    }
    let each = scan.members.into_iter().map(|member| Labelled {
        path: member.candidate.path,
        partition: member
            .candidate
            .partition
            .map(|partition| format!("{} bytes at {}", partition.length, partition.start)),
        size: member.candidate.device.size(),
        labels: member.labels,
    });
    each.collect()
}

fn of_pool(arguments: &Arguments, pool: &str, printer: &mut Printer) -> Vec<Labelled> {
    let guid = pool.parse::<u64>().ok();
    let mut found = scanned(arguments, printer);
    found.retain(|device| {
        let configs = device
            .labels
            .labels
            .iter()
            .filter_map(|label| label.config.as_ref());
        configs.into_iter().any(|config| {
            let has_guid = config.pool_guid.is_some_and(|own| Some(own.0) == guid);
            config.name.as_deref() == Some(pool) || has_guid
        })
    });
    if found.is_empty() {
        printer.complain(&format!(
            "{pool}: neither a device nor a pool with devices there"
        ));
    }
    found
}

impl Labelled {
    fn head(&self) -> Members {
        let mut members = Members::new();
        members.put("device", self.path.to_string_lossy().into_owned());
        members.put_some("partition", self.partition.clone());
        members.put("size", self.size);
        members
    }
}

fn label_node(label: &Label) -> Node {
    let mut members = Members::new();
    members.put("label", label.index as u64);
    members.put("offset", label.offset);
    members.put("health", label.health.describe());
    members.put_some("config", label.list.as_ref().map(Node::from));
    members.into()
}

/// `inspect labels DEVICE...`.
pub fn labels(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    for device in labelled(arguments, printer)? {
        let mut members = device.head();
        let rings: BTreeSet<usize> = device.labels.uberblocks.iter().map(|u| u.label).collect();
        members.put("uberblocks", device.labels.uberblocks.len() as u64);
        let rings = rings.into_iter().map(|label| Node::Number(label as u64));
        members.put("labels_with_uberblocks", rings.collect::<Vec<_>>());
        members.put("labels", shared(&device.labels));
        printer.node(members)?;
        if !device.labels.is_member() {
            let path = device.path.display();
            printer.complain(&format!("{path}: no label and no uberblock"));
        }
    }
    Ok(())
}

/// The labels; a configuration is printed only once.
fn shared(labels: &DeviceLabels) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (index, label) in labels.labels.iter().enumerate() {
        let same = labels.labels[..index]
            .iter()
            .find(|other| other.list.is_some() && other.list == label.list);
        nodes.push(match same {
            None => label_node(label),
            Some(other) => {
                let mut members = Members::new();
                members.put("label", label.index as u64);
                members.put("offset", label.offset);
                members.put("health", label.health.describe());
                members.put("config", format!("as label {}", other.index));
                members.into()
            }
        });
    }
    nodes
}

/// The contents of an uberblock.
pub fn uberblock_node(uberblock: &Uberblock, clock: &Clock) -> Members {
    let mut members = Members::new();
    members.put("txg", uberblock.txg.0);
    members.put("timestamp", uberblock.timestamp);
    members.put("time", clock.seconds(uberblock.timestamp));
    members.put("version", uberblock.version);
    members.put("software_version", uberblock.software_version);
    members.put("guid_sum", uberblock.guid_sum);
    members.put(
        "byte_order",
        if uberblock.little_endian {
            "little"
        } else {
            "big"
        },
    );
    members.put("root", uberblock.root.to_string());
    if uberblock.checkpoint_txg.0 != 0 {
        members.put("checkpoint_txg", uberblock.checkpoint_txg.0);
    }
    if let Some(reflow) = uberblock.raidz_reflow() {
        members.put("raidz_reflow", reflow_node(&reflow));
    }
    if let Some(multihost) = &uberblock.multihost {
        members.put("multihost", multihost_node(multihost));
    }
    members
}

fn reflow_node(reflow: &RaidzReflow) -> Node {
    let mut members = Members::new();
    members.put("offset", reflow.offset);
    let scratch = match reflow.scratch {
        ReflowScratch::None => "none".to_owned(),
        ReflowScratch::Valid => "valid".to_owned(),
        ReflowScratch::InvalidSynced => "synced".to_owned(),
        ReflowScratch::InvalidSyncedOnImport => "synced on import".to_owned(),
        ReflowScratch::InvalidSyncedReflow => "synced, reflow continued".to_owned(),
        ReflowScratch::Unknown(word) => format!("unknown state {word}"),
    };
    members.put("scratch", scratch);
    members.into()
}

/// Omits what is not recorded.
fn multihost_node(multihost: &Multihost) -> Node {
    let mut members = Members::new();
    members.put("delay_ns", multihost.delay_ns);
    let recorded = [
        ("interval_ms", multihost.interval_ms),
        ("sequence", multihost.sequence.map(u64::from)),
        ("fail_intervals", multihost.fail_intervals.map(u64::from)),
    ];
    for (name, value) in recorded {
        if let Some(value) = value {
            members.put(name, value);
        }
    }
    members.into()
}

/// `inspect uberblocks DEVICE...`: the best first, each once with all its locations.
pub fn uberblocks(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let clock = Clock::local();
    for device in labelled(arguments, printer)? {
        printer.title(&format!("{}:", device.path.display()))?;
        let found = &device.labels.uberblocks;
        if found.is_empty() {
            printer.complain(&format!("{}: no uberblock", device.path.display()));
        }
        let mut at = 0;
        while let Some(first) = found.get(at) {
            let same = found[at..]
                .iter()
                .take_while(|u| u.uberblock == first.uberblock)
                .count();
            let places: Vec<String> = found[at..at + same]
                .iter()
                .map(|u| format!("{}/{}", u.label, u.slot))
                .collect();
            at += same;
            let mut members = device.head();
            members.put(
                "label_slots",
                places.iter().cloned().map(Node::Text).collect::<Vec<_>>(),
            );
            let mut node = uberblock_node(&first.uberblock, &clock);
            members.append(&mut node);
            let text = format!(
                "  txg {:<10} {}  label/slot {}\n    root {}",
                first.uberblock.txg,
                clock.seconds(first.uberblock.timestamp),
                places.join(" "),
                first.uberblock.root
            );
            printer.row(members, &text)?;
        }
    }
    Ok(())
}
