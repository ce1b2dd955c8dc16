//! Damage aimed at what a reader follows: chains that bite their tails, tables that lead into
//! themselves, trees without an end, lists that promise more than there is.
//!
//! A block cannot hold its own checksum, but it can hold its own address: true loops are made of
//! blocks at places chosen beforehand and pointers without checksum, or of gang headers, whose
//! checksum covers their place and not their parent.

use super::Mutant;
use super::editor::Editor;
use super::labels;
use super::structure::{
    MICROZAP_ENTRIES, MICROZAP_ENTRY_SIZE, Structure, ZAP_MICRO, interesting, put,
};
use super::tree::Role;
use crate::random::Random;
use anyhow::Result;
use cenote_codec::checksum::sha256;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::DNODE_CORE_SIZE;
use cenote_ondisk::embedded_checksum::{gang_verifier, prepare, seal};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType, wire};

/// First words of ZAP blocks: format/2b 5.
const ZAP_LEAF: u64 = 0x8000_0000_0000_0000;
const ZAP_HEADER: u64 = 0x8000_0000_0000_0001;

/// A ZAP leaf: bytes before the hash table, bytes of a chunk, types of chunks.
const LEAF_HEADER: usize = 48;
const CHUNK: usize = 24;
const CHUNK_ENTRY: u8 = 252;
const CHUNK_ARRAY: u8 = 251;

/// A gang header: its size, and where its trailer stands.
const GANG_HEADER: usize = 512;
const GANG_TRAILER: usize = 472;
const GANG_MEMBERS: usize = 3;

/// Attempts to find a mutation that applies.
const ATTEMPTS_MAX: usize = 100;

