//! Which file of a crate uses items of which other one.
//!
//! A path is followed from module to module, through `use` and re-exports, to the file that
//! defines what it names. Declaring a module is no use of it, and neither is handing its items on:
//! a re-export counts only where the file's own code says the name, too.

use super::items::{Import, Module, modules};
use super::problem::TextFile;
use super::source::Source;
use std::collections::BTreeMap;

/// Hops from re-export to re-export that are followed: more than there are in any crate.
const HOPS_MAX: usize = 16;

/// A file, by its path, and the line from which it uses another one first.
pub(super) type Uses = BTreeMap<String, BTreeMap<String, usize>>;

/// For each file of the crate with the root file `root`, the files that it uses.
pub(super) fn uses(files: &BTreeMap<&str, &TextFile>, root: &str) -> Uses {
    let tree = Tree::read(files, root);
    let mut uses = Uses::new();
    for (path, module) in &tree.modules {
        uses.entry(module.file.clone()).or_default();
        let mut note = |place: Place, line: usize| {
            if let Place::Item(file) = place
                && file != module.file
            {
                let of_file = uses.entry(module.file.clone()).or_default();
                let first = of_file.entry(file).or_insert(line);
                *first = line.min(*first);
            }
        };
        for import in &module.items.imports {
            if is_use(import, &module.items) {
                note(tree.imported(path, import), import.line);
            }
        }
        for mention in &module.items.paths {
            note(tree.resolve(path, &mention.path, 0), mention.line);
        }
    }
    uses
}

/// Whether an import is more than handing something on.
fn is_use(import: &Import, module: &Module) -> bool {
    let is_said = |name: &String| module.words.contains(name);
    !import.is_shared || import.name.as_ref().is_some_and(is_said)
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A module, by its path from the crate's root.
    Module(Vec<String>),
    /// An item of this file.
    Item(String),
    /// Something of another crate, or a local name.
    Elsewhere,
}

/// A module and where it is.
struct Located {
    file: String,
    items: Module,
}

/// The modules of a crate by their path from its root.
struct Tree {
    modules: BTreeMap<Vec<String>, Located>,
}

impl Tree {
    fn read(files: &BTreeMap<&str, &TextFile>, root: &str) -> Self {
        let mut tree = Self {
            modules: BTreeMap::new(),
        };
        let mut pending = vec![(Vec::new(), root.to_owned())];
        while let Some((path, file)) = pending.pop() {
            let Some(text) = files.get(file.as_str()) else {
                continue;
            };
            let below = directory_of_children(&file, path.is_empty());
            for module in modules(&Source::new(&text.text)) {
                let own = [&path[..], &module.inside[..]].concat();
                for name in &module.files {
                    let child = [&own[..], std::slice::from_ref(name)].concat();
                    let inside = module.inside.iter().chain([name]).cloned();
                    let place = inside.collect::<Vec<_>>().join("/");
                    let candidates = [
                        format!("{below}/{place}.rs"),
                        format!("{below}/{place}/mod.rs"),
                    ];
                    let found = candidates
                        .into_iter()
                        .find(|candidate| files.contains_key(candidate.as_str()));
                    pending.extend(found.map(|found| (child, found)));
                }
                tree.modules.insert(
                    own,
                    Located {
                        file: file.clone(),
                        items: module,
                    },
                );
            }
        }
        tree
    }

    /// What an import brings into scope; for all of something, that.
    fn imported(&self, module: &[String], import: &Import) -> Place {
        match (self.resolve(module, &import.path, 0), &import.name) {
            (Place::Module(path), None) => match self.modules.get(&path) {
                Some(located) => Place::Item(located.file.clone()),
                None => Place::Elsewhere,
            },
            (place, _) => place,
        }
    }

