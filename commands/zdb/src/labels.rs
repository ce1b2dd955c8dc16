//! `zdb -l`: the four labels of a device, and with `-u` their uberblocks.
//!
//! Labels and uberblocks that are equal are printed once, with the numbers of the labels that have
//! them. `-ll` adds what the configuration's bytes are used for, `-lll` prints every label.

use crate::line::Asked;
use crate::list;
use crate::print::Printer;
use crate::problem::{Problem, USAGE};
use crate::uberblock;
use cenote_ondisk::label::{CONFIG_SIZE, LABELS, UberblockRing};
use cenote_ondisk::{NvList, NvValue};
use cenote_own_commands::reading::opener::opener;
use cenote_vdev::{DeviceLabels, FoundUberblock, Label, LabelHealth};
use std::path::Path;

/// Bytes of a configuration that are its checksum's.
const TRAILER: u64 = 40;
const RULE: &str = "------------------------------------";

/// Prints the labels of a device.
pub fn print(asked: &Asked, printer: &mut Printer) -> Result<(), Problem> {
    let [device] = asked.operands.as_slice() else {
        return Err(Problem::Usage("-l: give one device".to_owned()));
    };
    let path = Path::new(device);
    let opened = opener(0).open(path);
    let opened = opened.map_err(|error| Problem::Failed(format!("cannot open: {error}")))?;
    let labels = DeviceLabels::read(opened.as_ref());
    let shown = Shown {
        asked,
        labels: &labels,
    };
    for index in 0..LABELS {
        shown.label(index, printer)?;
    }
    let has_config = |label: &&Label| label.list.is_some();
    let found = labels.labels.iter().filter(has_config).count();
    let is_good = labels.labels.iter().all(Label::is_valid);
    let device = path.display();
    match (found, is_good) {
        (0, _) => {
            printer.complain(&format!("{device}: no label can be read"))?;
            printer.code = USAGE;
        }
        (_, false) => printer.complain(&format!("{device}: not all labels are good"))?,
        (_, true) => {}
    }
    Ok(())
}

struct Shown<'a> {
    asked: &'a Asked,
    labels: &'a DeviceLabels,
}

/// Whether two labels have the same configuration, and are as well.
fn is_same(a: &Label, b: &Label) -> bool {
    a.list.is_some() && a.list == b.list && a.is_valid() == b.is_valid()
}

impl Shown<'_> {
    fn label(&self, index: usize, printer: &mut Printer) -> Result<(), Problem> {
        let label = &self.labels.labels[index];
        let all = &self.labels.labels;
        let prints = !self.asked.has("q");
        let Some(list) = &label.list else {
            if prints {
                let verb = match label.health {
                    LabelHealth::Unreadable(_) | LabelHealth::Absent => "read",
                    _ => "unpack",
                };
                printer.line(&format!("failed to {verb} label {index}"))?;
            }
            return self.uberblocks(index, printer);
        };
        let first = all.iter().position(|other| is_same(other, label));
        let repeats = first != Some(index);
        if prints && (!repeats || self.asked.count("l") >= 3) {
            let note = if label.is_valid() {
                ""
            } else {
                "(Bad label cksum)"
            };
            printer.line(RULE)?;
            printer.line(&format!("LABEL {index} {note}"))?;
            printer.line(RULE)?;
            printer.text(&list::text(list, 4))?;
            let equal = all.iter().filter(|other| is_same(other, label));
            printer.line(&labels_line("    ", equal.map(|label| label.index)))?;
            if self.asked.count("l") >= 2 {
                printer.text(&usage_of(list))?;
            }
        }
        self.uberblocks(index, printer)
    }

    /// Those that no earlier label has, or with `-lll` all.
    fn uberblocks(&self, index: usize, printer: &mut Printer) -> Result<(), Problem> {
        let level = self.asked.count("u");
        if level == 0 {
            return Ok(());
        }
        let own = |found: &&FoundUberblock| found.label == index;
        let mut found: Vec<&FoundUberblock> = self.labels.uberblocks.iter().filter(own).collect();
        found.sort_by_key(|found| found.slot);
        let slots = found.first().map(|found| found.slot_size);
        let slots = slots.map_or(0, |size| {
            UberblockRing::all()
                .find(|ring| ring.slot_size() == size)
                .map_or(0, UberblockRing::slots)
        });
        for slot in 0..slots {
            match found.iter().find(|found| found.slot == slot) {
                Some(found) => self.uberblock(found, printer)?,
                None if level >= 2 => printer.line(&format!("    Uberblock[{slot}] invalid"))?,
                None => {}
            }
        }
        Ok(())
    }

    fn uberblock(&self, found: &FoundUberblock, printer: &mut Printer) -> Result<(), Problem> {
        let same = |other: &&FoundUberblock| {
            other.slot == found.slot && other.uberblock == found.uberblock
        };
        let all = self.labels.uberblocks.iter();
        let mut labels: Vec<usize> = all.filter(same).map(|other| other.label).collect();
        labels.sort_unstable();
        if labels.first() != Some(&found.label) && self.asked.count("l") < 3 {
            return Ok(());
        }
        printer.line(&format!("    Uberblock[{}]", found.slot))?;
        let text = uberblock::text(&found.uberblock, self.asked.count("u"), printer);
        printer.text(&text)?;
        printer.line(&labels_line("        ", labels.into_iter()))
    }
}

