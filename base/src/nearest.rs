//! The known words that a wrong one may have been meant as.
//!
//! A word is near if a few typing errors explain the difference: a letter changed, added or left
//! out, or two neighbours exchanged. A part of a name counts, too: users may remember only that.

/// How many words are offered at most.
const NEAR_MAX: usize = 3;

/// Longer words are not compared: no known word is so long.
const LENGTH_MAX: usize = 300;

/// The words nearest to `word`, all equally near, in order; none if none is near, or if the word
/// itself is known: then something else is wrong with it.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if word.is_empty() || word.len() > LENGTH_MAX {
        return Vec::new();
    }
    let wrong = word.to_ascii_lowercase();
    let allowed = (wrong.len() / 3).clamp(1, 6);
    let distance_of = |right: &str| {
        let right = right.to_ascii_lowercase();
        if right.len() > LENGTH_MAX || right.len().abs_diff(wrong.len()) > allowed {
            return None;
        }
        let found = distance(wrong.as_bytes(), right.as_bytes());
        (found <= allowed && found < right.len()).then_some(found)
    };
    let known: Vec<&str> = known.into_iter().collect();
    if known.contains(&word) {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|known| {
            let is_part = wrong.len() >= 4 && known.to_ascii_lowercase().contains(&wrong);
            let found = distance_of(known).or(is_part.then_some(allowed));
            found.map(|distance| (distance, known))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    let least = found.first().map(|(distance, _)| *distance);
    found.retain(|(distance, _)| Some(*distance) == least);
    found.truncate(NEAR_MAX);
    found.into_iter().map(|(_, known)| known).collect()
}

/// `did you mean 'status'?`, if any known word is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    question(&nearest(word, known))
}

/// The question with these words in it.
pub fn question(words: &[&str]) -> Option<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, others) = quoted.split_last()?;
    Some(match others {
        [] => format!("did you mean {last}?"),
        others => format!("did you mean {} or {last}?", others.join(", ")),
    })
}

/// How many slips make one word of the other (optimal string alignment).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    let (mut before, mut above): (Vec<usize>, Vec<usize>) = (vec![0; width], (0..width).collect());
    for (i, byte) in one.iter().enumerate() {
        let mut row = vec![i + 1; width];
        for (j, known) in other.iter().enumerate() {
            let change = above[j] + usize::from(byte != known);
            row[j + 1] = change.min(above[j + 1] + 1).min(row[j] + 1);
            let is_exchanged = i > 0 && j > 0 && *byte == other[j - 1] && one[i - 1] == *known;
            if is_exchanged {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood() {
        let commands = [
            "status", "list", "import", "export", "snapshot", "set", "get",
        ];
        let near = |word: &str| nearest(word, commands);
        assert_eq!(near("statsu"), ["status"]);
        assert_eq!(near("lsit"), ["list"]);
        assert_eq!(near("Import"), ["import"]);
        assert_eq!(near("snapshots"), ["snapshot"]);
        assert_eq!(near("snap"), ["snapshot"]);
        assert_eq!(near("xet"), ["get", "set"]);
        for far in ["", "frobnicate", "x", "q"] {
            assert_eq!(near(far), Vec::<&str>::new(), "{far}");
        }
        // A word that is known is right, however near others are.
        assert_eq!(nearest("list", ["list", "lost"]), Vec::<&str>::new());
    }

    #[test]
    fn the_question_names_all_that_are_equally_near() {
        assert_eq!(
            did_you_mean("xet", ["get", "set"]).as_deref(),
            Some("did you mean 'get' or 'set'?")
        );
        assert_eq!(did_you_mean("zzzz", ["get", "set"]), None);
    }

    #[test]
    fn long_words_cost_nothing() {
        assert!(nearest(&"x".repeat(1 << 20), ["list"]).is_empty());
    }
}
