//! Patterns of snapshots' names: `*` stands for any text, `?` for any character.

/// Whether a name matches. Each `*` is tried again at most once for each character.
pub(crate) fn matches(pattern: &str, name: &[u8]) -> bool {
    let (pattern, mut at, mut place) = (pattern.as_bytes(), 0, 0);
    // The last `*`, and the end of the text that it has matched. If the rest of the pattern does
    // not match, the `*` takes one more character.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(b'?') => (at, place) = (at + 1, place + 1),
            Some(byte) if *byte == name[place] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((begin, taken)) = star else {
                    return false;
                };
                star = Some((begin, taken + 1));
                (at, place) = (begin + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "sync-2026", true),
            ("sync-*", "sync-2026", true),
            ("sync-*", "zsync-2026", false),
            ("sync-????", "sync-2026", true),
            ("sync-????", "sync-20261", false),
            ("*-good", "a-good-good", true),
            ("*a*b*c", "xxaxxbxbxc", true),
            ("*a*b*c", "xxaxxbxbx", false),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern, name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
        // Quadratic at worst.
        let name = vec![b'a'; 200];
        assert!(!matches(&"*a".repeat(50).replace("aa", "a"), &[b'b'; 200]));
        assert!(!matches(&format!("{}b", "*a".repeat(50)), &name));
    }
}
