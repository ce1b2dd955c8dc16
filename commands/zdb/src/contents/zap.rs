//! Tables of names and values: figures about their form, and their entries.

use crate::print::{Printer, histogram};
use crate::problem::{Problem, failed};
use cenote_base::BlockId;
use cenote_dmu::zap::{ZapEntry, ZapKey, ZapValue};
use cenote_dmu::{DmuError, Object, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::dir_entry::{DirEntry, FileType};
use cenote_ondisk::zap::fat_header::FatHeader;
use cenote_ondisk::zap::leaf::{ARRAY_BYTES, CHUNK_SIZE, Leaf};
use cenote_ondisk::zap::{BLOCK_TYPE_HEADER, Form, form};

/// What the header of a large table has as its second word.
const MAGIC: u64 = 0x2_F52A_B2AB;
/// Rows of a histogram; the last one counts everything above, too.
const ROWS: usize = 10;

/// Prints the table in an object.
pub fn print(object: &Object, printer: &mut Printer) -> Result<(), Problem> {
    let what = || format!("object {}", object.id().0.cast_signed());
    let kind = object.dnode().object_type;
    let zap = Zap::open(object.clone()).map_err(failed(what()))?;
    let first = object.block(BlockId(0)).map_err(failed(what()))?;
    let first = first.ok_or_else(|| Problem::Failed(format!("{}: no block", what())))?;
    let malformed = |source| object.malformed(source);
    match form(&first).map_err(malformed).map_err(failed(what()))? {
        Form::Micro => printer.text(&format!(
            "\tmicrozap: {} bytes, {} entries\n",
            object.dnode().data_block_size,
            zap.count()
        ))?,
        Form::Fat => {
            let header = FatHeader::decode(&first);
            let header = header.map_err(malformed).map_err(failed(what()))?;
            let figures = Figures::of(object, &header).map_err(failed(what()))?;
            printer.text(&figures.text(&header))?;
        }
    }
    // The keys of tables of shared blocks are checksums.
    if kind == ObjectType::DDT_ZAP {
        return Ok(());
    }
    printer.line("")?;
    for entry in zap.entries() {
        let entry = entry.map_err(failed(what()))?;
        printer.line(&line(kind, &entry, printer))?;
    }
    Ok(())
}

fn key(key: &ZapKey, printer: &Printer) -> String {
    match key {
        ZapKey::Name(name) => printer.name(name),
        ZapKey::Words(words) => words.iter().map(|word| format!("{word:x} ")).collect(),
    }
}

fn line(kind: ObjectType, entry: &ZapEntry, printer: &Printer) -> String {
    let value = match (kind, entry.value.as_u64()) {
        (ObjectType::DIRECTORY, Some(word)) => {
            let found = DirEntry::decode(word);
            format!("{} (type: {})", found.object, type_words(found.file_type))
        }
        (ObjectType::SA_REGISTRY, Some(word)) => {
            let (length, class, number) = (word >> 24 & 0xffff, word >> 16 & 0xff, word & 0xffff);
            format!(" {word:x} : [{length}:{class}:{number}]")
        }
        (ObjectType::SA_LAYOUTS, _) => {
            let numbers = entry.value.integers().map(|number| format!(" {number} "));
            format!("[{}]", numbers.collect::<String>())
        }
        _ => numbers_or_text(&entry.value, printer),
    };
    format!("\t\t{} = {value}", key(&entry.key, printer))
}

/// The type of a file in words.
fn type_words(kind: FileType) -> String {
    match kind {
        FileType::Unknown => "not specified",
        FileType::Fifo => "FIFO",
        FileType::CharacterDevice => "Character Device",
        FileType::Directory => "Directory",
        FileType::BlockDevice => "Block Device",
        FileType::Regular => "Regular File",
        FileType::SymbolicLink => "Symbolic Link",
        FileType::Socket => "Socket",
        FileType::Other(number) => return number.to_string(),
    }
    .to_owned()
}

fn numbers_or_text(value: &ZapValue, printer: &Printer) -> String {
    let Some(bytes) = value.as_bytes() else {
        // OpenZFS prints them as signed numbers.
        let numbers = value.integers().map(u64::cast_signed);
        return numbers.map(|number| format!("{number} ")).collect();
    };
    let text = bytes.strip_suffix(b"\0");
    match text.filter(|text| {
        text.iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    }) {
        Some(text) => printer.name(text),
        None => cenote_own_commands::reading::output::hex(bytes),
    }
}

/// Figures about a large table.
#[derive(Default)]
struct Figures {
    leaves: u64,
    pointers: [u64; ROWS],
    entries: [u64; ROWS],
    tenths: [u64; ROWS],
    chunks: [u64; ROWS],
    buckets: [u64; ROWS],
}

fn count(rows: &mut [u64; ROWS], row: usize) {
    rows[row.min(ROWS - 1)] += 1;
}

impl Figures {
    /// Reads all leaves. A block that is none, as of a table of pointers, is passed over.
    fn of(object: &Object, header: &FatHeader) -> Result<Self, DmuError> {
        let mut figures = Self::default();
        let mut next = BlockId(1);
        while let Some(found) = object.next_data_block(next)? {
            next = BlockId(found.0.saturating_add(1));
            let Some(block) = object.block(found)? else {
                continue;
            };
            if let Ok(leaf) = Leaf::decode(&block, header.has_word_keys()) {
                figures.add(&leaf, block.len(), header, object)?;
            }
            if next.0 == u64::MAX {
                break;
            }
        }
        Ok(figures)
    }

    fn add(
        &mut self,
        leaf: &Leaf<'_>,
        size: usize,
        header: &FatHeader,
        object: &Object,
    ) -> Result<(), DmuError> {
        let geometry = leaf.geometry();
        let entries = leaf.sorted().map_err(|source| object.malformed(source))?;
        let mut chains = vec![0_usize; 1 << geometry.hash_shift];
        let mut used = 0;
        for entry in &entries {
            let entry = entry
                .to_entry()
                .map_err(|source| object.malformed(source))?;
            let key = match &entry.key {
                ZapKey::Name(name) => name.len() + 1,
                ZapKey::Words(words) => words.len() * 8,
            };
            let value = entry.value.bytes.len();
            let chunks = 1 + key.div_ceil(ARRAY_BYTES) + value.div_ceil(ARRAY_BYTES);
            count(&mut self.chunks, chunks);
            used += chunks;
            let shift = 64_u32.checked_sub(geometry.hash_shift + leaf.prefix_length);
            let bucket = entry
                .hash
                .checked_shr(shift.unwrap_or(u32::MAX))
                .unwrap_or(0);
            let mask = chains.len() - 1;
            chains[bucket as usize & mask] += 1;
        }
        for chain in chains {
            count(&mut self.buckets, chain);
        }
        let free = geometry.chunks.saturating_sub(used) * CHUNK_SIZE;
        let full = size.saturating_sub(free) * 10;
        count(&mut self.tenths, full / size.max(1));
        count(&mut self.entries, entries.len() / 5);
        let share = header.table_shift.saturating_sub(leaf.prefix_length);
        count(&mut self.pointers, share as usize);
        self.leaves += 1;
        Ok(())
    }

    fn text(&self, header: &FatHeader) -> String {
        let number = |block: Option<BlockId>| block.map_or(0, |block| block.0);
        let mut text = format!(
            "\tFat ZAP stats:\n\t\tPointer table:\n\t\t\t{} elements\n\t\t\tzt_blk: {}\n\
             \t\t\tzt_numblks: {}\n\t\t\tzt_shift: {}\n\t\t\tzt_blks_copied: {}\n\
             \t\t\tzt_nextblk: {}\n\t\tZAP entries: {}\n\t\tLeaf blocks: {}\n\
             \t\tTotal blocks: {}\n\t\tzap_block_type: {BLOCK_TYPE_HEADER:#x}\n\
             \t\tzap_magic: {MAGIC:#x}\n\t\tzap_salt: {:#x}\n",
            header.pointers(),
            number(header.table_block),
            header.table_blocks,
            header.table_shift,
            header.blocks_copied,
            number(header.next_table_block),
            header.entries,
            self.leaves,
            header.free_block,
            header.salt,
        );
        for (title, rows) in [
            ("Leafs with 2^n pointers", &self.pointers),
            ("Blocks with n*5 entries", &self.entries),
            ("Blocks n/10 full", &self.tenths),
            ("Entries with n chunks", &self.chunks),
            ("Buckets with n entries", &self.buckets),
        ] {
            text.push_str(&format!("\t\t{title}:\n{}", histogram(rows, 0)));
        }
        text
    }
}
