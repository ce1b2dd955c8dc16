//! The count of failures against all sets of failures.
//!
//! The model does not count: it takes a set of devices away and asks, row by row, which columns of
//! a vdev can still be read. A dRAID's rows are all orders of its devices.

use super::*;

/// A small generator of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Makes trees; leaves are numbered by their guid.
struct Trees {
    numbers: Numbers,
    leaves: u64,
}

impl Trees {
    fn leaf(&mut self) -> Vdev {
        let id = self.leaves;
        self.leaves += 1;
        let mut leaf = Vdev::new(VdevKind::File, id, id);
        match self.numbers.below(16) {
            0 => leaf.state = VdevState::Offline,
            1 => leaf.state = VdevState::CantOpen,
            2 => leaf.state = VdevState::Faulted,
            3 => leaf.state = VdevState::Removed,
            4 => leaf.is_resilvering = true,
            5 => leaf.is_rebuilding = true,
            6 => leaf.resilver_deferred = true,
            7 => leaf.state = VdevState::Degraded,
            _ => {}
        }
        leaf
    }

    fn of(&mut self, kind: VdevKind, children: Vec<Vdev>) -> Vdev {
        let mut vdev = Vdev::new(kind, 0, u64::MAX);
        vdev.children = children;
        vdev
    }

    /// A device as a child: alone, being replaced, with a spare, or both; `spare` is the number of
    /// a distributed one.
    fn device(&mut self, depth: u64, spare: Option<u64>) -> Vdev {
        if let Some(number) = spare {
            let mut stand_in = self.leaf();
            stand_in.kind = VdevKind::DraidSpare;
            stand_in.id = number;
            let first = self.device(depth + 1, None);
            return self.of(VdevKind::Spare, vec![first, stand_in]);
        }
        if depth > 1 || !self.numbers.once_in(4) {
            return self.leaf();
        }
        let kind = match self.numbers.once_in(2) {
            true => VdevKind::Spare,
            false => VdevKind::Replacing,
        };
        let children = vec![self.device(depth + 1, None), self.leaf()];
        self.of(kind, children)
    }

    fn devices(&mut self, count: u64) -> Vec<Vdev> {
        (0..count).map(|_| self.device(0, None)).collect()
    }

    fn top(&mut self) -> Vdev {
        match self.numbers.below(8) {
            0 => self.device(0, None),
            1 | 2 => {
                let count = 1 + self.numbers.below(3);
                let children = self.devices(count);
                self.of(VdevKind::Mirror, children)
            }
            3..=5 => {
                let parity = 1 + self.numbers.below(3);
                let count = parity + 1 + self.numbers.below(2);
                let children = self.devices(count);
                self.of(VdevKind::Raidz { parity }, children)
            }
            _ => self.draid(),
        }
    }

    fn draid(&mut self) -> Vdev {
        let parity = 1 + self.numbers.below(2);
        let (data, spares) = (1 + self.numbers.below(2), self.numbers.below(3));
        let count = (parity + data + spares).min(5);
        let spares = count - parity - data.min(count - parity);
        let data = count - parity - spares;
        let mut free: Vec<u64> = (0..spares).collect();
        let mut children = Vec::new();
        for _ in 0..count {
            let spare = free.pop().filter(|_| self.numbers.once_in(2));
            children.push(self.device(1, spare));
        }
        let kind = VdevKind::Draid {
            parity,
            data,
            children: count,
            spares,
        };
        self.of(kind, children)
    }

    fn pool(&mut self) -> Vdev {
        let mut tops = vec![self.top()];
        if self.numbers.once_in(3) {
            let mut special = self.device(0, None);
            special.class = AllocationClass::Special;
            tops.push(special);
        }
        if self.numbers.once_in(3) {
            let mut log = self.leaf();
            log.class = AllocationClass::Log;
            tops.push(log);
        }
        self.of(VdevKind::Root, tops)
    }
}

/// All orders of `count` things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        all = all
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let left = (0..count).filter(|one| !order.contains(one));
                let left: Vec<usize> = left.collect();
                left.into_iter().map(move |one| {
                    let mut order = order.clone();
                    order.push(one);
                    order
                })
            })
            .collect();
    }
    all
}