    /// Follows `path` as the code of `module` means it.
    fn resolve(&self, module: &[String], path: &[String], hops: usize) -> Place {
        let mut at = module.to_vec();
        let mut rest = path;
        let mut is_anchored = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            is_anchored = true;
            rest = others;
        }
        while let Some((segment, others)) = rest.split_first() {
            match self.lookup(&at, segment, others.is_empty(), hops) {
                Some(Place::Module(next)) => at = next,
                Some(place) => return place,
                None if is_anchored => return self.item_of(&at),
                None => return Place::Elsewhere,
            }
            is_anchored = true;
            rest = others;
        }
        Place::Module(at)
    }

    fn item_of(&self, module: &[String]) -> Place {
        match self.modules.get(module) {
            Some(located) => Place::Item(located.file.clone()),
            None => Place::Elsewhere,
        }
    }

    /// What `name` is in `module`. At the end of a path an item comes before a module.
    fn lookup(&self, module: &[String], name: &str, is_last: bool, hops: usize) -> Option<Place> {
        let located = self.modules.get(module)?;
        let child = [module, &[name.to_owned()]].concat();
        let child = self.modules.contains_key(&child).then_some(child);
        if let Some(child) = child.clone().filter(|_| !is_last) {
            return Some(Place::Module(child));
        }
        if located.items.definitions.contains(name) {
            return Some(Place::Item(located.file.clone()));
        }
        let imports = || located.items.imports.iter().filter(|_| hops < HOPS_MAX);
        let named = imports().filter(|import| import.name.as_deref() == Some(name));
        // `use name::Other` and `use name` mean the crate where the module has no such name.
        for import in named.filter(|import| import.path != [name]) {
            match self.resolve(module, &import.path, hops + 1) {
                Place::Module(_) if child.is_some() => {}
                place => return Some(place),
            }
        }
        if let Some(child) = child {
            return Some(Place::Module(child));
        }
        imports()
            .filter(|import| import.name.is_none())
            .find_map(|import| self.in_glob(module, import, name, hops + 1))
    }

    /// `name` among all that `import` brings into `module`.
    fn in_glob(
        &self,
        module: &[String],
        import: &Import,
        name: &str,
        hops: usize,
    ) -> Option<Place> {
        match self.resolve(module, &import.path, hops) {
            Place::Module(path) if path != module => self.lookup(&path, name, true, hops),
            _ => None,
        }
    }
}

/// Where the files of the modules that `file` declares lie.
fn directory_of_children(file: &str, is_root: bool) -> String {
    let (directory, name) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = name.trim_end_matches(".rs");
    match is_root || stem == "mod" {
        true => directory.to_owned(),
        false => format!("{directory}/{stem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = files
            .iter()
            .map(|(path, text)| TextFile {
                path: format!("a/src/{path}"),
                text: text.to_string(),
            })
            .collect();
        let files = files.iter().map(|file| (file.path.as_str(), file));
        let short = |path: &str| path.trim_start_matches("a/src/").to_owned();
        let mut edges = Vec::new();
        for (from, uses) in uses(&files.collect(), "a/src/lib.rs") {
            let of_file = uses.iter().map(|(to, line)| {
                let (from, to) = (short(&from), short(to));
                format!("{from}:{line} {to}")
            });
            edges.extend(of_file);
        }
        edges
    }

    #[test]
    fn re_exports_lead_to_the_file_that_defines() {
        let files = [
            ("lib.rs", "mod b; mod c; pub use b::Deep;"),
            (
                "b/mod.rs",
                "mod deep;\npub use deep::Deep;\npub(crate) use self::deep::*;",
            ),
            ("b/deep.rs", "pub struct Deep;\npub fn f() {}"),
            (
                "c.rs",
                "use crate::Deep;\nuse crate::b;\nfn g() { b::f(); b::Deep::x() }",
            ),
        ];
        assert_eq!(edges(&files), ["c.rs:1 b/deep.rs"]);
    }

    #[test]
    fn a_parent_that_says_what_it_hands_on_uses_it() {
        let files = [
            (
                "lib.rs",
                "mod a;\npub use a::A;\npub fn f(a: A) {}\npub struct B;",
            ),
            ("a.rs", "use super::{B, f as g};\npub struct A(B);"),
        ];
        assert_eq!(edges(&files), ["a.rs:1 lib.rs", "lib.rs:2 a.rs"]);
    }

    #[test]
    fn imports_of_modules_and_inline_modules_are_followed() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b { pub mod keys { pub const K: u8 = 1; } pub mod c; }",
            ),
            (
                "a.rs",
                "use crate::b::{self, keys};\nfn f() { keys::K; }\nfn g() { b::c::h() }",
            ),
            ("b/c.rs", "pub fn h() { std::mem::drop(1) }"),
        ];
        assert_eq!(edges(&files), ["a.rs:3 b/c.rs", "a.rs:2 lib.rs"]);
    }
}
