//! `zfs allow` and `zfs unallow`.

use super::change::ask;
use crate::accounts::Accounts;
use cenote_control::model::{Change, DatasetGrants, Delegation, Request, Response, permission};
use cenote_delegation::{Grant, Grantee, Scope, is_set_name};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, check_name, with_context};
use std::collections::{BTreeMap, BTreeSet};

/// The width of the line above the permissions of a dataset.
const RULE: usize = 70;

/// Whom a command names: everyone without a name of their own.
const EVERYONE: &str = "everyone";

/// `zfs allow DATASET`, and `zfs allow [-ldugecs] [GRANTEES] PERMISSIONS DATASET`
pub fn allow(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let options = Options::of(parsed, false)?;
    let only = parsed
        .operands
        .first()
        .filter(|_| parsed.operands.len() == 1);
    match only {
        Some(dataset) if options.is_plain() && dataset != EVERYONE => show(dataset, context),
        _ => {
            let (grants, dataset) = options.read(&parsed.operands, false)?;
            let delegation = Delegation {
                dataset,
                granted: grants,
                ..Delegation::default()
            };
            change(delegation, command, context)
        }
    }
}

/// `zfs unallow [-rldugecs] [GRANTEES] [PERMISSIONS] DATASET`
pub fn unallow(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let recursive = parsed.has("r");
    let options = Options::of(parsed, true)?;
    let (grants, dataset) = options.read(&parsed.operands, true)?;
    let delegation = Delegation {
        dataset,
        revoked: grants,
        recursive,
        ..Delegation::default()
    };
    change(delegation, command, context)
}

fn change(delegation: Delegation, command: String, context: &mut Context) -> Outcome {
    let dataset = delegation.dataset.clone();
    check(&dataset)?;
    super::select::require(std::slice::from_ref(&dataset), context)?;
    match ask(Change::Delegate(delegation), command, context) {
        Ok(_) => Ok(0),
        Err(error) => {
            let what = format!("cannot set permissions on '{dataset}'");
            failed(with_context(&what, &error))
        }
    }
}

/// The options of a command line.
struct Options {
    local: bool,
    descendants: bool,
    user: bool,
    group: bool,
    everyone: bool,
    creator: bool,
    set: bool,
}

impl Options {
    fn of(parsed: &Parsed, is_unallow: bool) -> Result<Self, Stop> {
        let options = Self {
            local: parsed.has("l"),
            descendants: parsed.has("d"),
            user: parsed.has("u"),
            group: parsed.has("g"),
            everyone: parsed.has("e"),
            creator: parsed.has("c"),
            set: parsed.has("s"),
        };
        let kinds = [options.user, options.group, options.everyone];
        let count = |given: &[bool]| given.iter().filter(|given| **given).count();
        if count(&kinds) > 1 {
            return usage("-u, -g, and -e are mutually exclusive");
        }
        let others = [options.local, options.descendants, options.set];
        if options.set && (count(&kinds) > 0 || options.creator || is_unallow && options.scoped()) {
            return usage("invalid options combined with -s");
        }
        if options.creator && count(&kinds) + count(&others) > 0 {
            return usage("invalid options combined with -c");
        }
        Ok(options)
    }

    fn scoped(&self) -> bool {
        self.local || self.descendants
    }

    /// Whether none is given.
    fn is_plain(&self) -> bool {
        let whom = self.user || self.group || self.everyone;
        !(self.scoped() || whom || self.creator || self.set)
    }

