//! Values of a pool's own tables: what a writer trusts for as long as the pool is open.
//!
//! A reader meets a wrong number where it decodes it. A writer takes it at the import and computes
//! with it in each group: numbers of groups, of objects, places on vdevs, counts and sums. So
//! these mutants stay within the meta object set, and put there what is well-formed and wrong: a
//! later group, another object's number, a neighbour's value, a count that is one too small.

use super::Mutant;
use super::editor::Editor;
use super::structure::{
    MICROZAP_ENTRIES, MICROZAP_ENTRY_SIZE, Structure, ZAP_MICRO, interesting, put,
};
use super::tree::Role;
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE};
use cenote_ondisk::{Dnode, wire};
use std::collections::BTreeMap;

/// Attempts to find a mutation that applies.
const ATTEMPTS_MAX: usize = 100;

/// A word of the meta object set: the node, and where in it.
type Place = (usize, usize);

impl Structure<'_> {
    /// A mutant with one to three wrong values in the meta object set.
    ///
    /// # Errors
    /// If there is no room for a changed block.
    pub fn table_mutant(&self, random: &mut Random) -> Result<Mutant> {
        let kinds = self.table_words();
        let kinds: Vec<&Vec<Place>> = kinds.values().collect();
        let mut editor = self.editor();
        // Each of several is a chance that the import refuses all of them.
        let wanted = *random.choose(&[1, 1, 1, 2, 3]);
        let mut done = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            if done.len() == wanted || kinds.is_empty() {
                break;
            }
            let places = *random.choose(&kinds);
            done.extend(self.change_value(&mut editor, places, random));
        }
        Ok(Mutant {
            description: done.join("; "),
            writes: editor.commit()?,
            ..Mutant::default()
        })
    }

    /// A mutant in which words of the meta object set have these values: each a place, which is an
    /// object (0 for the dnodes themselves), a block of it and a byte in the block, and a value.
    ///
    /// # Errors
    /// If there is no such place, or no room for a changed block.
    pub fn words_mutant(&self, words: &[((u64, u64, usize), u64)]) -> Result<Mutant> {
        let mut editor = self.editor();
        for ((object, block, at), value) in words {
            let mut nodes = self.tree.nodes.iter();
            let found = nodes.position(|node| {
                let is_there = node.objset == 0 && node.object == *object;
                is_there && node.first_block == *block && node.pointer.level().0 == 0
            });
            let index = found.with_context(|| format!("object {object}, block {block}"))?;
            let content = editor.content(index);
            ensure!(at + 8 <= content.len(), "object {object}: byte {at}");
            put(content, *at, *value);
        }
        Ok(Mutant {
            description: format!("{words:x?}"),
            writes: editor.commit()?,
            ..Mutant::default()
        })
    }

    /// The words of the meta object set that say something, by what they are in.
    fn table_words(&self) -> BTreeMap<String, Vec<Place>> {
        let mut kinds: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        for (index, node) in self.tree.nodes.iter().enumerate() {
            if node.objset != 0 {
                continue;
            }
            match node.role {
                Role::Contents => {
                    let what = node.pointer.object_type().to_string();
                    let words = kinds.entry(what).or_default();
                    words.extend(self.words_of(index).map(|at| (index, at)));
                }
                Role::Dnodes => {
                    for (what, at) in self.bonus_words(index) {
                        kinds.entry(what).or_default().push((index, at));
                    }
                }
                Role::Objset | Role::Indirect => {}
            }
        }
        kinds.retain(|_, words| !words.is_empty());
        kinds
    }

    /// Where words stand that say something: of small ZAPs only the values.
    fn words_of(&self, index: usize) -> impl Iterator<Item = usize> {
        let content = &self.tree.nodes[index].content;
        let is_zap = wire::u64_le(content, 0, "ZAP") == Ok(ZAP_MICRO);
        let (start, step) = match is_zap {
            true => (MICROZAP_ENTRIES, MICROZAP_ENTRY_SIZE),
            false => (0, 8),
        };
        let end = content.len().saturating_sub(step - 1);
        let is_used = move |at: &usize| match is_zap {
            true => content[at + 14] != 0,
            false => content[*at..at + 8] != [0; 8],
        };
        (start..end).step_by(step).filter(is_used)
    }

    /// The words of the bonus of each dnode in a block.
    fn bonus_words(&self, index: usize) -> Vec<(String, usize)> {
        let content = &self.tree.nodes[index].content;
        let mut words = Vec::new();
        let mut slot = 0;
        while slot + DNODE_SIZE <= content.len() {
            let Ok(Some(dnode)) = Dnode::decode(&content[slot..]) else {
                slot += DNODE_SIZE;
                continue;
            };
            let bonus = DNODE_CORE_SIZE + dnode.block_pointers.len() * BLOCK_POINTER_SIZE;
            let what = format!("bonus {}", dnode.bonus_type);
            let places = (0..dnode.bonus.len() / 8).map(|word| slot + bonus + 8 * word);
            words.extend(places.map(|at| (what.clone(), at)));
            // The size of the blocks, the last block, and the bytes in use.
            words.extend([8, 16, 24].map(|at| (format!("dnode {}", dnode.object_type), slot + at)));
            slot += dnode.slots() * DNODE_SIZE;
        }
        words
    }

    fn change_value(
        &self,
        editor: &mut Editor<'_>,
        places: &[Place],
        random: &mut Random,
    ) -> Option<String> {
        let (index, at) = *random.choose(places);
        let (other, from) = *random.choose(places);
        let txg = self.uberblock().txg.0;
        let object = self.tree.nodes[index].object;
        let neighbour = wire::u64_le(&self.tree.nodes[other].content, from, "word").ok()?;
        let content = editor.content(index);
        let old = wire::u64_le(content, at, "word").ok()?;
        let value = match random.below(8) {
            0 => txg.wrapping_add(random.below(200)),
            1 => txg.saturating_sub(random.below(200)),
            2 | 3 => neighbour,
            4 => random.below(2 * self.tree.nodes.len() as u64),
            5 => old
                .wrapping_add(random.below(1 << 12))
                .wrapping_sub(1 << 11),
            _ => interesting(random, old, object),
        };
        if value == old {
            return None;
        }
        put(content, at, value);
        Some(format!(
            "{}: word at {at} from {old:#x} to {value:#x}",
            self.name(index)
        ))
    }
}
