//! What is in flight for each user, group and project that has a limit.
//!
//! A transaction is expected before it begins, since its group is not known yet, and counted for
//! its group from then on. When that group is on disk, the accounts there have it.

use crate::master::AccountKind;
use cenote_base::Txg;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;

/// What a transaction may add to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    pub bytes: u64,
    pub objects: u64,
}

impl Charge {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            objects: self.objects.saturating_add(other.objects),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            objects: self.objects.saturating_sub(other.objects),
        }
    }
}

type Account = (AccountKind, u64);

/// All that is in flight, by account.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    expected: BTreeMap<Account, Charge>,
    groups: BTreeMap<Txg, BTreeMap<Account, Charge>>,
}

impl InFlight {
    /// What is in flight for one account.
    pub(super) fn of(&self, account: Account) -> Charge {
        let all = self.groups.values().chain([&self.expected]);
        let of = all.filter_map(|charges| charges.get(&account));
        of.fold(Charge::default(), |sum, charge| sum.plus(*charge))
    }

    /// Expects a transaction that charges these accounts.
    pub(super) fn expect(&mut self, accounts: &[Account], charge: Charge) -> Charge {
        add(&mut self.expected, accounts, charge);
        charge
    }
}

fn add(charges: &mut BTreeMap<Account, Charge>, accounts: &[Account], charge: Charge) {
    for account in accounts {
        let sum = charges.entry(*account).or_default();
        *sum = sum.plus(charge);
    }
}

/// What is in flight for the owners of a file system's files.
#[derive(Debug, Default)]
pub(super) struct Owners {
    in_flight: Mutex<InFlight, ranks::OwnersInFlight>,
}

impl Owners {
    /// What is in flight while `synced` is the last group on disk. It stays so until the guard
    /// goes.
    pub(super) fn lock(&self, synced: Txg) -> MutexGuard<'_, InFlight> {
        let mut in_flight = self.in_flight.lock();
        in_flight.groups.retain(|txg, _| *txg > synced);
        in_flight
    }

    /// Counts what a transaction charges in its group instead of what was expected; nothing if it
    /// did not begin.
    pub(super) fn settle(
        &self,
        accounts: &[Account],
        expected: Charge,
        begun: Option<(Txg, Charge)>,
    ) {
        let mut in_flight = self.in_flight.lock();
        for account in accounts {
            if let Some(sum) = in_flight.expected.get_mut(account) {
                *sum = sum.minus(expected);
                if *sum == Charge::default() {
                    in_flight.expected.remove(account);
                }
            }
        }
        if let Some((txg, charge)) = begun {
            add(in_flight.groups.entry(txg).or_default(), accounts, charge);
        }
    }
}
