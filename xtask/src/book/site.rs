//! Following the links of the site that was made.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use xtask::markdown::{is_external, joined};

/// Pages that mdBook makes of all others.
const MADE: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// The values of an attribute of HTML.
fn values<'a>(text: &'a str, attribute: &str) -> Vec<&'a str> {
    let mark = format!(" {attribute}=\"");
    let parts = text.split(&mark).skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}

/// The links that lead nowhere, each with its page.
pub fn check(html: &Path) -> Result<Vec<String>> {
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    let mut files = BTreeSet::new();
    let mut pending = vec![html.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(html)?.to_string_lossy().into_owned();
            if name.ends_with(".html") && !MADE.contains(&name.as_str()) {
                pages.insert(name.clone(), fs::read_to_string(&path)?);
            }
            files.insert(name);
        }
    }
    let ids: BTreeMap<&String, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, text)| (name, values(text, "id").into_iter().collect()))
        .collect();
    let mut problems = Vec::new();
    for (name, text) in &pages {
        let above = name.rsplit_once('/').map_or("", |(above, _)| above);
        for target in values(text, "href") {
            if is_external(target) || target.is_empty() {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => name.clone(),
                path => joined(above, path),
            };
            let has_anchor = |ids: &BTreeSet<&str>| anchor.is_empty() || ids.contains(anchor);
            let is_there = match ids.get(&file) {
                Some(ids) => has_anchor(ids),
                None => files.contains(&file),
            };
            if !is_there {
                problems.push(format!("{name}: {target} leads nowhere"));
            }
        }
    }
    problems.dedup();
    Ok(problems)
}
