//! Programs made of parts of others: whatever they are, they end, and nothing panics.
//!
//! `CENOTE_PROGRAM_MUTANTS=FIRST,COUNT` runs others; a failing one prints its number.

use super::lua::machine::Vm;
use super::tests::Fake;
use super::*;

/// What mutants are made of.
const PARENTS: &str = include_str!("hostile.txt");

/// More that a program can have.
const MORE: &[&str] = &[
    "local a <b> = 1 ",
    "setmetatable(t, {__index = f, __newindex = f, __call = f, __gc = f, __mode = 'kv'}) ",
    "coroutine.yield(t, f, ...) ",
    "coroutine.wrap(f)(t) ",
    "coroutine.resume(coroutine.running()) ",
    "table.sort(t, f) ",
    "string.gsub(s, '(.)', f) ",
    "string.format('%5.3s|%q|%x', s, s, 7) ",
    "for k, v in pairs(t) do t[k] = nil t[v] = k end ",
    "goto a ::a:: ",
    "collectgarbage() ",
    "zfs.list.children('tank') ",
    "zfs.sync.destroy{'tank', defer = t} ",
    "return t, f, s, ... ",
    "local function f(...) local t = {..., f} return ... end ",
    "s = s:rep(3) .. #t ",
    "_ENV = t ",
    "select(-1, ...) ",
];

/// Numbers from a seed: splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % limit
    }
}

/// A program of words of several others.
fn mutant(seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let parents: Vec<&str> = PARENTS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    let mut source = String::from("local t, s, f = {1, 2, x = {}}, 'text', print ");
    for _ in 0..1 + numbers.below(4) {
        let parent = match numbers.below(3) {
            0 => MORE[numbers.below(MORE.len())],
            _ => parents[numbers.below(parents.len())],
        };
        let words: Vec<&str> = parent.split_inclusive([' ', '(', ')', ',', '.']).collect();
        let (first, last) = (numbers.below(words.len()), numbers.below(words.len()));
        match numbers.below(4) {
            0 => source.extend(words[first.min(last)..].iter().copied()),
            1 => source.extend(words[..first.max(last)].iter().copied()),
            2 => source.push_str(parent),
            _ => {
                let mut words = words;
                words.swap(first, last);
                source.extend(words);
            }
        }
        source.push(' ');
    }
    source
}

#[test]
fn mutants_end_without_a_panic() {
    let (mut first, mut count) = (0, 2_000);
    if let Ok(wanted) = std::env::var("CENOTE_PROGRAM_MUTANTS")
        && let Some((begin, number)) = wanted.split_once(',')
    {
        first = begin.parse().expect("a number");
        count = number.parse().expect("a number");
    }
    let mut compiled = 0;
    for seed in first..first + count {
        let source = mutant(seed);
        let outcome = std::panic::catch_unwind(|| {
            let mut fake = Fake::default();
            let mut vm = Vm::new(&mut fake, true, (20_000, 1 << 20)).ok()?;
            vm.is_stressed = seed % 2 == 0;
            Some(run_in(&mut vm, source.as_bytes(), &["tank".to_owned()]).is_ok())
        });
        match outcome {
            Ok(ended) => compiled += usize::from(ended == Some(true)),
            Err(_) => panic!("mutant {seed}: {source}"),
        }
    }
    assert!(count < 1_000 || compiled > 0, "no mutant is a program");
}
