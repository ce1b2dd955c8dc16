//! Requests of vdevs by class: the sums over a vdev's leaves between two reports.

use std::collections::HashMap;

use cenote_control::model::{ClassRequests, Distribution, PoolRow, Vdev};

/// Requests by class; classes without requests are missing.
pub type Classes = HashMap<String, ClassRequests>;

/// The requests of all leaves by guid.
#[derive(Clone, Debug, Default)]
pub struct Requests(HashMap<u64, Classes>);

impl Requests {
    /// The requests of all leaves in these pools.
    pub fn of(pools: &[PoolRow]) -> Self {
        let mut leaves = HashMap::new();
        let trees = pools.iter().filter_map(|pool| pool.vdevs.as_ref());
        let mut stack: Vec<&Vdev> = trees.map(|tree| &tree.root).collect();
        while let Some(vdev) = stack.pop() {
            let classes = vdev.requests.iter();
            let classes: Classes = classes
                .map(|requests| (requests.class.clone(), requests.clone()))
                .collect();
            leaves.insert(vdev.guid, classes);
            stack.extend(&vdev.children);
        }
        Self(leaves)
    }

    /// The sum of requests of a vdev's leaves since `before`. Queues are the current ones.
    pub fn since(&self, vdev: &Vdev, before: &Self) -> Classes {
        let mut sum = Classes::new();
        let mut stack = vec![vdev];
        while let Some(vdev) = stack.pop() {
            stack.extend(&vdev.children);
            for (name, now) in self.0.get(&vdev.guid).into_iter().flatten() {
                let then = before
                    .0
                    .get(&vdev.guid)
                    .and_then(|classes| classes.get(name));
                add(sum.entry(name.clone()).or_default(), now, then);
            }
        }
        sum
    }
}

/// Adds the growth since `then`.
fn add(sum: &mut ClassRequests, now: &ClassRequests, then: Option<&ClassRequests>) {
    sum.active += now.active;
    sum.waiting += now.waiting;
    type Part = fn(&mut ClassRequests) -> &mut Distribution;
    let parts: [(Part, &Distribution, Option<&Distribution>); 5] = [
        (
            |sum| &mut sum.total,
            &now.total,
            then.map(|then| &then.total),
        ),
        (
            |sum| &mut sum.device,
            &now.device,
            then.map(|then| &then.device),
        ),
        (
            |sum| &mut sum.queue,
            &now.queue,
            then.map(|then| &then.queue),
        ),
        (
            |sum| &mut sum.single_sizes,
            &now.single_sizes,
            then.map(|then| &then.single_sizes),
        ),
        (
            |sum| &mut sum.joined_sizes,
            &now.joined_sizes,
            then.map(|then| &then.joined_sizes),
        ),
    ];
    for (part, now, then) in parts {
        match then {
            Some(then) => part(sum).add(&now.since(then)),
            None => part(sum).add(now),
        }
    }
}

/// Which of a class's distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// From the queue to the end.
    Total,
    /// On the device.
    Device,
    /// In the queue.
    Queue,
    /// Sizes of requests for one block.
    Single,
    /// Sizes of requests for several.
    Joined,
}

/// The sum of the distributions of these classes.
pub fn together(classes: &Classes, names: &[&str], which: Which) -> Distribution {
    let mut sum = Distribution::default();
    for requests in names.iter().filter_map(|name| classes.get(*name)) {
        sum.add(match which {
            Which::Total => &requests.total,
            Which::Device => &requests.device,
            Which::Queue => &requests.queue,
            Which::Single => &requests.single_sizes,
            Which::Joined => &requests.joined_sizes,
        });
    }
    sum
}

/// Classes that read.
pub const READS: &[&str] = &["sync_read", "async_read", "scrub"];
/// Classes that write.
pub const WRITES: &[&str] = &["sync_write", "async_write", "initializing"];

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::VdevKind;

    fn leaf(guid: u64, counts: &[u64]) -> Vdev {
        let mut vdev = Vdev::new(VdevKind::Disk, guid, guid);
        vdev.requests = vec![ClassRequests {
            class: "scrub".to_owned(),
            active: 1,
            device: Distribution {
                counts: counts.to_vec(),
                sum: 10 * counts.iter().sum::<u64>(),
            },
            ..ClassRequests::default()
        }];
        vdev
    }

    fn pool(children: Vec<Vdev>) -> PoolRow {
        let mut root = Vdev::new(VdevKind::Root, 0, 1);
        root.children = children;
        let tree = cenote_control::model::VdevTree {
            root,
            cache: Vec::new(),
            spares: Vec::new(),
        };
        PoolRow {
            name: "tank".to_owned(),
            guid: 1,
            txg: 4,
            version: 5000,
            health: cenote_control::model::PoolHealth::Online,
            properties: Vec::new(),
            vdevs: Some(tree),
        }
    }

    #[test]
    fn leaves_are_added_and_what_was_before_is_taken_away() {
        let before = Requests::of(&[pool(vec![leaf(7, &[1])])]);
        let row = pool(vec![leaf(7, &[3, 1]), leaf(8, &[0, 5])]);
        let now = Requests::of(std::slice::from_ref(&row));
        let root = &row.vdevs.as_ref().expect("there").root;
        let classes = now.since(root, &before);
        let found = together(&classes, READS, Which::Device);
        assert_eq!((found.counts.as_slice(), found.sum), (&[2, 6][..], 80));
        assert_eq!(classes["scrub"].active, 2);
        assert_eq!(
            together(&classes, WRITES, Which::Device),
            Distribution::default()
        );
    }
}
