//! What a Rust file declares, imports and mentions, read without a compiler.
//!
//! The reader knows modules, `use` trees, names of items and paths, and skips what only tests
//! compile. It does not know types: a method that is called on a value leaves no trace. That is
//! enough to say which file names items of which other one.

use super::source::Source;
use std::collections::BTreeSet;

/// One module in a file: the file's own, or one written inside it.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Names of the inline modules that lead to it; empty for the file's own.
    pub inside: Vec<String>,
    /// Modules that are files: `mod name;`.
    pub files: Vec<String>,
    /// Names of the items that it defines.
    pub definitions: BTreeSet<String>,
    /// What it brings into scope.
    pub imports: Vec<Import>,
    /// Paths of at least two segments in its code.
    pub paths: Vec<Mention>,
    /// All words in its code outside `use`.
    pub words: BTreeSet<String>,
}

/// A name that `use` brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The name; `None` for all that the path holds.
    pub name: Option<String>,
    pub path: Vec<String>,
    /// Whether other files may import it from here.
    pub is_shared: bool,
    /// From 1.
    pub line: usize,
}

/// A path in the code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub path: Vec<String>,
    /// From 1.
    pub line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// `::`
    Separator,
    Mark(u8),
}

/// Tokens with the byte at which each begins.
type Tokens<'a> = Vec<(usize, Token<'a>)>;

/// The modules of a file, its own first.
pub(super) fn modules(source: &Source) -> Vec<Module> {
    let tokens = without_tests(&tokens(&source.code));
    let mut reader = Reader {
        source,
        tokens: &tokens,
        modules: vec![Module::default()],
        open: vec![(0, 0)],
        depth: 0,
    };
    let mut at = 0;
    while at < tokens.len() {
        at = reader.step(at);
    }
    reader.modules
}

fn tokens(code: &str) -> Tokens<'_> {
    let bytes = code.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = match bytes[at] {
            byte if byte.is_ascii_whitespace() => 1,
            byte if is_word(byte) => {
                let length = bytes[at..].iter().take_while(|byte| is_word(**byte));
                let length = length.count();
                tokens.push((at, Token::Word(&code[at..at + length])));
                length
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                tokens.push((at, Token::Separator));
                2
            }
            byte => {
                tokens.push((at, Token::Mark(byte)));
                1
            }
        };
        at += length;
    }
    tokens
}

/// The tokens without the items and fields behind `#[cfg(test)]` and the like.
fn without_tests<'a>(tokens: &Tokens<'a>) -> Tokens<'a> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match attribute(tokens, at) {
            Some((end, true)) => at = item_end(tokens, end),
            Some((end, false)) => at = end,
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    kept
}

/// Where the attribute that begins at `at` ends, and whether its item exists only in tests.
fn attribute(tokens: &Tokens<'_>, at: usize) -> Option<(usize, bool)> {
    let mark = |at: usize, mark: u8| tokens.get(at).is_some_and(|(_, t)| *t == Token::Mark(mark));
    let open = at + 1 + usize::from(mark(at + 1, b'!'));
    if !mark(at, b'#') || !mark(open, b'[') {
        return None;
    }
    let end = group_end(tokens, open);
    let words: Vec<&str> = tokens[open..end]
        .iter()
        .filter_map(|(_, token)| match token {
            Token::Word(word) => Some(*word),
            _ => None,
        })
        .collect();
    let is_test = matches!(
        words[..],
        ["test"] | ["cfg", "test"] | ["cfg", "all", "test", ..]
    );
    Some((end, is_test))
}

