//! Delegated permissions on disk (format/3a 10).
//!
//! A directory's ZAP maps the key of each grant to another ZAP, whose keys are names.

use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_delegation::{Grant, Grants, parse_key};
use cenote_dmu::zap::ZapEntry;
use std::collections::BTreeSet;

const ENTRIES_MAX: usize = 65_536;
const TOO_MANY: &str = "too many permissions";

impl Directory {
    /// The permissions that are delegated on this dataset, without those from above.
    pub fn grants(&self) -> Result<Grants, DslError> {
        let mut grants = Grants::default();
        let mut total = 0;
        for (key, table) in self.grant_tables()? {
            let (grantee, scope) = parse_key(&key).ok_or_else(|| malformed(table))?;
            let names = self.dsl().grant_names(table)?;
            total += names.len();
            if total > ENTRIES_MAX {
                return Err(DslError::structure(table, TOO_MANY));
            }
            grants.add(&Grant {
                grantee,
                scope,
                names,
            });
        }
        Ok(grants)
    }

    /// The key of each grant, with the ZAP of its names.
    pub(crate) fn grant_tables(&self) -> Result<Vec<(String, ObjectId)>, DslError> {
        let Some(map) = self.phys().delegations else {
            return Ok(Vec::new());
        };
        let entries = entries(self.dsl(), map)?.into_iter();
        let tables = entries.map(|entry| {
            let key = entry.key.as_str().map(str::to_owned);
            let table = entry.value.as_u64().map(ObjectId);
            key.zip(table).ok_or_else(|| malformed(map))
        });
        tables.collect()
    }
}

impl Dsl {
    /// The names that a grant's table has.
    pub(crate) fn grant_names(&self, table: ObjectId) -> Result<BTreeSet<String>, DslError> {
        let names = entries(self, table)?.into_iter();
        let name = |entry: ZapEntry| entry.key.as_str().map(str::to_owned);
        let names = names.map(|entry| name(entry).ok_or_else(|| malformed(table)));
        names.collect()
    }
}

fn malformed(table: ObjectId) -> DslError {
    DslError::structure(table, "an entry of the permissions is malformed")
}

fn entries(dsl: &Dsl, table: ObjectId) -> Result<Vec<ZapEntry>, DslError> {
    let entries = dsl.mos().zap(table)?.entries();
    let entries = entries
        .take(ENTRIES_MAX + 1)
        .collect::<Result<Vec<_>, _>>()?;
    match entries.len() > ENTRIES_MAX {
        true => Err(DslError::structure(table, TOO_MANY)),
        false => Ok(entries),
    }
}