impl Structure<'_> {
    /// A mutant of the aimed kinds.
    pub fn aimed_mutant(&self, random: &mut Random) -> Result<Mutant> {
        if random.below(8) == 0 {
            return self.deep_label(random);
        }
        let mut editor = self.editor();
        let mut description = None;
        for _ in 0..ATTEMPTS_MAX {
            description = match random.below(8) {
                0 => self.leaf_chain(&mut editor, random),
                1 => self.pointer_table(&mut editor, random),
                2 => self.microzap_values(&mut editor, random),
                3 => self.bad_list(&mut editor, random),
                4 => self.deep_tree(&mut editor, random),
                5 => self.endless_block(&mut editor, random)?,
                6 => self.hollow_tree(&mut editor, random)?,
                _ => self.endless_gang(&mut editor, random)?,
            };
            if description.is_some() {
                break;
            }
        }
        Ok(Mutant {
            description: description.unwrap_or_else(|| "nothing to aim at".into()),
            writes: editor.commit()?,
            ..Mutant::default()
        })
    }

    /// A node whose first word is `word`.
    fn zap_block(&self, word: u64, random: &mut Random) -> Option<usize> {
        let nodes = self.tree.nodes.iter().enumerate();
        let fitting: Vec<usize> = nodes
            .filter(|(_, node)| {
                node.role == Role::Contents && wire::u64_le(&node.content, 0, "ZAP") == Ok(word)
            })
            .map(|(index, _)| index)
            .collect();
        (!fitting.is_empty()).then(|| *random.choose(&fitting))
    }

    /// Links between the chunks of a ZAP leaf lead back, or anywhere.
    fn leaf_chain(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let index = self.zap_block(ZAP_LEAF, random)?;
        let size = self.tree.nodes[index].content.len();
        let chunks_at = LEAF_HEADER + 2 * (size / 32);
        let content = editor.content(index);
        let used: Vec<usize> = (chunks_at..size - CHUNK + 1)
            .step_by(CHUNK)
            .filter(|at| matches!(content[*at], CHUNK_ENTRY | CHUNK_ARRAY))
            .collect();
        if used.is_empty() {
            return None;
        }
        let number = |at: usize| u16::try_from((at - chunks_at) / CHUNK).unwrap_or(u16::MAX);
        let mut done = Vec::new();
        for _ in 0..1 + random.below(6) {
            let at = *random.choose(&used);
            let other = number(*random.choose(&used));
            let value = *random.choose(&[number(at), number(at), other, 0, 0xfffe, 0xffff]);
            // Entries: next, name chunk, name length, value chunk, value length.
            let field = match content[at] {
                CHUNK_ENTRY => *random.choose(&[2, 2, 4, 6, 8, 10]),
                _ => 22,
            };
            let place = match random.below(8) {
                // A bucket of the hash table.
                0 => LEAF_HEADER + 2 * random.index(size / 32),
                _ => at + field,
            };
            content[place..place + 2].copy_from_slice(&value.to_le_bytes());
            done.push(format!("{value} at {place}"));
        }
        Some(format!("{}: chunks: {}", self.name(index), done.join(", ")))
    }

    /// A fat ZAP's pointers lead to its header, to each other's leaves or out of the object.
    fn pointer_table(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let index = self.zap_block(ZAP_HEADER, random)?;
        let content = editor.content(index);
        let half = content.len() / 2;
        if random.below(3) == 0 {
            // Table: first block, blocks, shift; start and progress of the next; free block.
            let at = *random.choose(&[16, 24, 32, 40, 48, 56, 64, 72, 96]);
            let value = *random.choose(&[0, 1, 2, 10, 40, 63, 64, 1 << 40, u64::MAX]);
            put(content, at, value);
            return Some(format!("{}: header at {at}: {value}", self.name(index)));
        }
        let value = *random.choose(&[0, 1, 2, 1 << 20, u64::MAX]);
        let every = 1 + random.index(4);
        for at in (half..content.len()).step_by(8 * every) {
            put(content, at, value);
        }
        let name = self.name(index);
        Some(format!("{name}: every {every}. pointer is {value}"))
    }

    /// Values of a small ZAP become its own number, and others that stand for objects.
    fn microzap_values(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let index = self.zap_block(ZAP_MICRO, random)?;
        let own = self.tree.nodes[index].object;
        let content = editor.content(index);
        let used: Vec<usize> = (MICROZAP_ENTRIES..content.len())
            .step_by(MICROZAP_ENTRY_SIZE)
            .filter(|at| content.get(at + 14).is_some_and(|first| *first != 0))
            .collect();
        if used.is_empty() {
            return None;
        }
        let mut done = Vec::new();
        for _ in 0..1 + random.below(3) {
            let at = *random.choose(&used);
            let any = random.below(500);
            let value = *random.choose(&[own, own, 1, 0, any, u64::MAX]);
            put(content, at, value);
            done.push(format!("{value} at {at}"));
        }
        Some(format!(
            "{}: entries: {}",
            self.name(index),
            done.join(", ")
        ))
    }

    /// Sizes and counts within a packed list.
    fn bad_list(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let nodes = self.tree.nodes.iter().enumerate();
        let lists: Vec<usize> = nodes
            .filter(|(_, node)| {
                node.role == Role::Contents
                    && node.pointer.object_type() == ObjectType::PACKED_NVLIST
            })
            .map(|(index, _)| index)
            .collect();
        if lists.is_empty() {
            return None;
        }
        let index = *random.choose(&lists);
        if random.below(4) == 0 {
            let size = self.tree.nodes[index].content.len();
            let depth = size / NESTED_LIST;
            let nested = nested_list(depth, size);
            *editor.content(index) = nested;
            return Some(format!("{}: {depth} lists nested", self.name(index)));
        }
        let content = editor.content(index);
        let done = spoil_list(content, random)?;
        Some(format!("{}: {done}", self.name(index)))
    }

    /// Every label of a device holds lists within lists, or sizes that are wrong.
    fn deep_label(&self, random: &mut Random) -> Result<Mutant> {
        let device = random.index(self.devices.count());
        let is_nested = random.below(2) == 0;
        let seed = random.next_u64();
        let edit = |piece: &mut [u8]| {
            if is_nested {
                let size = piece.len();
                piece.copy_from_slice(&nested_list(size / NESTED_LIST, size));
            } else {
                // The same in each label. If nothing fits, the list stays as it is.
                let _ = spoil_list(piece, &mut Random::new(seed));
            }
        };
        let what = match is_nested {
            true => "nested lists",
            false => "wrong sizes in its lists",
        };
        Ok(Mutant {
            description: format!("device {device}: {what} ({seed:#x})"),
            writes: labels::edit_config(self.devices, device, edit)?,
            ..Mutant::default()
        })
    }

    /// A dnode claims more levels, larger pointers' blocks and the longest file there can be.
    fn deep_tree(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let (index, at, dnode) = self.dnode_in(random)?;
        let levels = 2 + random.below(14);
        let content = editor.content(index);
        let shift = content[at + 1];
        content[at + 2] = levels as u8;
        content[at + 1] = *random.choose(&[7, 10, 12, 17, 18, 24, 63, shift]);
        let last = interesting(random, 0, 1 << 40);
        put(content, at + 16, last);
        Some(format!(
            "{}: dnode ({}) at {at} has {levels} levels up to block {last:#x}",
            self.name(index),
            dnode.object_type
        ))
    }

    /// A block all of whose pointers lead to itself, at all levels.
    fn endless_block(
        &self,
        editor: &mut Editor<'_>,
        random: &mut Random,
    ) -> Result<Option<String>> {
        let Some((index, at)) = self.pointer_in(random) else {
            return Ok(None);
        };
        let node = &self.tree.nodes[index].content;
        let Ok(old) = BlockPointer::decode(&node[at..]) else {
            return Ok(None);
        };
        // As large as what was there: another size would be noticed at once.
        let size = old.logical_size();
        if size > 128 << 10 {
            return Ok(None);
        }
        let birth = old.logical_birth();
        let dva = editor.reserve(size, birth)?;
        let level = u64::from(old.level().0);
        let mut content = Vec::new();
        for entry in 0..size / BLOCK_POINTER_SIZE as u64 {
            // At each level as many lead on as there is room for.
            let below = entry % level.max(1);
            content.extend(unchecked(&old, dva, size, below).encode());
        }
        editor.fill(dva, content, birth);
        let pointer = unchecked(&old, dva, size, level).encode();
        editor.content(index)[at..at + BLOCK_POINTER_SIZE].copy_from_slice(&pointer);
        Ok(Some(format!(
            "{}: pointer at {at} leads to a block of {size} bytes that leads to itself",
            self.name(index)
        )))
    }

    /// A file with a tree of many levels, in which a few blocks lead to more places than any reader
    /// can visit, and none to data.
    fn hollow_tree(&self, editor: &mut Editor<'_>, random: &mut Random) -> Result<Option<String>> {
        let Some((index, at, dnode)) = self.dnode_in(random) else {
            return Ok(None);
        };
        let Some(old) = dnode.block_pointers.first().filter(|old| !old.is_hole()) else {
            return Ok(None);
        };
        if dnode.object_type != ObjectType::PLAIN_FILE {
            return Ok(None);
        }
        let size = dnode.indirect_block_size().min(128 << 10);
        let birth = old.logical_birth();
        let levels = 3 + random.below(4);
        let mut content = vec![0; usize::try_from(size)?];
        for level in 1..levels {
            let dva = editor.reserve(size, birth)?;
            let below = content.len() / BLOCK_POINTER_SIZE;
            editor.fill(dva, content, birth);
            let pointer = unchecked(old, dva, size, level).encode();
            content = pointer.repeat(below);
        }
        let first = content[..BLOCK_POINTER_SIZE].to_vec();
        let content = editor.content(index);
        content[at + 2] = levels as u8;
        put(content, at + 16, u64::MAX >> 20);
        let place = at + DNODE_CORE_SIZE;
        content[place..place + BLOCK_POINTER_SIZE].copy_from_slice(&first);
        Ok(Some(format!(
            "{}: dnode at {at} has {levels} levels of nothing",
            self.name(index)
        )))
    }

    /// A gang header all of whose members are that header.
    fn endless_gang(&self, editor: &mut Editor<'_>, random: &mut Random) -> Result<Option<String>> {
        let Some((index, at)) = self.pointer_in(random) else {
            return Ok(None);
        };
        let node = &self.tree.nodes[index].content;
        let Ok(old) = BlockPointer::decode(&node[at..]) else {
            return Ok(None);
        };
        let birth = old.logical_birth();
        let plain = editor.reserve(GANG_HEADER as u64, birth)?;
        let dva = Dva {
            word1: plain.word1 | 1 << 63,
            ..plain
        };
        let mut member = old;
        member.words[..6].fill(0);
        (member.words[0], member.words[1]) = (dva.word0, dva.word1);
        // Neither embedded nor encrypted, and born where its verifier says.
        member.words[6] = wire::with_bits(member.words[6], 39, 1, 0);
        member.words[6] = wire::with_bits(member.words[6], 61, 1, 0);
        member.words[9] = 0;
        let mut header = vec![0; GANG_HEADER];
        for place in header
            .chunks_exact_mut(BLOCK_POINTER_SIZE)
            .take(GANG_MEMBERS)
        {
            place.copy_from_slice(&member.encode());
        }
        prepare(&mut header, GANG_TRAILER, gang_verifier(dva, birth));
        let sum = sha256(&header);
        seal(&mut header, GANG_TRAILER, sum);
        editor.fill(plain, header, birth);
        // Of some nodes every pointer leads there.
        let places = match random.below(2) {
            0 => vec![at],
            _ => self.tree.nodes[index].pointers.clone(),
        };
        for at in &places {
            let bytes = member.encode();
            editor.content(index)[*at..*at + BLOCK_POINTER_SIZE].copy_from_slice(&bytes);
        }
        Ok(Some(format!(
            "{}: {} pointers lead to a gang of itself",
            self.name(index),
            places.len()
        )))
    }
}

