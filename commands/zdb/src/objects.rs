//! Objects: a row each, and with `-dddd` what is in them.

use crate::contents::Contents;
use crate::line::number;
use crate::pointer;
use crate::print::Printer;
use crate::problem::Problem;
use crate::tree::{self, Detail};
use cenote_base::{ObjectId, SECTOR_SIZE};
use cenote_dmu::{Object, ObjectSet, SpecialObject};
use cenote_dsl::Dataset;
use cenote_ondisk::dnode::{
    DNODE_SIZE, FLAG_SPILL_BLKPTR, FLAG_USED_BYTES, FLAG_USEROBJUSED_ACCOUNTED,
    FLAG_USERUSED_ACCOUNTED,
};
use cenote_ondisk::object_type::ByteswapClass;
use cenote_ondisk::{CompressionKind, Dnode, ObjectType};
use std::ffi::OsString;
use std::sync::Arc;

/// Which objects are printed; all if it says none.
#[derive(Debug, Default)]
pub struct Selection {
    ranges: Vec<Range>,
}

/// Objects of some types in a range of numbers.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// Named one by one: that it is not there is an error.
    is_single: bool,
    kinds: Kinds,
}

/// Types of objects, by the letters that select them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds {
    directories: bool,
    files: bool,
    space_maps: bool,
    zaps: bool,
    others: bool,
}

impl Kinds {
    const ALL: Self = Self::every(true);

    const fn every(is_on: bool) -> Self {
        Self {
            directories: is_on,
            files: is_on,
            space_maps: is_on,
            zaps: is_on,
            others: is_on,
        }
    }

    /// Letters, each after an optional `-`.
    fn parse(letters: &str) -> Option<Self> {
        let mut kinds = Self::every(false);
        let mut is_on = true;
        for letter in letters.chars() {
            match letter {
                '-' => {
                    is_on = false;
                    continue;
                }
                'A' => kinds = Self::every(is_on),
                'd' => kinds.directories = is_on,
                'f' => kinds.files = is_on,
                'm' => kinds.space_maps = is_on,
                'z' => kinds.zaps = is_on,
                _ => return None,
            }
            is_on = true;
        }
        Some(kinds)
    }

    fn has(self, kind: ObjectType) -> bool {
        match kind {
            ObjectType::DIRECTORY => self.directories,
            ObjectType::PLAIN_FILE => self.files,
            ObjectType::SPACE_MAP => self.space_maps,
            kind if kind.byteswap_class() == Some(ByteswapClass::Zap) => self.zaps,
            _ => self.others,
        }
    }
}

impl Selection {
    /// Understands `OBJECT` and `START:END[:FLAGS]`.
    ///
    /// # Errors
    /// A word is neither.
    pub fn parse(words: &[OsString]) -> Result<Self, Problem> {
        let parsed = words.iter().map(|word| {
            let text = word.to_string_lossy();
            let wrong = || Problem::Usage(format!("'{text}' is neither an object nor a range"));
            Range::parse(&text).ok_or_else(wrong)
        });
        let ranges = parsed.collect::<Result<_, _>>()?;
        Ok(Self { ranges })
    }

    /// One object.
    pub fn one(id: ObjectId) -> Self {
        let range = Range {
            first: id.0,
            last: id.0,
            is_single: true,
            kinds: Kinds::ALL,
        };
        Self {
            ranges: vec![range],
        }
    }

    /// Whether no object was named.
    pub fn is_everything(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let first = parts.next()?;
        let Some(last) = parts.next() else {
            let object = match first {
                "-1" | "-2" | "-3" => first.parse::<i64>().ok()?.cast_unsigned(),
                word => number(word)?,
            };
            return Some(Self {
                first: object,
                last: object,
                is_single: true,
                kinds: Kinds::ALL,
            });
        };
        let last = match last {
            "-1" => u64::MAX,
            word => number(word)?,
        };
        let kinds = parts.next().map_or(Some(Kinds::ALL), Kinds::parse)?;
        let range = Self {
            first: number(first)?,
            last,
            is_single: false,
            kinds,
        };
        (parts.next().is_none() && range.first <= range.last).then_some(range)
    }
}

/// The objects of one set, and how much of them is printed.
struct Shown<'a> {
    set: &'a Arc<ObjectSet>,
    contents: Contents,
    detail: Detail,
    /// Whether a row was printed.
    has_head: bool,
}

/// The slots of dnodes that are taken.
#[derive(Default)]
struct Slots {
    used: u64,
    last: u64,
}

