//! Accounts of users, groups and projects: `zfs userspace` and `userused@…`.

use cenote_control::model::{
    AccountKind as Kind, AccountOwner, ControlError, Part, Response, SpaceAccount,
};
use cenote_control::protocol::Reply;
use cenote_posix::{Account, AccountKind, FileSystem, Owner};
use std::collections::HashMap;
use std::sync::Arc;

use crate::errors::{of_files, parse_name};
use crate::registry::table::Registry;

/// Accounts sent at once.
const BATCH: usize = 4096;

/// The accounts of one dataset, read when first needed.
#[derive(Default)]
pub(crate) struct Accounts {
    by_kind: HashMap<AccountKind, Vec<Account>>,
}

impl Accounts {
    /// The account of an id; `None` if it has none, or the dataset has no files.
    pub fn find(
        &mut self,
        kind: AccountKind,
        id: u64,
        open: impl Fn() -> Option<Arc<FileSystem>>,
    ) -> Option<&Account> {
        let accounts = self.by_kind.entry(kind).or_insert_with(|| {
            open()
                .and_then(|files| files.accounts(kind).ok())
                .unwrap_or_default()
        });
        accounts.iter().find(|account| account.fuid.0 == id)
    }
}

/// The id that a number or name of the running system stands for.
pub(crate) fn owner_id(kind: AccountKind, who: &str) -> Option<u64> {
    if let Ok(id) = who.parse() {
        return Some(id);
    }
    if who.is_empty() {
        return None;
    }
    let table = match kind {
        AccountKind::User => "/etc/passwd",
        AccountKind::Group => "/etc/group",
        AccountKind::Project => return None,
    };
    let text = std::fs::read_to_string(table).ok()?;
    let line = text
        .lines()
        .find(|line| line.split(':').next() == Some(who))?;
    line.split(':').nth(2)?.parse().ok()
}

pub(crate) fn user_space(
    registry: &Registry,
    dataset: &str,
    kind: Kind,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let name = parse_name(dataset)?;
    let (imported, found) = registry.dataset(&name)?;
    let files = registry.unless_gone(&name, imported.files(&found))?;
    let kind = match kind {
        Kind::User => AccountKind::User,
        Kind::Group => AccountKind::Group,
        Kind::Project => AccountKind::Project,
    };
    let accounts = files.accounts(kind);
    let accounts = accounts.map_err(|error| of_files(dataset, &error));
    let accounts = registry.unless_gone(&name, accounts)?;
    let counts_objects = files.counts_objects(kind);
    for batch in accounts.chunks(BATCH) {
        let rows = batch.iter();
        let rows = rows
            .map(|account| row_of(account, counts_objects))
            .collect();
        reply.part(Part::Accounts(rows))?;
    }
    Ok(Response::Done)
}

fn row_of(account: &Account, counts_objects: bool) -> SpaceAccount {
    let owner = match &account.owner {
        Owner::Id(id) => AccountOwner::Id(*id),
        account => AccountOwner::Sid(account.to_string()),
    };
    SpaceAccount {
        owner,
        used: account.used,
        quota: account.quota,
        objects_used: counts_objects.then_some(account.objects_used),
        objects_quota: account.objects_quota,
    }
}
