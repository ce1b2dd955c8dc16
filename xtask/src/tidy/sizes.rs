//! Sizes: a file that is read in one sitting, a function that is seen at once.

use super::problem::{Problem, TextFile};
use super::source::Source;

/// Lines of a file, tests included.
const FILE_LINES_MAX: usize = 800;

/// Lines of a function from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Checks the file and each function in it.
pub(super) fn check(file: &TextFile, source: &Source, problems: &mut Vec<Problem>) {
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX && !(1..=10).any(|line| source.is_allowed("long-file", line)) {
        let message = format!("{lines} lines; more than {FILE_LINES_MAX} want a second file");
        problems.push(file.problem(0, message));
    }
    for function in source.functions() {
        let lines = function.last_line - function.first_line + 1;
        let allowed = source.is_allowed("long-function", function.first_line);
        if lines > FUNCTION_LINES_MAX && !allowed {
            let name = function.name;
            let message = format!("fn {name} has {lines} lines, more than {FUNCTION_LINES_MAX}");
            problems.push(file.problem(function.first_line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: String) -> Vec<Problem> {
        let file = TextFile {
            path: "a.rs".into(),
            text,
        };
        let mut problems = Vec::new();
        check(&file, &Source::new(&file.text), &mut problems);
        problems
    }

    #[test]
    fn long_functions_need_a_reason() {
        let body = "    1;\n".repeat(69);
        assert!(problems(format!("fn a() {{\n{}}}\n", &body[..body.len() - 7])).is_empty());
        assert_eq!(problems(format!("fn a() {{\n{body}}}\n")).len(), 1);
        let allowed = format!("// tidy: allow(long-function, a table)\nfn a() {{\n{body}}}\n");
        assert!(problems(allowed).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert!(problems("\n".repeat(800)).is_empty());
        assert_eq!(problems("\n".repeat(801)).len(), 1);
    }
}