    /// The grants that operands mean, and the dataset.
    fn read(&self, operands: &[String], is_unallow: bool) -> Result<(Vec<Grant>, String), Stop> {
        let is_everyone = operands.first().is_some_and(|word| word == EVERYONE);
        let is_everyone = self.everyone || is_everyone && !(self.user || self.group || self.set);
        let has_who = !self.everyone && !self.creator;
        let (who, rest) = match operands.split_first() {
            Some((who, rest)) if has_who => (Some(who), rest),
            _ => (None, operands),
        };
        let (permissions, dataset) = match rest {
            [permissions, dataset] => (Some(permissions), dataset),
            [dataset] if is_unallow => (None, dataset),
            _ => return usage("wrong number of parameters"),
        };
        let grantees = match who {
            _ if is_everyone => vec![Grantee::Everyone],
            None => vec![Grantee::Creator],
            Some(set) if self.set => vec![set_of(set)?],
            Some(who) => self.grantees(who)?,
        };
        let what = format!("cannot set permissions on '{dataset}'");
        let names = permissions.map_or(Ok(BTreeSet::new()), |words| names_of(words, &what))?;
        let grants = grantees
            .into_iter()
            .flat_map(|grantee| {
                self.scopes(&grantee)
                    .into_iter()
                    .map(move |scope| (grantee.clone(), scope))
            })
            .map(|(grantee, scope)| Grant {
                grantee,
                scope,
                names: names.clone(),
            });
        Ok((grants.collect(), dataset.clone()))
    }

    fn scopes(&self, grantee: &Grantee) -> Vec<Scope> {
        match (grantee.is_users(), self.local, self.descendants) {
            (false, ..) => vec![Scope::None],
            (_, true, false) => vec![Scope::Local],
            (_, false, true) => vec![Scope::Descendants],
            _ => vec![Scope::Local, Scope::Descendants],
        }
    }

    fn grantees(&self, words: &str) -> Result<Vec<Grantee>, Stop> {
        let kind = match (self.user, self.group) {
            (true, _) => "user",
            (_, true) => "group",
            _ => "user/group",
        };
        let each = words.split(',').map(|word| {
            let found = self.grantee(word);
            found.ok_or_else(|| Stop::Usage(format!("invalid {kind} {word}")))
        });
        each.collect()
    }

    /// Whom a word names: a user if there is one, else a group; ids may be given as numbers.
    fn grantee(&self, word: &str) -> Option<Grantee> {
        let user = || Accounts::Users.id(word).map(Grantee::User);
        let group = || Accounts::Groups.id(word).map(Grantee::Group);
        let number = || word.parse::<u32>().ok().map(u64::from);
        match (self.user, self.group) {
            (_, true) => group().or_else(|| number().map(Grantee::Group)),
            (true, _) => user().or_else(|| number().map(Grantee::User)),
            _ => user()
                .or_else(group)
                .or_else(|| number().map(Grantee::User)),
        }
    }
}

fn set_of(name: &str) -> Result<Grantee, Stop> {
    match name.starts_with('@') {
        false => usage("invalid set name: missing '@' prefix"),
        true if !is_set_name(name) => usage(format!("invalid set name '{name}'")),
        true => Ok(Grantee::Set(name.to_owned())),
    }
}

/// The permissions and sets of a list, with the full names of properties.
fn names_of(words: &str, what: &str) -> Result<BTreeSet<String>, Stop> {
    let each = words.split(',').map(|word| match permission(word) {
        Some(name) => Ok(name.to_owned()),
        None if is_set_name(word) => Ok(word.to_owned()),
        None => failed(format!("{what}: invalid permission '{word}'")),
    });
    each.collect()
}

/// Refuses a name that is not one of a file system or volume.
fn check(dataset: &str) -> Result<(), Stop> {
    match check_name(dataset, false, false) {
        Ok(()) => Ok(()),
        Err(fault) => failed(format!("cannot open '{dataset}': {fault}")),
    }
}

fn show(dataset: &str, context: &mut Context) -> Outcome {
    check(dataset)?;
    let request = Request::Grants {
        dataset: dataset.to_owned(),
    };
    let levels = match context.ask(request) {
        Ok(Response::Grants { levels }) => levels,
        Ok(_) => return failed(cannot_open(dataset, &mismatch())),
        Err(error) => return failed(cannot_open(dataset, &error)),
    };
    for level in &levels {
        let text = level_text(level, &|accounts, id| accounts.name(id));
        context.print(&text);
    }
    Ok(0)
}

/// Looks up the name of an id.
type Lookup<'a> = &'a dyn Fn(Accounts, u64) -> Option<String>;