/// Prints the selected objects of a set.
pub fn print(
    set: &Arc<ObjectSet>,
    dataset: Option<&Dataset>,
    selection: &Selection,
    detail: Detail,
    printer: &mut Printer,
) -> Result<(), Problem> {
    let mut shown = Shown {
        set,
        contents: Contents::new(set, dataset, detail.level),
        detail,
        has_head: false,
    };
    if selection.is_everything() {
        return shown.everything(printer);
    }
    for range in &selection.ranges {
        match range.is_single {
            true => shown.single(ObjectId(range.first), printer)?,
            false => shown.range(range, printer)?,
        }
    }
    printer.line("")
}

impl Shown<'_> {
    fn head(&mut self, printer: &mut Printer) -> Result<(), Problem> {
        if self.has_head && self.detail.level < 4 {
            return Ok(());
        }
        self.has_head = true;
        let head = "    Object  lvl   iblk   dblk  dsize  dnsize  lsize   %full  type";
        printer.text(&format!("\n{head}\n"))
    }

    fn everything(&mut self, printer: &mut Printer) -> Result<(), Problem> {
        self.object(&self.set.meta_object(), printer)?;
        for special in SpecialObject::ALL {
            if let Some(object) = self.set.special_object(special) {
                self.object(&object, printer)?;
            }
        }
        let mut slots = Slots::default();
        for found in self.set.objects(ObjectId(1)) {
            match found {
                Ok((id, dnode)) => {
                    slots.used += dnode.slots() as u64;
                    slots.last = id.0 + dnode.slots() as u64 - 1;
                    self.numbered(id, printer)?;
                }
                Err(error) => printer.complain(&error.to_string())?,
            }
        }
        let empty = slots.last.saturating_sub(slots.used) as f64;
        let share = 100.0 * empty / slots.last.max(1) as f64;
        printer.text(&format!(
            "\n    Dnode slots:\n\tTotal used:    {:10}\n\tMax used:      {:10}\n\
             \tPercent empty: {share:10.6}\n\n",
            slots.used, slots.last
        ))
    }

    fn range(&mut self, range: &Range, printer: &mut Printer) -> Result<(), Problem> {
        let first = range.first;
        if first == 0 && range.kinds.has(ObjectType::DNODE) {
            self.object(&self.set.meta_object(), printer)?;
        }
        for found in self.set.objects(ObjectId(first.max(1))) {
            match found {
                Ok((id, _)) if id.0 > range.last => break,
                Ok((id, dnode)) if range.kinds.has(dnode.object_type) => {
                    self.numbered(id, printer)?;
                }
                Ok(_) => {}
                Err(error) => printer.complain(&error.to_string())?,
            }
        }
        Ok(())
    }

    fn single(&mut self, id: ObjectId, printer: &mut Printer) -> Result<(), Problem> {
        if id.0 == 0 {
            return self.object(&self.set.meta_object(), printer);
        }
        let special = SpecialObject::ALL
            .into_iter()
            .find(|special| special.id() == id);
        if let Some(special) = special {
            return match self.set.special_object(special) {
                Some(object) => self.object(&object, printer),
                None => printer.complain(&format!("object {} does not exist", id.0.cast_signed())),
            };
        }
        match self.set.dnode(id) {
            Ok(Some(_)) => self.numbered(id, printer),
            Ok(None) => {
                self.head(printer)?;
                printer.complain(&format!("object {id} does not exist"))
            }
            Err(error) => printer.complain(&error.to_string()),
        }
    }

    fn numbered(&mut self, id: ObjectId, printer: &mut Printer) -> Result<(), Problem> {
        match self.set.object(id) {
            Ok(object) => self.object(&object, printer),
            Err(error) => printer.complain(&error.to_string()),
        }
    }

    fn object(&mut self, object: &Object, printer: &mut Printer) -> Result<(), Problem> {
        self.head(printer)?;
        let dnode = object.dnode();
        printer.text(&row(object.id(), dnode, self.detail.level, printer))?;
        if self.detail.level < 4 {
            return Ok(());
        }
        printer.text(&format!(
            "\tdnode flags: {}\n\tdnode maxblkid: {}\n",
            flags(dnode.flags),
            dnode.block_id_max
        ))?;
        let printed = self.contents.print(object, printer);
        printer.survive(printed)?;
        if self.detail.level >= 5 {
            if let Some(spill) = &dnode.spill {
                let spill = self.detail.pointer(spill);
                printer.text(&format!("\nSpill block: {spill}\n"))?;
            }
            let printed = tree::print(object, self.detail, printer);
            printer.survive(printed)?;
        }
        Ok(())
    }
}

