//! Links and headings of Markdown, as far as our documents use it.
//!
//! Blocks and spans of code are skipped: a bracket there is no link. Titles of links, references
//! and HTML are not used in our documents and not known here.

/// A link of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The line, counted from 1.
    pub line: usize,
    /// Where it leads.
    pub target: String,
}

/// Whether a link leads out of the repository.
pub fn is_external(target: &str) -> bool {
    ["http:", "https:", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// A relative path, as seen from a directory, without dots; both are below the same root.
pub fn joined(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines, each with its number and whether it is in a block of code.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().map(move |(index, line)| {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| trimmed.starts_with(mark));
        let is_code = fence.is_some() || mark.is_some();
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        (index + 1, line, is_code)
    })
}

/// The parts of a line that are links: from where to where, text and target.
fn links_of(line: &str) -> Vec<(usize, usize, &str, &str)> {
    let mut links = Vec::new();
    let (mut is_code, mut open) = (false, Vec::new());
    for (at, c) in line.char_indices() {
        match c {
            '`' => is_code = !is_code,
            _ if is_code => {}
            '[' => open.push(at),
            ']' => {
                let Some(begin) = open.pop() else { continue };
                let rest = &line[at + 1..];
                let Some(end) = rest.strip_prefix('(').and_then(|rest| rest.find(')')) else {
                    continue;
                };
                let target = &rest[1..=end];
                links.push((begin, at + 1 + end + 2, &line[begin + 1..at], target));
            }
            _ => {}
        }
    }
    links
}

/// The links of a document.
pub fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, content, is_code) in lines(text) {
        if is_code {
            continue;
        }
        links.extend(links_of(content).into_iter().map(|(_, _, _, target)| Link {
            line,
            target: target.to_owned(),
        }));
    }
    links
}

/// A document with other targets of links. A link without a target becomes plain text.
pub fn with_links(text: &str, target_of: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::new();
    for (_, line, is_code) in lines(text) {
        let mut at = 0;
        for (begin, end, label, target) in links_of(line) {
            // A picture that is a link has another one in it: that one is done.
            if is_code || begin < at {
                continue;
            }
            result.push_str(&line[at..begin]);
            match target_of(target) {
                Some(target) => result.push_str(&format!("[{label}]({target})")),
                None => result.push_str(label),
            }
            at = end;
        }
        result.push_str(&line[at..]);
        result.push('\n');
    }
    result
}

/// The names of headings, as links use them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line, is_code) in lines(text) {
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if is_code || !(1..=6).contains(&depth) || !title.starts_with(' ') {
            continue;
        }
        let name: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let count = anchors.iter().filter(|other| **other == name).count();
        match count {
            0 => anchors.push(name),
            _ => anchors.push(format!("{name}-{count}")),
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# One: a `title`\n[a](b.md#c), `[no](x)` and [d](e)\n\
                        ```sh\n[f](g)\n# h\n```\n\
                        ## Two\n## Two\n";

    #[test]
    fn links_and_headings_are_found_outside_of_code() {
        let targets: Vec<(usize, String)> = links(TEXT)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();
        assert_eq!(targets, [(2, "b.md#c".to_owned()), (2, "e".to_owned())]);
        assert_eq!(anchors(TEXT), ["one-a-title", "two", "two-1"]);
    }

    #[test]
    fn links_are_changed_or_become_text() {
        let changed = with_links(TEXT, |target| (target == "e").then(|| "f".to_owned()));
        assert_eq!(
            changed,
            TEXT.replace("[a](b.md#c)", "a").replace("[d](e)", "[d](f)")
        );
    }

    #[test]
    fn paths_are_joined() {
        assert_eq!(joined("docs/a", "../b/./c.md"), "docs/b/c.md");
        assert_eq!(joined("docs", "../README.md"), "README.md");
        assert_eq!(joined("", "../x"), "../x");
    }
}
