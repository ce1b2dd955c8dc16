//! Damage below right checksums: what a hostile or miswritten pool can hold.
//!
//! A mutation picks a block of the tree, by kind first so that rare structures come up as often as
//! common ones, and changes something that the format gives a meaning. Some are aimed (loops in
//! block pointers, cyclic directories, absurd sizes), some put interesting numbers anywhere.

use super::editor::{Editor, FreeSpace};
use super::labels::{self, Labels};
use super::log::{self, Log};
use super::tree::{Role, Tree};
use super::{Devices, Mutant};
use crate::random::Random;
use anyhow::Result;
use cenote_codec::Endian;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE};
use cenote_ondisk::{ChecksumKind, Dnode, ObjectType, wire};
use std::collections::BTreeMap;

/// The blocks of a pool and room for changed ones.
pub struct Structure<'a> {
    pub(super) devices: &'a Devices,
    labels: Labels,
    pub(super) tree: Tree,
    free: FreeSpace,
    logs: Vec<Log>,
    /// Nodes by what they are.
    pub(super) groups: Vec<(String, Vec<usize>)>,
    is_in_place: bool,
}

/// First word of a microzap: format/2b 5.
pub(super) const ZAP_MICRO: u64 = 0x8000_0000_0000_0003;
pub(super) const MICROZAP_ENTRIES: usize = 64;
pub(super) const MICROZAP_ENTRY_SIZE: usize = 64;

/// Attempts to find a mutation that applies.
const ATTEMPTS_MAX: usize = 100;