fn flags(flags: u8) -> String {
    let names = [
        (FLAG_USED_BYTES, "USED_BYTES "),
        (FLAG_USERUSED_ACCOUNTED, "USERUSED_ACCOUNTED "),
        (FLAG_USEROBJUSED_ACCOUNTED, "USEROBJUSED_ACCOUNTED "),
        (FLAG_SPILL_BLKPTR, "SPILL_BLKPTR"),
    ];
    let set = names.into_iter().filter(|(flag, _)| flags & flag != 0);
    set.map(|(_, name)| name).collect()
}

/// Data blocks that are not holes, or of the meta-dnode, bytes of dnodes: of all its bytes.
fn percent_full(id: ObjectId, dnode: &Dnode, size: u64) -> f64 {
    let fills = dnode.block_pointers.iter().map(|pointer| pointer.fill());
    let fill = fills.fold(0, u64::saturating_add);
    let unit = match id.0 {
        0 => DNODE_SIZE as u64,
        _ => dnode.data_block_size,
    };
    100.0 * fill as f64 * unit as f64 / size.max(1) as f64
}

/// Bytes to the nearest sector.
fn sectors(bytes: u64) -> u64 {
    let half = SECTOR_SIZE / 2;
    bytes.saturating_add(half) / SECTOR_SIZE * SECTOR_SIZE
}

/// An object's row, and below it the one of its bonus buffer.
fn row(id: ObjectId, dnode: &Dnode, level: usize, printer: &Printer) -> String {
    let number = |number| printer.number(number);
    let size = dnode.block_id_max.0.saturating_add(1);
    let size = size.saturating_mul(dnode.data_block_size);
    let mut text = format!(
        "{:10}  {:3}  {:>5}  {:>5}  {:>5}  {:>6}  {:>5}  {:6.2}  {}{}\n",
        id.0.cast_signed(),
        dnode.levels,
        number(dnode.indirect_block_size()),
        number(dnode.data_block_size),
        number(sectors(dnode.used_bytes())),
        number(dnode.slots() as u64 * DNODE_SIZE as u64),
        number(size),
        percent_full(id, dnode, size),
        type_name(dnode.object_type),
        functions(dnode, level),
    );
    if dnode.bonus_type != ObjectType::NONE && level >= 4 {
        let bonus = number(dnode.bonus.len() as u64);
        let (kind, word) = (type_name(dnode.bonus_type), "bonus");
        text.push_str(&format!("{bonus:>50}  {word:>6}  {kind}\n"));
    }
    text
}

/// The name of a type, as a row shows it.
pub fn type_name(kind: ObjectType) -> String {
    match kind.byteswap_class() {
        _ if kind.0 & 0x80 == 0 => kind.to_string(),
        Some(ByteswapClass::U8) => "uint8".to_owned(),
        Some(ByteswapClass::U16) => "uint16".to_owned(),
        Some(ByteswapClass::U32) => "uint32".to_owned(),
        Some(ByteswapClass::U64) => "uint64".to_owned(),
        Some(class) => format!("{class:?}").to_lowercase(),
        None => kind.to_string(),
    }
}

/// The object's own checksum and compression, if it has any.
fn functions(dnode: &Dnode, level: usize) -> String {
    let mut text = String::new();
    if dnode.checksum != 0 || level >= 6 {
        text.push_str(&format!(" (K={})", pointer::checksum_name(dnode.checksum)));
    }
    if dnode.compression != 0 || level >= 6 {
        let name = pointer::compression_name(dnode.compression);
        let inherits = CompressionKind::from_number(dnode.compression);
        let name = match inherits {
            Some(CompressionKind::Inherit) => "inherit".to_owned(),
            _ => name,
        };
        text.push_str(&format!(" (Z={name})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_one_by_one_or_in_ranges() {
        let single = Range::parse("34").expect("a number");
        assert!(single.is_single && single.first == 34 && single.last == 34);
        let special = Range::parse("-1").expect("an accounting object");
        assert_eq!(special.first, u64::MAX);
        let files = Range::parse("0:-1:f").expect("a range");
        assert_eq!((files.first, files.last), (0, u64::MAX));
        assert!(files.kinds.has(ObjectType::PLAIN_FILE));
        assert!(!files.kinds.has(ObjectType::DIRECTORY));
        let rest = Range::parse("1:9:A-z").expect("a range");
        assert!(rest.kinds.has(ObjectType::PLAIN_FILE) && !rest.kinds.has(ObjectType::OTHER_ZAP));
        for wrong in ["", "x", "1:", "9:1", "1:2:q", "1:2:A:3"] {
            assert_eq!(Range::parse(wrong), None, "{wrong}");
        }
    }
}
