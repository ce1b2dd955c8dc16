//! A pool's devices, as `zpool status -P` shows them.

/// A vdev and what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vdev {
    /// The path of a device, or a name such as `mirror-0`.
    pub name: String,
    /// Such as `ONLINE`.
    pub state: String,
    pub children: Vec<Self>,
}

/// The top-level vdevs of a pool, and its spares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub tops: Vec<Vdev>,
    pub spares: Vec<Vdev>,
}

impl Vdev {
    /// The leaves at or below this one.
    pub fn leaves(&self) -> Vec<&Self> {
        match self.children.is_empty() {
            true => vec![self],
            false => self.children.iter().flat_map(Self::leaves).collect(),
        }
    }

    pub fn is_mirror(&self) -> bool {
        self.name.starts_with("mirror-")
    }

    /// How many of its children it can do without.
    pub fn losses(&self) -> usize {
        let parity = |rest: &str| rest.chars().next().and_then(|digit| digit.to_digit(10));
        let of_rows = ["raidz", "draid"]
            .iter()
            .find_map(|kind| self.name.strip_prefix(kind).and_then(parity));
        match of_rows {
            Some(parity) => parity as usize,
            None if self.is_mirror() => self.children.len() - 1,
            None => 0,
        }
    }
}

impl Tree {
    /// Takes the tree out of what `zpool status -P` printed.
    pub fn parse(status: &str) -> Self {
        let rows = status
            .lines()
            .skip_while(|line| line.trim() != "config:")
            .filter_map(|line| line.strip_prefix('\t'));
        let mut tree = Self::default();
        // The pool is the first row that is not indented; `spares` and others follow.
        let mut section = String::new();
        for row in rows {
            let depth = (row.len() - row.trim_start().len()) / 2;
            let mut words = row.split_whitespace();
            let (Some(name), state) = (words.next(), words.next()) else {
                continue;
            };
            if depth == 0 {
                section = name.to_owned();
                continue;
            }
            let vdev = Vdev {
                name: name.to_owned(),
                state: state.unwrap_or_default().to_owned(),
                children: Vec::new(),
            };
            let place = match section.as_str() {
                "NAME" | "logs" | "cache" => continue,
                "spares" => &mut tree.spares,
                _ => &mut tree.tops,
            };
            place_at(place, depth).push(vdev);
        }
        tree
    }

    pub fn leaves(&self) -> Vec<&Vdev> {
        self.tops.iter().flat_map(Vdev::leaves).collect()
    }

    /// The vdevs in which one device replaces another, with everything below.
    pub fn spared(&self) -> Vec<&Vdev> {
        let mut found = Vec::new();
        let mut stack: Vec<&Vdev> = self.tops.iter().collect();
        while let Some(vdev) = stack.pop() {
            if vdev.name.starts_with("spare-") {
                found.push(vdev);
            }
            stack.extend(&vdev.children);
        }
        found
    }
}

/// Where a row of this depth belongs.
fn place_at(place: &mut Vec<Vdev>, depth: usize) -> &mut Vec<Vdev> {
    if depth <= 1 || place.is_empty() {
        return place;
    }
    let last = place.len() - 1;
    place_at(&mut place[last].children, depth - 1)
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_tree_is_understood() {
        let status = "  pool: tank\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n\
            \ttank        DEGRADED     0     0     0\n\
            \t  raidz2-0  DEGRADED     0     0     0\n\
            \t    /d/a    ONLINE       0     0     0\n\
            \t    spare-1 DEGRADED     0     0     0\n\
            \t      /d/b  OFFLINE      0     0     0\n\
            \t      /d/s  ONLINE       0     0     0  (resilvering)\n\
            \t  /d/c      ONLINE       0     0     0\n\
            \tspares\n\t  /d/s      INUSE     currently in use\n\nerrors: No known data errors\n";
        let tree = Tree::parse(status);
        let leaves: Vec<&str> = tree.leaves().iter().map(|leaf| &leaf.name[..]).collect();
        assert_eq!(leaves, ["/d/a", "/d/b", "/d/s", "/d/c"]);
        assert_eq!(tree.tops[0].losses(), 2);
        assert_eq!(tree.tops[1].losses(), 0);
        assert_eq!(tree.spared()[0].children[0].state, "OFFLINE");
        assert_eq!(tree.spares[0].state, "INUSE");
    }
}
