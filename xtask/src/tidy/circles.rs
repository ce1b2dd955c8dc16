//! Circles: files of a crate that use one another.
//!
//! Of two files that use each other neither can be read first, and none of them can be moved, so
//! that they are one file in two pieces. Here each file of a crate is a node, and an edge goes to
//! the file whose items it names ([`super::uses`]). Code that children of a module share is in a
//! file beside them, and `mod.rs` declares them, hands on and calls; it is not used by them.
//!
//! The rule is younger than the code. The files that were in circles when it came are listed in
//! `circles_left.txt`: no file may be added, and one that has left its circle is struck off.

use super::problem::{Problem, TextFile};
use super::uses::{Uses, uses};
use std::collections::{BTreeMap, BTreeSet};

/// Edges that may close a circle: from, to, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "codec/src/checksum/fletcher.rs",
        "codec/src/checksum/fletcher_x86.rs",
        SIMD_TWIN,
    ),
    (
        "codec/src/checksum/sha512.rs",
        "codec/src/checksum/sha512_x86.rs",
        SIMD_TWIN,
    ),
    (
        "codec/src/checksum/skein.rs",
        "codec/src/checksum/skein_x86.rs",
        SIMD_TWIN,
    ),
    (
        "codec/src/parity/combine.rs",
        "codec/src/parity/kernel_x86.rs",
        SIMD_TWIN,
    ),
];

const SIMD_TWIN: &str = "a portable function takes its SIMD twin, which is tested against it";

/// Files that are still in circles, a line for each.
const LEFT: &str = include_str!("circles_left.txt");

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks that the files of each crate use one another in one direction.
pub(super) fn check(files: &[TextFile], problems: &mut Vec<Problem>) {
    let sources: BTreeMap<&str, &TextFile> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.as_str(), file))
        .collect();
    let is_root = |path: &&str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let mut needed: BTreeSet<&(&str, &str, &str)> = BTreeSet::new();
    let left: BTreeSet<&str> = LEFT.lines().filter(|line| !line.is_empty()).collect();
    let mut found: BTreeSet<String> = BTreeSet::new();
    for root in sources.keys().copied().filter(is_root) {
        let uses = uses(&sources, root);
        let mut graph: Graph = uses
            .iter()
            .map(|(from, to)| (from.clone(), to.keys().cloned().collect()))
            .collect();
        needed.extend(allow(&mut graph));
        let circles = circles(&graph);
        judge(&uses, &circles, &left, problems);
        found.extend(circles.into_iter().flatten());
    }
    for path in left.iter().filter(|path| !found.contains(**path)) {
        problems.push(Problem {
            path: (*path).to_owned(),
            line: 0,
            message: "is in no circle any more: strike it off xtask/src/tidy/circles_left.txt"
                .into(),
        });
    }
    for (from, to, _) in ALLOWED.iter().filter(|edge| !needed.contains(*edge)) {
        problems.push(Problem {
            path: (*from).to_owned(),
            line: 0,
            message: format!("xtask/src/tidy/circles.rs allows a use of {to} that is no circle"),
        });
    }
}

/// Takes the edges that are allowed to close circles out of `graph`; returns those that do.
fn allow(graph: &mut Graph) -> Vec<&'static (&'static str, &'static str, &'static str)> {
    let closes = |graph: &Graph, from: &str, to: &str| {
        graph.get(from).is_some_and(|uses| uses.contains(to)) && reach(graph, to).contains(from)
    };
    let needed: Vec<_> = ALLOWED
        .iter()
        .filter(|(from, to, _)| closes(graph, from, to))
        .collect();
    for (from, to, _) in &needed {
        if let Some(uses) = graph.get_mut(*from) {
            uses.remove(*to);
        }
    }
    needed
}

/// Reports the circles of a crate that have a file which is not known to be in one.
fn judge(uses: &Uses, circles: &[Vec<String>], left: &BTreeSet<&str>, problems: &mut Vec<Problem>) {
    let is_new = |circle: &&Vec<String>| circle.iter().any(|file| !left.contains(file.as_str()));
    for circle in circles.iter().filter(is_new) {
        for from in circle {
            for (to, line) in uses[from].iter().filter(|(to, _)| circle.contains(to)) {
                problems.push(Problem {
                    path: from.clone(),
                    line: *line,
                    message: format!("uses {to}, which uses this file, if only by way of others"),
                });
            }
        }
    }
}

/// The groups of files in which each uses every other one, directly or indirectly.
fn circles(uses: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|file| (file.as_str(), reach(uses, file)))
        .collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, reach) in &reached {
        if seen.contains(file) || !reach.contains(file) {
            continue;
        }
        let returns = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: Vec<&str> = reach.iter().filter(returns).copied().collect();
        seen.extend(circle.iter().copied());
        circles.push(circle.into_iter().map(str::to_owned).collect());
    }
    circles
}

/// All that `file` uses, directly or indirectly.
fn reach<'a>(uses: &'a Graph, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&str> = vec![file];
    while let Some(at) = pending.pop() {
        for next in uses.get(at).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                pending.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(to.to_string()).or_default();
            graph
                .entry(from.to_string())
                .or_default()
                .insert(to.to_string());
        }
        graph
    }

    #[test]
    fn circles_are_found_and_nothing_else() {
        let graph = graph(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("d", "e"),
            ("f", "a"),
        ]);
        assert_eq!(circles(&graph), [["a", "b", "c"]]);
    }

    #[test]
    fn a_circle_of_files_is_a_problem_at_each_edge() {
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("io/src/lib.rs", "mod a;\nmod b;"),
            file("io/src/a.rs", "use super::b::B;\npub struct A;"),
            file("io/src/b.rs", "pub struct B;\nfn f() { crate::a::A }"),
        ];
        let mut problems = Vec::new();
        check(&files, &mut problems);
        let places: Vec<_> = problems
            .iter()
            .filter(|problem| problem.path.starts_with("io/"))
            .map(|problem| (problem.path.as_str(), problem.line))
            .filter(|(_, line)| *line > 0)
            .collect();
        assert_eq!(places, [("io/src/a.rs", 1), ("io/src/b.rs", 2)]);
    }
}