impl<'a> Structure<'a> {
    /// Reads the structure of a pool; `None` if no vdev of it can be written to.
    pub fn read(devices: &'a Devices) -> Result<Option<Self>> {
        let labels = Labels::read(devices)?;
        if labels.tops.is_empty() {
            return Ok(None);
        }
        let tree = match Tree::read(devices, &labels) {
            Ok(tree) => tree,
            // The root lies where nothing can be read without the pool's own tables.
            Err(_) => return Ok(None),
        };
        let free = FreeSpace::find(devices, &labels)?;
        let logs = log::find(devices, &labels.tops, &tree);
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, node) in tree.nodes.iter().enumerate() {
            let what = match node.role {
                Role::Contents => node.pointer.object_type().to_string(),
                role => format!("{role:?}"),
            };
            groups.entry(what).or_default().push(index);
        }
        Ok(Some(Self {
            devices,
            labels,
            tree,
            free,
            logs,
            groups: groups.into_iter().collect(),
            is_in_place: false,
        }))
    }

    /// The same, whose mutants are written to afterwards: changed blocks stay where the space maps
    /// know them, so that nothing overwrites them, and freeing them is no fault.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self {
            is_in_place: true,
            ..self
        }
    }

    /// How many blocks there are to change.
    pub fn blocks(&self) -> usize {
        self.tree.nodes.len()
    }

    /// How many blocks of intent logs there are to change.
    pub fn log_blocks(&self) -> usize {
        self.logs.len()
    }

    /// The contents of all blocks that are not indirect, each with the name of its type.
    pub fn contents(&self) -> impl Iterator<Item = (String, &[u8])> {
        let nodes = self.tree.nodes.iter();
        nodes
            .filter(|node| node.role != Role::Indirect)
            .map(|node| (node.pointer.object_type().to_string(), &node.content[..]))
    }

    /// The newest uberblock.
    pub fn uberblock(&self) -> &cenote_ondisk::Uberblock {
        &self.labels.best
    }

    /// A mutant drawn from `random`.
    pub fn mutant(&self, random: &mut Random) -> Result<Mutant> {
        match random.below(20) {
            0 => self.uberblock_mutant(random),
            1 => self.label_mutant(random),
            2..=6 if !self.logs.is_empty() => {
                let interesting = |random: &mut Random, old| interesting(random, old, 1);
                log::mutant(&self.logs, &self.labels.tops, random, interesting)
            }
            _ => self.tree_mutant(random),
        }
    }

    /// A mutant that changes nothing but addresses: the pool must read as before.
    pub fn harmless_mutant(&self, random: &mut Random) -> Result<Mutant> {
        let mut editor = self.editor();
        for _ in 0..5 {
            editor.content(random.index(self.tree.nodes.len()));
        }
        Ok(Mutant {
            description: "some blocks moved".into(),
            writes: editor.commit()?,
            ..Mutant::default()
        })
    }

    /// The pool as a big-endian host would have written it: all metadata and the uberblock in
    /// that order. It must read as before.
    ///
    /// Attributes of files stay as they are: their buffers say their byte order themselves.
    pub fn big_endian_mutant(&self) -> Result<Mutant> {
        let mut editor = self.editor();
        for index in 0..self.tree.nodes.len() {
            editor.content(index);
        }
        Ok(Mutant {
            description: "all metadata in big-endian order".into(),
            writes: editor.commit_as(Endian::Big)?,
            ..Mutant::default()
        })
    }

    pub(super) fn editor(&self) -> Editor<'_> {
        Editor::new(self.devices, &self.labels, &self.tree, &self.free).in_place(self.is_in_place)
    }

    fn tree_mutant(&self, random: &mut Random) -> Result<Mutant> {
        let mut editor = self.editor();
        let wanted = 1 + random.index(3);
        let mut done = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            if done.len() == wanted {
                break;
            }
            done.extend(self.change(&mut editor, random));
        }
        Ok(Mutant {
            description: done.join("; "),
            writes: editor.commit()?,
            ..Mutant::default()
        })
    }

    /// One mutation of some kind; `None` if there was nothing to apply it to.
    fn change(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        match random.below(8) {
            0 => self.change_bytes(editor, random),
            1 => self.change_pointer(editor, random),
            2 => self.loop_pointer(editor, random),
            3 => self.change_dnode(editor, random),
            4 => self.change_bonus(editor, random),
            5 => self.cycle_directory(editor, random),
            _ => self.change_word(editor, random),
        }
    }

    fn uberblock_mutant(&self, random: &mut Random) -> Result<Mutant> {
        // The structure has 27 words: format/1 1.3.
        let word = random.index(27);
        let value = interesting(random, self.labels.best.to_words()[word], 1);
        let edit = |slot: &mut [u8]| put(slot, 8 * word, value);
        Ok(Mutant {
            description: format!("uberblock: word {word} is {value:#x}"),
            writes: self.labels.edit_uberblock(self.devices, edit)?,
            ..Mutant::default()
        })
    }

    fn label_mutant(&self, random: &mut Random) -> Result<Mutant> {
        let device = random.index(self.devices.count());
        // An nvlist's integers are 32 bits, big-endian; the labels' lists take a few KiB.
        let changes: Vec<(usize, u32)> = (0..1 + random.below(4))
            .map(|_| {
                let at = 4 * random.index(700);
                let choices = [0, 1, 0xff, 0x7fff_ffff, u32::MAX, 19, 20, 1 << 20];
                (at, *random.choose(&choices))
            })
            .collect();
        let edit = |piece: &mut [u8]| {
            for (at, value) in &changes {
                piece[*at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
        };
        Ok(Mutant {
            description: format!("device {device}: configuration words {changes:x?}"),
            writes: labels::edit_config(self.devices, device, edit)?,
            ..Mutant::default()
        })
    }

    /// A node, its kind drawn first.
    fn any_node(&self, random: &mut Random) -> usize {
        let (_, nodes) = random.choose(&self.groups);
        *random.choose(nodes)
    }

    /// A node of the given role, if there is one.
    fn node_of(&self, role: Role, random: &mut Random) -> Option<usize> {
        let nodes: Vec<usize> = (0..self.tree.nodes.len())
            .filter(|index| self.tree.nodes[*index].role == role)
            .collect();
        (!nodes.is_empty()).then(|| *random.choose(&nodes))
    }

    pub(super) fn name(&self, index: usize) -> String {
        let node = &self.tree.nodes[index];
        let (level, what) = (node.pointer.level(), node.pointer.object_type());
        let (objset, object, block) = (node.objset, node.object, node.first_block);
        format!("[L{level} {what}, object {object} of set {objset}, block {block}]")
    }

    /// One of the block's words gets an interesting value.
    fn change_word(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let index = self.any_node(random);
        let object = self.tree.nodes[index].object;
        let content = editor.content(index);
        // Headers are where sizes and links stand: every second hit goes there.
        let words = content.len() / 8;
        let reach = if random.below(2) == 0 {
            words
        } else {
            words.min(64)
        };
        let mut at = 8 * random.index(reach);
        for _ in 0..4 {
            // Most of a block is often unused: rather a word that says something.
            if content[at..at + 8] != [0; 8] {
                break;
            }
            at = 8 * random.index(reach);
        }
        let width = *random.choose(&[8, 8, 4, 2, 1]);
        let old = wire::u64_le(content, at, "word").ok()?;
        let value = interesting(random, old, object);
        content[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        let name = self.name(index);
        Some(format!(
            "{name}: {width} bytes at {at} from {old:#x} to {value:#x}"
        ))
    }

    /// A piece of the block becomes a copy of another piece, zeros or noise.
    fn change_bytes(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let index = self.any_node(random);
        let content = editor.content(index);
        let length = (1 + random.index(256)).min(content.len());
        let to = random.index(content.len() - length + 1);
        let from = random.index(content.len() - length + 1);
        let what = match random.below(3) {
            0 => {
                content.copy_within(from..from + length, to);
                format!("a copy of {from}")
            }
            1 => {
                content[to..to + length].fill(0);
                "zeros".into()
            }
            _ => {
                random.fill(&mut content[to..to + length]);
                "noise".into()
            }
        };
        Some(format!(
            "{}: {length} bytes at {to} are {what}",
            self.name(index)
        ))
    }

    /// A block pointer in the block: where it stands.
    pub(super) fn pointer_in(&self, random: &mut Random) -> Option<(usize, usize)> {
        let role = *random.choose(&[Role::Indirect, Role::Dnodes, Role::Objset]);
        let index = self.node_of(role, random)?;
        let pointers = &self.tree.nodes[index].pointers;
        (!pointers.is_empty()).then(|| (index, *random.choose(pointers)))
    }

    /// A field of a block pointer gets a value that its readers may not expect.
    fn change_pointer(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let (index, at) = self.pointer_in(random)?;
        // Word, lowest bit and length of each field: format/2a 1.
        let fields = [
            ("asize", 0, 0, 24),
            ("vdev", 0, 32, 24),
            ("offset", 1, 0, 63),
            ("gang", 1, 63, 1),
            ("lsize", 6, 0, 16),
            ("psize", 6, 16, 16),
            ("compression", 6, 32, 7),
            ("embedded", 6, 39, 1),
            ("checksum", 6, 40, 8),
            ("type", 6, 48, 8),
            ("level", 6, 56, 5),
            ("encrypted", 6, 61, 1),
            ("dedup", 6, 62, 1),
            ("byte order", 6, 63, 1),
            ("physical birth", 9, 0, 64),
            ("logical birth", 10, 0, 64),
            ("fill", 11, 0, 64),
        ];
        let (name, word, low, length) = *random.choose(&fields);
        let content = editor.content(index);
        let old = wire::u64_le(content, at + 8 * word, "pointer").ok()?;
        let mask = u64::MAX >> (64 - length);
        let value = interesting(random, wire::bits(old, low, length), 1) & mask;
        let mut new = wire::with_bits(old, low, length, value);
        if name != "checksum" && word == 6 && random.below(2) == 0 {
            // Without a checksum the changed pointer's block reaches its decoder.
            new = wire::with_bits(new, 40, 8, ChecksumKind::Off as u64);
        }
        put(content, at + 8 * word, new);
        Some(format!(
            "{}: {name} of the pointer at {at} is {value:#x}",
            self.name(index)
        ))
    }

    /// A pointer leads to an ancestor or to any other block. The pointers in such a loop have no
    /// checksum, because a block cannot contain its own.
    fn loop_pointer(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let (index, at) = self.pointer_in(random)?;
        let old = wire::u64_le(&self.tree.nodes[index].content, at + 48, "pointer").ok()?;
        let mut target = index;
        if random.below(4) == 0 {
            target = random.index(self.tree.nodes.len());
        } else {
            for _ in 0..random.below(4) {
                target = self.tree.nodes[target]
                    .parent
                    .map_or(target, |parent| parent.0);
            }
        }
        let mut pointer = self.tree.nodes[target].pointer;
        let properties = wire::with_bits(pointer.words[6], 40, 8, ChecksumKind::Off as u64);
        // Every second one pretends to be what is expected here.
        pointer.words[6] = match random.below(2) {
            0 => properties,
            _ => (properties & !(0x1fff_u64 << 48)) | (old & (0x1fff_u64 << 48)),
        };
        let bytes = pointer.encode();
        editor.content(index)[at..at + BLOCK_POINTER_SIZE].copy_from_slice(&bytes);
        Some(format!(
            "{}: pointer at {at} leads to {}",
            self.name(index),
            self.name(target)
        ))
    }

    /// Where a dnode in use stands: node, offset, and the dnode.
    pub(super) fn dnode_in(&self, random: &mut Random) -> Option<(usize, usize, Dnode)> {
        if random.below(8) == 0 {
            let index = self.node_of(Role::Objset, random)?;
            let dnode = Dnode::decode(&self.tree.nodes[index].content).ok()??;
            return Some((index, 0, dnode));
        }
        let index = self.node_of(Role::Dnodes, random)?;
        let content = &self.tree.nodes[index].content;
        let at = DNODE_SIZE * random.index(content.len() / DNODE_SIZE);
        let dnode = Dnode::decode(&content[at..]).ok()??;
        Some((index, at, dnode))
    }

    /// A field of a dnode.
    fn change_dnode(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let (index, at, dnode) = self.dnode_in(random)?;
        // Offset and width of each field: format/2b 2.
        let fields = [
            ("type", 0, 1),
            ("indirect shift", 1, 1),
            ("levels", 2, 1),
            ("pointers", 3, 1),
            ("bonus type", 4, 1),
            ("checksum", 5, 1),
            ("compression", 6, 1),
            ("flags", 7, 1),
            ("block size", 8, 2),
            ("bonus length", 10, 2),
            ("extra slots", 12, 1),
            ("block id", 16, 8),
            ("used", 24, 8),
        ];
        let (name, offset, width) = *random.choose(&fields);
        let content = editor.content(index);
        let mut old = [0; 8];
        old[..width].copy_from_slice(&content[at + offset..at + offset + width]);
        let mut value = interesting(random, u64::from_le_bytes(old), 1);
        if name == "levels" {
            value = 1 + random.below(16);
        }
        let bytes = value.to_le_bytes();
        content[at + offset..at + offset + width].copy_from_slice(&bytes[..width]);
        let what = dnode.object_type;
        Some(format!(
            "{}: {name} of the dnode ({what}) at {at} is {value:#x}",
            self.name(index)
        ))
    }

    /// A word of a dnode's bonus: DSL directories and datasets, space maps, attributes of files.
    fn change_bonus(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let (index, at, dnode) = self.dnode_in(random)?;
        let words = dnode.bonus.len() / 8;
        if words == 0 {
            return None;
        }
        let word = random.index(words);
        let start = at + DNODE_CORE_SIZE + dnode.block_pointers.len() * BLOCK_POINTER_SIZE;
        let node = &self.tree.nodes[index];
        let own = node.first_block * (node.content.len() / DNODE_SIZE) as u64;
        let own = own + (at / DNODE_SIZE) as u64;
        let content = editor.content(index);
        let old = wire::u64_le(content, start + 8 * word, "bonus").ok()?;
        let value = interesting(random, old, own);
        put(content, start + 8 * word, value);
        let what = dnode.bonus_type;
        Some(format!(
            "{}: word {word} of {what} {own} is {value:#x}",
            self.name(index)
        ))
    }

    /// An entry of a directory leads to the directory itself, to the root or to any object.
    fn cycle_directory(&self, editor: &mut Editor<'_>, random: &mut Random) -> Option<String> {
        let directories: Vec<usize> = (0..self.tree.nodes.len())
            .filter(|index| {
                let node = &self.tree.nodes[*index];
                node.role == Role::Contents
                    && node.pointer.object_type() == ObjectType::DIRECTORY
                    && wire::u64_le(&node.content, 0, "ZAP") == Ok(ZAP_MICRO)
            })
            .collect();
        if directories.is_empty() {
            return None;
        }
        let index = *random.choose(&directories);
        let own = self.tree.nodes[index].object;
        let content = editor.content(index);
        let used: Vec<usize> = (MICROZAP_ENTRIES..content.len())
            .step_by(MICROZAP_ENTRY_SIZE)
            .filter(|at| content.get(at + 14).is_some_and(|first| *first != 0))
            .collect();
        if used.is_empty() {
            return None;
        }
        let at = *random.choose(&used);
        // The upper four bits are the type of the file, 4 for directories: format/3b.
        let any = random.below(500);
        let target = *random.choose(&[own, 34, 1, any]);
        put(content, at, 4 << 60 | target);
        Some(format!(
            "{}: the entry at {at} is directory {target}",
            self.name(index)
        ))
    }
}

/// A number that bounds are often wrong about; `own` is an object's own number.
pub(super) fn interesting(random: &mut Random, old: u64, own: u64) -> u64 {
    match random.below(16) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << 63,
        4 => i64::MAX as u64,
        5 => 1 << random.below(64),
        6 => (1 << random.below(64)) - 1,
        7 | 8 => own,
        9 => old ^ (1 << random.below(64)),
        10 => old.wrapping_add(1),
        11 => old.wrapping_sub(1),
        12 => old.wrapping_mul(2),
        13 => random.below(256),
        14 => random.below(1 << 16),
        _ => random.next_u64(),
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