/// Which leaves are removed, and how a dRAID's row lies on its devices.
struct World<'a> {
    taken: u64,
    row: Option<(&'a Vdev, &'a [usize], usize)>,
}

impl World<'_> {
    /// Whether everything of a vdev can be read.
    fn reads(&self, vdev: &Vdev) -> bool {
        let children = || vdev.children.iter();
        match &vdev.kind {
            VdevKind::Root => children()
                .filter(|top| top.class != AllocationClass::Log)
                .all(|top| self.reads(top)),
            VdevKind::Mirror | VdevKind::Spare | VdevKind::Replacing => {
                children().any(|child| self.reads(child))
            }
            VdevKind::Raidz { parity } => {
                let lost = children().filter(|child| !self.reads(child)).count() as u64;
                lost <= *parity
            }
            VdevKind::Draid { parity, spares, .. } => {
                let columns = vdev.children.len() - *spares as usize;
                orders(vdev.children.len()).iter().all(|order| {
                    let world = World {
                        taken: self.taken,
                        row: Some((vdev, order, columns)),
                    };
                    let lost = order[..columns].iter();
                    let lost = lost.filter(|child| !world.reads(&vdev.children[**child]));
                    lost.count() as u64 <= *parity
                })
            }
            VdevKind::DraidSpare => {
                // Its part of the row is on another device.
                let (draid, order, columns) = self.row.expect("it is below a dRAID");
                let host = order[columns + vdev.id as usize];
                is_whole(vdev) && self.reads(&draid.children[host])
            }
            _ => is_whole(vdev) && self.taken & (1 << vdev.guid) == 0,
        }
    }
}

fn is_whole(leaf: &Vdev) -> bool {
    let is_there = matches!(leaf.state, VdevState::Online | VdevState::Degraded);
    is_there && !leaf.is_resilvering && !leaf.is_rebuilding && !leaf.resilver_deferred
}

/// The least number of devices whose loss takes data along, by trying all sets.
fn least(tree: &Vdev, leaves: u64) -> u64 {
    let sets = 0..1_u64 << leaves;
    let lost = |taken: &u64| {
        !World {
            taken: *taken,
            row: None,
        }
        .reads(tree)
    };
    let mut by_size: Vec<u64> = sets.collect();
    by_size.sort_by_key(|taken| taken.count_ones());
    let first = by_size.iter().find(|taken| lost(taken));
    first.map_or(NEVER, |taken| u64::from(taken.count_ones()))
}

/// A spare that had taken over was counted as a mirror of two with one side away: "one more failure
/// loses data", on a raidz1 as good as new.
#[test]
fn the_count_is_that_of_all_sets() {
    let seed = std::env::var("CENOTE_SEED").ok();
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(46);
    let mut seen = [0_u64; 6];
    for round in 0..2000 {
        let mut trees = Trees {
            numbers: Numbers(seed.wrapping_add(round * 0x1_0000)),
            leaves: 0,
        };
        let tree = trees.pool();
        if trees.leaves > 9 {
            continue;
        }
        let (count, least) = (failures_to_loss(&tree), least(&tree, trees.leaves));
        assert_eq!(count, least, "CENOTE_SEED={seed}, round {round}: {tree:#?}");
        seen[usize::try_from(count.min(5)).expect("small")] += 1;
    }
    assert!(seen[..4].iter().all(|times| *times > 20), "{seen:?}");
}

#[test]
fn a_vdev_in_use_has_lost_nothing_yet() {
    let mut trees = Trees {
        numbers: Numbers(1),
        leaves: 0,
    };
    let mut one = Vdev::new(VdevKind::File, 0, 0);
    one.resilver_deferred = true;
    let other = one.clone();
    let mut mirror = trees.of(VdevKind::Mirror, vec![one, other]);
    assert_eq!(failures_left(&mirror), Some(0));
    mirror.state = VdevState::CantOpen;
    assert_eq!(failures_left(&mirror), None);
}
