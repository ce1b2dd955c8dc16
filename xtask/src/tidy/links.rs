//! Links in documents lead somewhere: to a file of the repository, and to a heading in it.

use super::problem::{Problem, TextFile};
use crate::markdown::{anchors, is_external, joined, links};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Checks the links of all documents.
pub(super) fn check(root: &Path, files: &[TextFile], problems: &mut Vec<Problem>) {
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let headings: BTreeMap<&str, BTreeSet<String>> = documents
        .clone()
        .map(|file| {
            (
                file.path.as_str(),
                anchors(&file.text).into_iter().collect(),
            )
        })
        .collect();
    for file in documents {
        let above = file.path.rsplit_once('/').map_or("", |(above, _)| above);
        for link in links(&file.text) {
            if is_external(&link.target) {
                continue;
            }
            let (path, anchor) = link
                .target
                .split_once('#')
                .unwrap_or((link.target.as_str(), ""));
            let path = match path {
                "" => file.path.clone(),
                path => joined(above, path),
            };
            let problem = match headings.get(path.as_str()) {
                _ if !root.join(&path).exists() => format!("there is no file {path}"),
                Some(headings) if !anchor.is_empty() && !headings.contains(anchor) => {
                    format!("{path} has no heading '{anchor}'")
                }
                _ => continue,
            };
            problems.push(file.problem(link.line, format!("a link leads nowhere: {problem}")));
        }
    }
}