/// The block of one dataset.
fn level_text(level: &DatasetGrants, lookup: Lookup<'_>) -> String {
    let title = format!("---- Permissions on {} ", level.dataset);
    let mut text = format!("{title:-<RULE$}\n");
    let of = |grant: &Grant| grant.names.iter().cloned().collect::<Vec<_>>().join(",");
    let sets = level
        .grants
        .iter()
        .filter_map(|grant| match &grant.grantee {
            Grantee::Set(name) => Some(format!("\t{name} {}\n", of(grant))),
            _ => None,
        });
    let created = level
        .grants
        .iter()
        .filter(|grant| grant.grantee == Grantee::Creator);
    let created = created.map(|grant| format!("\t{}\n", of(grant)));
    section(&mut text, "Permission sets", sets);
    section(&mut text, "Create time permissions", created);
    let people = People::of(level, lookup);
    for (title, local, below) in [
        ("Local permissions", true, false),
        ("Descendent permissions", false, true),
        ("Local+Descendent permissions", true, true),
    ] {
        section(&mut text, title, people.lines(local, below));
    }
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.collect();
    if !lines.is_empty() {
        text.push_str(&format!("{title}:\n{lines}"));
    }
}

/// Users first, then groups, then everyone, each with the names granted, and where.
struct People(BTreeMap<(usize, String), BTreeMap<String, (bool, bool)>>);

impl People {
    fn of(level: &DatasetGrants, lookup: Lookup<'_>) -> Self {
        let named = |accounts, id| {
            let name = lookup(accounts, id);
            name.unwrap_or_else(|| format!("(unknown: {id})"))
        };
        let mut people: BTreeMap<_, BTreeMap<String, (bool, bool)>> = BTreeMap::new();
        for grant in &level.grants {
            let who = match &grant.grantee {
                Grantee::User(id) => (0, format!("user {}", named(Accounts::Users, *id))),
                Grantee::Group(id) => (1, format!("group {}", named(Accounts::Groups, *id))),
                Grantee::Everyone => (2, EVERYONE.to_owned()),
                Grantee::Creator | Grantee::Set(_) => continue,
            };
            let names = people.entry(who).or_default();
            for name in &grant.names {
                let place = names.entry(name.clone()).or_default();
                place.0 |= grant.scope == Scope::Local;
                place.1 |= grant.scope == Scope::Descendants;
            }
        }
        Self(people)
    }

    fn lines(&self, local: bool, below: bool) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(move |((_, grantee), names)| {
            let here = names.iter().filter(|(_, place)| **place == (local, below));
            let here: Vec<&str> = here.map(|(name, _)| name.as_str()).collect();
            (!here.is_empty()).then(|| format!("\t{grantee} {}\n", here.join(",")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(grantee: Grantee, scope: Scope, names: &[&str]) -> Grant {
        Grant {
            grantee,
            scope,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn grants_are_shown_by_where_they_hold() {
        let user = |scope, names: &[&str]| grant(Grantee::User(7), scope, names);
        let level = DatasetGrants {
            dataset: "tank/users".to_owned(),
            grants: vec![
                grant(
                    Grantee::Set("@pset".to_owned()),
                    Scope::None,
                    &["create", "mount"],
                ),
                grant(Grantee::Creator, Scope::None, &["destroy"]),
                user(Scope::Local, &["quota", "send"]),
                user(Scope::Descendants, &["quota", "@pset"]),
                grant(Grantee::Group(9), Scope::Descendants, &["hold"]),
                grant(Grantee::Everyone, Scope::Local, &["diff"]),
            ],
        };
        let lookup = |accounts, _| (accounts == Accounts::Users).then(|| "cindys".to_owned());
        let shown = "\
---- Permissions on tank/users ---------------------------------------
Permission sets:
\t@pset create,mount
Create time permissions:
\tdestroy
Local permissions:
\tuser cindys send
\teveryone diff
Descendent permissions:
\tuser cindys @pset
\tgroup (unknown: 9) hold
Local+Descendent permissions:
\tuser cindys quota
";
        assert_eq!(level_text(&level, &lookup), shown);
    }
}