/// A pointer like `old` to `size` uncompressed bytes at `dva`, of `level` and without checksum.
fn unchecked(old: &BlockPointer, dva: Dva, size: u64, level: u64) -> BlockPointer {
    let sectors = size / 512 - 1;
    let mut new = BlockPointer::HOLE;
    (new.words[0], new.words[1]) = (dva.word0, dva.word1);
    let kept = old.words[6] & (0x9fff_u64 << 48);
    let fields = [
        (0, 16, sectors),
        (16, 16, sectors),
        (32, 7, u64::from(CompressionKind::Off.number())),
        (40, 8, ChecksumKind::Off as u64),
        (56, 5, level),
        (63, 1, 1),
    ];
    new.words[6] = fields.iter().fold(kept, |word, (low, length, value)| {
        wire::with_bits(word, *low, *length, *value)
    });
    new.words[10] = old.words[10];
    new.words[11] = old.fill();
    new
}

/// Bytes that a list within a list takes: the pair's header 24, the list's 8, the end 8.
const NESTED_LIST: usize = 40;

/// A packed list (XDR) of `size` bytes that holds a list that holds a list, `depth` of them.
fn nested_list(depth: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![1, 1, 0, 0];
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    };
    words(&mut bytes, &[0, 1]);
    for left in (1..=depth).rev() {
        // Encoded and decoded size, name "n", type list, one element; then that list's header.
        let encoded = u32::try_from(40 * left).unwrap_or(u32::MAX);
        words(&mut bytes, &[encoded, encoded, 1, 0x6e00_0000, 19, 1, 0, 1]);
    }
    bytes.resize(size, 0);
    bytes
}

/// Wrong sizes, counts or types at words of a packed list that look like such.
fn spoil_list(content: &mut [u8], random: &mut Random) -> Option<String> {
    let small: Vec<usize> = (4..content.len().saturating_sub(4))
        .step_by(4)
        .filter(|at| content[*at..at + 2] == [0, 0] && content[at + 2..at + 4] != [0, 0])
        .collect();
    if small.is_empty() {
        return None;
    }
    let mut done = Vec::new();
    for _ in 0..1 + random.below(3) {
        let at = *random.choose(&small);
        let old = u32::from_be_bytes(content[at..at + 4].try_into().ok()?);
        let choices = [
            0,
            old.wrapping_add(4),
            old.wrapping_sub(4),
            old.wrapping_mul(2),
            1 << 20,
            i32::MAX as u32,
            1 << 31,
            u32::MAX,
            8,
            9,
            19,
            20,
        ];
        let value = *random.choose(&choices);
        content[at..at + 4].copy_from_slice(&value.to_be_bytes());
        done.push(format!("word at {at} from {old:#x} to {value:#x}"));
    }
    Some(done.join(", "))
}
