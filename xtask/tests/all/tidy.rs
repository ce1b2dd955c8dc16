//! The repository keeps its own rules. `cargo xtask tidy` prints the same list.

use std::path::Path;

#[test]
fn the_repository_is_tidy() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().expect("xtask lies in the workspace");
    let problems = xtask::tidy::check(root).expect("the workspace can be read");
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} problems:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