fn labels_line(indent: &str, labels: impl Iterator<Item = usize>) -> String {
    let numbers: String = labels.map(|label| format!("{label} ")).collect();
    format!("{indent}labels = {numbers}")
}

/// Bytes of a packed configuration by what they hold.
#[derive(Debug, Default, PartialEq, Eq)]
struct Use {
    count: u64,
    bytes: u64,
}

impl Use {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// The kinds of values, in the order of their rows.
const KINDS: [&str; 5] = ["integers", "strings", "booleans", "nvlists", "other"];

/// What the bytes of a list are used for: by kind.
fn uses(list: &NvList) -> [Use; 5] {
    let padded = |bytes: usize| (bytes as u64).next_multiple_of(4);
    let mut uses: [Use; 5] = Default::default();
    // A header, the version and flags of the outermost list, and its end.
    uses[3].add(4 + 8 + 8);
    let mut lists = vec![list];
    while let Some(list) = lists.pop() {
        for (name, value) in list.iter() {
            // Two sizes, the length of the name, the type and the number of elements.
            let head = 20 + padded(name.len());
            match value {
                NvValue::Boolean => uses[2].add(head),
                NvValue::Uint64(_) | NvValue::Int64(_) | NvValue::HrTime(_) => {
                    uses[0].add(head + 8);
                }
                NvValue::String(text) => uses[1].add(head + 4 + padded(text.len())),
                NvValue::List(inner) => {
                    uses[3].add(head + 16);
                    lists.push(inner);
                }
                NvValue::ListArray(inner) => {
                    uses[3].add(head + 16 * inner.len() as u64);
                    lists.extend(inner);
                }
                NvValue::Uint64Array(numbers) => uses[4].add(head + 8 * numbers.len() as u64),
                _ => uses[4].add(head + 4),
            }
        }
    }
    uses
}

/// What the bytes of a configuration are used for.
fn usage_of(list: &NvList) -> String {
    let room = CONFIG_SIZE - TRAILER;
    let uses = uses(list);
    let used: u64 = uses.iter().map(|used| used.bytes).sum();
    let free = room.saturating_sub(used);
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let mut text = format!(
        "\n\nZFS Label NVList Config Stats:\n  {used} bytes used, {free} bytes free \
         (using {:4.1}%)\n\n",
        share(used, room)
    );
    for (kind, part) in KINDS.iter().zip(&uses).filter(|(_, part)| part.count > 0) {
        text.push_str(&format!(
            "{kind:>11}: {:4} {:6} bytes ({:5.2}%)\n",
            part.count,
            part.bytes,
            share(part.bytes, used)
        ));
    }
    text.push_str("\n\n");
    text
}
