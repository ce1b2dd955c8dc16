//! Sets of children that may all be wrong: all of one, then all of two, and so on.

/// Enumerates the subsets of some children up to a size, small ones first.
pub(crate) struct Suspects<'a> {
    children: &'a [usize],
    size_max: usize,
    /// Positions in `children` of the current set, ascending.
    positions: Vec<usize>,
    set: Vec<usize>,
}

impl<'a> Suspects<'a> {
    pub(crate) fn new(children: &'a [usize], size_max: usize) -> Self {
        Self {
            children,
            size_max: size_max.min(children.len()),
            positions: Vec::new(),
            set: Vec::new(),
        }
    }

    /// The next set, or `None` after the last.
    pub(crate) fn next_set(&mut self) -> Option<&[usize]> {
        if !self.advance() {
            return None;
        }
        self.set.clear();
        self.set.extend(
            self.positions
                .iter()
                .map(|position| self.children[*position]),
        );
        Some(&self.set)
    }

    fn advance(&mut self) -> bool {
        let (count, size) = (self.children.len(), self.positions.len());
        // The last position that can still move up; those after it follow it closely.
        let movable = (0..size)
            .rev()
            .find(|i| self.positions[*i] + (size - i) < count);
        if let Some(i) = movable {
            let next = self.positions[i] + 1;
            for (step, position) in self.positions[i..].iter_mut().enumerate() {
                *position = next + step;
            }
            return true;
        }
        if size == self.size_max {
            return false;
        }
        self.positions = (0..=size).collect();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(children: &[usize], size_max: usize) -> Vec<Vec<usize>> {
        let mut sets = Suspects::new(children, size_max);
        let mut found = Vec::new();
        while let Some(set) = sets.next_set() {
            found.push(set.to_vec());
        }
        found
    }

    #[test]
    fn every_set_comes_once_small_ones_first() {
        let expected = [
            vec![7],
            vec![8],
            vec![9],
            vec![7, 8],
            vec![7, 9],
            vec![8, 9],
        ];
        assert_eq!(all(&[7, 8, 9], 2), expected);
        let sizes = all(&(0..8).collect::<Vec<_>>(), 3);
        assert_eq!(sizes.len(), 8 + 28 + 56);
        assert_eq!(all(&[1], 3), [vec![1]]);
        assert!(all(&[], 2).is_empty());
        assert!(all(&[1, 2], 0).is_empty());
    }
}
