//! Which transaction groups belong to a period of time.
//!
//! A pool does not store when each group was written, but several things in it name a group and its
//! time: heads, events of the history, and the last groups of this daemon. A period gets all groups
//! between the nearest of these moments, so it may be longer than asked for, but never shorter.
//! Without a moment before its beginning it begins with the pool.
//!
//! A clock may have been wrong. So a group is left out only if all moments on its side agree.
//! Snapshots are no moments: one that was received has the time of its sender and a group of here.

use crate::errors::of_dsl;
use crate::imported::Imported;
use crate::walk::walk_heads;
use cenote_base::Txg;
use cenote_control::model::ControlError;
use cenote_history::HistoryBody;

/// While one group is written, the next waits and another one is open.
const GROUPS_AT_ONCE: u64 = 2;

/// A moment: what programs wrote before this second is in this group or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    txg: Txg,
    seconds: u64,
}

/// The moments that a pool knows, by group.
pub fn moments(imported: &Imported) -> Result<Vec<Moment>, ControlError> {
    let dsl = imported.dsl();
    let mut moments = Vec::new();
    let mut note = |txg, seconds| moments.push(Moment { txg, seconds });
    walk_heads(dsl, |head| {
        note(head.phys().creation_txg, head.phys().creation_time)
    });
    let history = cenote_history::read(dsl).map_err(of_dsl)?;
    // A history that cannot be read only makes the period longer.
    for record in history.into_iter().flatten().map_while(Result::ok) {
        if let HistoryBody::Internal { txg, .. } = record.body {
            note(Txg(txg), record.time);
        }
    }
    let (env, gate) = (imported.pool.env(), imported.pool.gate());
    let (now, wall) = (env.monotonic(), env.wall_clock());
    for group in gate.map(|gate| gate.groups()).unwrap_or_default() {
        let opened = wall.saturating_sub(now.saturating_sub(group.opened));
        note(Txg(group.txg.0.saturating_sub(1)), opened.as_secs());
    }
    moments.sort_unstable();
    Ok(moments)
}

/// The last group before a period, and the last that may be in it; `None` for the newest.
pub fn groups_of(moments: &[Moment], (from, to): (Option<u64>, Option<u64>)) -> (Txg, Option<Txg>) {
    let before = from.and_then(|from| {
        let early = moments.iter().take_while(|moment| moment.seconds <= from);
        // OpenZFS notes a time while the group is open, so the group may have later changes.
        let last = early.last().map(|moment| moment.txg.0);
        last.map(|txg| Txg(txg.saturating_sub(1)))
    });
    let last = to.and_then(|to| {
        let late = moments
            .iter()
            .rev()
            .take_while(|moment| moment.seconds > to);
        late.last().map(|moment| moment.txg)
    });
    let last = last.map(|Txg(txg)| Txg(txg.saturating_add(GROUPS_AT_ONCE)));
    (before.unwrap_or(Txg(0)), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(txg: u64, seconds: u64) -> Moment {
        let txg = Txg(txg);
        Moment { txg, seconds }
    }

    #[test]
    fn a_period_reaches_to_the_nearest_moments() {
        let moments = [at(10, 1000), at(20, 2000), at(30, 3000)];
        let groups = |from, to| groups_of(&moments, (from, to));
        assert_eq!(groups(None, None), (Txg(0), None));
        assert_eq!(groups(Some(999), None), (Txg(0), None));
        assert_eq!(groups(Some(1000), None), (Txg(9), None));
        assert_eq!(groups(Some(2999), Some(2999)), (Txg(19), Some(Txg(32))));
        // What is written in the same second may be in the next group.
        assert_eq!(groups(None, Some(3000)), (Txg(0), None));
        assert_eq!(groups(None, Some(5)), (Txg(0), Some(Txg(12))));
    }

    /// Group 20 was written while the clock was a day ahead, group 40 while it was behind.
    #[test]
    fn a_wrong_clock_makes_a_period_longer() {
        let moments = [
            at(10, 1000),
            at(20, 90_000),
            at(30, 3000),
            at(40, 500),
            at(50, 5000),
        ];
        let groups = |from, to| groups_of(&moments, (from, to));
        assert_eq!(groups(Some(4000), None), (Txg(9), None));
        assert_eq!(groups(None, Some(800)), (Txg(0), Some(Txg(52))));
    }
}