/// Behind the group that opens at `open`.
fn group_end(tokens: &Tokens<'_>, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Mark(b'(' | b'[' | b'{') => depth += 1,
            Token::Mark(b')' | b']' | b'}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Behind the item, or the field or arm, that begins at `at`.
fn item_end(tokens: &Tokens<'_>, mut at: usize) -> usize {
    while let Some((end, _)) = attribute(tokens, at) {
        at = end;
    }
    let items = [
        "pub", "use", "mod", "fn", "struct", "enum", "impl", "trait", "const", "static", "type",
    ];
    let is_item = matches!(tokens.get(at), Some((_, Token::Word(word))) if items.contains(word));
    let is_use = matches!(tokens.get(at), Some((_, Token::Word("use"))));
    while at < tokens.len() {
        match tokens[at].1 {
            Token::Mark(b'{') if !is_use => return group_end(tokens, at),
            Token::Mark(b'(' | b'[' | b'{') => at = group_end(tokens, at),
            Token::Mark(b';') => return at + 1,
            Token::Mark(b',') if !is_item => return at + 1,
            Token::Mark(b')' | b']' | b'}') => return at,
            _ => at += 1,
        }
    }
    at
}

struct Reader<'a> {
    source: &'a Source,
    tokens: &'a Tokens<'a>,
    modules: Vec<Module>,
    /// Modules that are open: index, and the depth of braces of their items.
    open: Vec<(usize, usize)>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Reads what begins at `at`; returns where the next thing begins.
    fn step(&mut self, at: usize) -> usize {
        let is_in_module = self.depth == self.open.last().map_or(0, |open| open.1);
        match self.tokens[at].1 {
            Token::Mark(b'{') => self.depth += 1,
            Token::Mark(b'}') => {
                self.depth = self.depth.saturating_sub(1);
                if self.open.len() > 1 && self.depth < self.open.last().map_or(0, |open| open.1) {
                    self.open.pop();
                }
            }
            Token::Word("use") => return self.import(at),
            Token::Word("mod") if is_in_module => return self.module(at),
            Token::Word(word) => {
                if is_in_module {
                    self.definition(word, at);
                }
                return self.path(at);
            }
            _ => {}
        }
        at + 1
    }

    fn current(&mut self) -> &mut Module {
        let index = self.open.last().map_or(0, |open| open.0);
        &mut self.modules[index]
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        match self.tokens.get(at) {
            Some((_, Token::Word(word))) => Some(word),
            _ => None,
        }
    }

    fn is_mark(&self, at: usize, mark: u8) -> bool {
        matches!(self.tokens.get(at), Some((_, token)) if *token == Token::Mark(mark))
    }

    fn line(&self, at: usize) -> usize {
        let offset = self.tokens.get(at).map_or(0, |(offset, _)| *offset);
        self.source.line_of(offset)
    }

    /// `mod name;` or `mod name {`.
    fn module(&mut self, at: usize) -> usize {
        let Some(name) = self.word(at + 1).map(str::to_owned) else {
            return at + 1;
        };
        if self.is_mark(at + 2, b'{') {
            let mut inside = self.current().inside.clone();
            inside.push(name);
            self.depth += 1;
            self.open.push((self.modules.len(), self.depth));
            self.modules.push(Module {
                inside,
                ..Module::default()
            });
        } else {
            self.current().files.push(name);
        }
        at + 3
    }

    /// Notes the name of the item that the keyword `word` at `at` begins.
    fn definition(&mut self, word: &str, at: usize) {
        let name = match word {
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" => self.word(at + 1),
            "static" => match self.word(at + 1) {
                Some("mut") => self.word(at + 2),
                name => name,
            },
            "macro_rules" => self.word(at + 2),
            _ => None,
        };
        if let Some(name) = name.filter(|name| !["fn", "unsafe", "extern", "async"].contains(name))
        {
            let name = name.to_owned();
            self.current().definitions.insert(name);
        }
    }

    /// Words joined by `::`.
    fn path(&mut self, at: usize) -> usize {
        let line = self.line(at);
        let is_field =
            at > 0 && self.is_mark(at - 1, b'.') && !self.is_mark(at.wrapping_sub(2), b'.');
        let mut path = Vec::new();
        let mut next = at;
        while let Some(word) = self.word(next) {
            path.push(word.to_owned());
            next += 1;
            if !matches!(self.tokens.get(next), Some((_, Token::Separator))) {
                break;
            }
            next += 1;
        }
        if !is_field {
            self.current().words.insert(path[0].clone());
            if path.len() > 1 {
                self.current().paths.push(Mention { path, line });
            }
        }
        next
    }

    /// A `use` tree, up to its semicolon.
    fn import(&mut self, at: usize) -> usize {
        let before = at.checked_sub(1).map(|before| self.tokens[before].1);
        let is_shared = matches!(before, Some(Token::Word("pub") | Token::Mark(b')')));
        let mut prefixes: Vec<Vec<String>> = vec![Vec::new()];
        let mut path: Vec<String> = Vec::new();
        let mut name: Option<String> = None;
        let mut next = at + 1;
        let mut found = Vec::new();
        while let Some((_, token)) = self.tokens.get(next) {
            let line = self.line(next);
            match token {
                Token::Word("as") => {
                    name = self.word(next + 1).map(str::to_owned);
                    next += 1;
                }
                Token::Word(word) => path.push((*word).to_owned()),
                Token::Mark(b'*') => path.push("*".to_owned()),
                Token::Mark(b'{') => {
                    let mut prefix = prefixes.last().cloned().unwrap_or_default();
                    prefix.append(&mut path);
                    prefixes.push(prefix);
                }
                Token::Mark(b',' | b'}' | b';') => {
                    if !path.is_empty() {
                        let mut whole = prefixes.last().cloned().unwrap_or_default();
                        whole.append(&mut path);
                        found.push(import_of(whole, name.take(), is_shared, line));
                    }
                    if *token == Token::Mark(b'}') {
                        prefixes.pop();
                    }
                    if *token == Token::Mark(b';') {
                        break;
                    }
                }
                _ => {}
            }
            next += 1;
        }
        self.current().imports.extend(found);
        next + 1
    }
}

fn import_of(mut path: Vec<String>, name: Option<String>, is_shared: bool, line: usize) -> Import {
    let last = path.last().cloned().unwrap_or_default();
    if last == "*" || (last == "self" && path.len() > 1) {
        path.pop();
    }
    let name = match last.as_str() {
        "*" => None,
        _ => name.or_else(|| path.last().cloned()),
    };
    Import {
        name,
        path,
        is_shared,
        line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Module> {
        modules(&Source::new(text))
    }

    fn joined<'a>(paths: impl Iterator<Item = &'a Vec<String>>) -> Vec<String> {
        paths.map(|path| path.join("::")).collect()
    }

    #[test]
    fn imports_are_taken_apart() {
        let modules = of("use a::{self, b::{C, D as E}, f::*};\npub(crate) use super::G;");
        let imports = &modules[0].imports;
        assert_eq!(
            joined(imports.iter().map(|import| &import.path)),
            ["a", "a::b::C", "a::b::D", "a::f", "super::G"]
        );
        let names: Vec<_> = imports
            .iter()
            .map(|import| import.name.as_deref())
            .collect();
        assert_eq!(names, [Some("a"), Some("C"), Some("E"), None, Some("G")]);
        assert!(imports[4].is_shared && !imports[0].is_shared);
        assert_eq!(imports[4].line, 2);
    }

    #[test]
    fn items_paths_and_inline_modules_are_seen() {
        let modules = of("mod file; pub struct A { x: crate::b::B }\n\
             impl super::C { const fn f(&self) { self.x.y::<u8>(); d::e(1) } }\n\
             pub mod inner { pub const F: u8 = super::G; }\nconst fn h() {}");
        assert_eq!(modules[0].files, ["file"]);
        let definitions: Vec<_> = modules[0].definitions.iter().collect();
        assert_eq!(definitions, ["A", "h"]);
        assert_eq!(
            joined(modules[0].paths.iter().map(|mention| &mention.path)),
            ["crate::b::B", "super::C", "d::e"]
        );
        assert_eq!(modules[1].inside, ["inner"]);
        assert_eq!(
            joined(modules[1].paths.iter().map(|m| &m.path)),
            ["super::G"]
        );
        assert!(modules[1].definitions.contains("F"));
    }

    #[test]
    fn what_only_tests_compile_is_not_there() {
        let modules = of(
            "#[cfg(test)]\nuse a::{b, c};\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\n\
             #[cfg(test)]\nmod more { use super::*; }\n#[test]\nfn t() { d::e() }\n\
             #[cfg(any(test, not(x)))]\nmod portable;\nstruct S { #[cfg(test)] a: b::C, d: e::F }",
        );
        assert_eq!(modules.len(), 1);
        assert_eq!(modules[0].files, ["portable"]);
        assert!(modules[0].imports.is_empty());
        assert_eq!(joined(modules[0].paths.iter().map(|m| &m.path)), ["e::F"]);
    }
}
