//! The answers compared with a model that is written from the manual page.

use super::*;
use crate::grants::Grant;
use std::collections::BTreeSet;

const PERMISSIONS: [&str; 5] = ["create", "mount", "destroy", "quota", "send"];
const SETS: [&str; 3] = ["@p", "@q", "@r"];
/// Datasets by the place of their parent, which is before them.
const PARENTS: [usize; 6] = [0, 0, 1, 2, 1, 0];

fn grant(grantee: Grantee, scope: Scope, names: &[&str]) -> Grant {
    Grant {
        grantee,
        scope,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Facts: a dataset, for whom, where, and one name.
#[derive(Default)]
struct Model(BTreeSet<(usize, Grantee, Scope, String)>);

impl Model {
    fn allow(&mut self, dataset: usize, grant: &Grant) {
        for name in &grant.names {
            let (grantee, scope) = (grant.grantee.clone(), grant.scope);
            self.0.insert((dataset, grantee, scope, name.clone()));
        }
    }

    fn unallow(&mut self, dataset: usize, grant: &Grant) {
        self.0.retain(|(at, grantee, scope, name)| {
            let is_it = *at == dataset && *grantee == grant.grantee && *scope == grant.scope;
            !is_it || !(grant.names.is_empty() || grant.names.contains(name))
        });
    }

    /// Names that a user is granted by the dataset that is `level` levels above `path`'s first.
    fn granted<'a>(&'a self, path: &'a [usize], level: usize, user: &'a User) -> Vec<&'a str> {
        let scope = [Scope::Local, Scope::Descendants][level.min(1)];
        let facts = self.0.iter().filter(|(dataset, grantee, at, _)| {
            let is_theirs = match grantee {
                Grantee::User(id) => *id == user.id,
                Grantee::Group(id) => user.groups.contains(id),
                other => *other == Grantee::Everyone,
            };
            is_theirs && *dataset == path[level] && *at == scope
        });
        facts.map(|(.., name)| name.as_str()).collect()
    }

    fn definition(&self, dataset: usize, set: &str) -> Vec<&str> {
        let facts = self
            .0
            .iter()
            .filter(|(at, grantee, ..)| *at == dataset && *grantee == Grantee::Set(set.to_owned()));
        facts.map(|(.., name)| name.as_str()).collect()
    }

    /// Whether a set means its definition on this level: it is defined there, not meant nearer, and
    /// named up to there by a grant or by another set that counts. `open` are those asked about.
    fn counts(&self, path: &[usize], user: &User, level: usize, set: &str, open: &[&str]) -> bool {
        if open.contains(&set) || self.definition(path[level], set).is_empty() {
            return false;
        }
        let asked: Vec<&str> = open.iter().copied().chain([set]).collect();
        if (0..level).any(|nearer| self.counts(path, user, nearer, set, &[])) {
            return false;
        }
        (0..=level).any(|at| {
            let by_set = |other: &&str| {
                let open = if at == level { &asked[..] } else { &[] };
                self.definition(path[at], other).contains(&set)
                    && self.counts(path, user, at, other, open)
            };
            self.granted(path, at, user).contains(&set) || SETS.iter().any(by_set)
        })
    }

    fn is_allowed(&self, path: &[usize], user: &User, permission: &str) -> bool {
        (0..path.len()).any(|level| {
            let by_set = |set: &&str| {
                self.definition(path[level], set).contains(&permission)
                    && self.counts(path, user, level, set, &[])
            };
            self.granted(path, level, user).contains(&permission) || SETS.iter().any(by_set)
        })
    }
}

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }

    fn grantee(&mut self) -> (Grantee, Scope) {
        let scope = self.one(&[Scope::Local, Scope::Descendants]);
        match self.roll(7) {
            0 | 1 => (Grantee::User(self.roll(3) as u64), scope),
            2 => (Grantee::Group(self.roll(3) as u64), scope),
            3 => (Grantee::Everyone, scope),
            4 => (Grantee::Creator, Scope::None),
            _ => (Grantee::Set(self.one(&SETS).to_owned()), Scope::None),
        }
    }

    fn grant(&mut self, least: usize) -> Grant {
        let (grantee, scope) = self.grantee();
        let count = least + self.roll(3);
        let names: Vec<&str> = (0..count)
            .map(|_| match self.roll(3) {
                0 => self.one(&SETS),
                _ => self.one(&PERMISSIONS),
            })
            .collect();
        grant(grantee, scope, &names)
    }
}

/// A dataset and all above it.
fn path_of(dataset: usize) -> Vec<usize> {
    let above = |at: &usize| (*at != 0).then(|| PARENTS[*at]);
    std::iter::successors(Some(dataset), above).collect()
}

fn history(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut tables = vec![Grants::default(); PARENTS.len()];
    let mut model = Model::default();
    let users = [0, 1, 2].map(|id| User {
        id,
        groups: (0..3).filter(|_| dice.roll(3) == 0).collect(),
    });
    for _ in 0..14 {
        let dataset = dice.roll(PARENTS.len());
        match dice.roll(8) {
            0 => {
                let taken = dice.grant(0);
                tables[dataset].remove(&taken);
                model.unallow(dataset, &taken);
            }
            1 => {
                // The dataset is made again, by one of the users.
                let path = path_of(dataset);
                let above = path[1..].iter().map(|at| &tables[*at]);
                let user = dice.roll(3) as u64;
                tables[dataset] = Grants::of_creator(above, user);
                model.0.retain(|(at, ..)| *at != dataset);
                let made = model.0.iter().filter(|(at, grantee, ..)| {
                    path[1..].contains(at) && *grantee == Grantee::Creator
                });
                let made: BTreeSet<String> = made.map(|(.., name)| name.clone()).collect();
                let names: Vec<&str> = made.iter().map(String::as_str).collect();
                model.allow(dataset, &grant(Grantee::User(user), Scope::Local, &names));
            }
            _ => {
                let given = dice.grant(1);
                tables[dataset].add(&given);
                model.allow(dataset, &given);
            }
        }
    }
    for dataset in 0..PARENTS.len() {
        let path = path_of(dataset);
        let levels: Vec<Grants> = path.iter().map(|at| tables[*at].clone()).collect();
        for (user, permission) in users.iter().flat_map(|user| PERMISSIONS.map(|p| (user, p))) {
            let wanted = model.is_allowed(&path, user, permission);
            let got = user.is_allowed(&levels, permission);
            assert_eq!(
                got, wanted,
                "seed {seed}: {user:?}, {permission}, {levels:#?}"
            );
        }
    }
}

#[test]
fn users_may_what_the_model_says() {
    (1..=1000).for_each(history);
}

/// From OpenZFS's tests: a set that is defined again below hides the one above, until that
/// definition is taken away.
#[test]
fn the_nearest_definition_of_a_set_counts() {
    let set = || Grantee::Set("@set".to_owned());
    let user = User {
        id: 7,
        groups: Vec::new(),
    };
    let given =
        [Scope::Local, Scope::Descendants].map(|scope| grant(Grantee::User(7), scope, &["@set"]));
    let below = grant(set(), Scope::None, &["send"]);
    let mut levels = vec![Grants::from_iter(given.clone()), Grants::from_iter(given)];
    levels[1].add(&grant(set(), Scope::None, &["create"]));
    levels[0].add(&below);
    assert!(user.is_allowed(&levels, "send") && !user.is_allowed(&levels, "create"));
    levels[0].remove(&below);
    assert!(!user.is_allowed(&levels, "send") && user.is_allowed(&levels, "create"));
    assert!(!user.is_allowed(&levels, "@set"), "a set is no permission");
}
