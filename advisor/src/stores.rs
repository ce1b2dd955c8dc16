//! Findings about devices in object stores.

use crate::numbers::{duration, nicebytes};
use crate::{Finding, Severity};
use cenote_control::model::{StoreStatus, shell_word};

/// Seconds without an answer from a store before it is reported: most outages are short.
const AWAY_MAX: u64 = 60;
/// Seconds for which something may wait that is to be uploaded within half a minute.
const LATE: u64 = 600;

/// What is to be known of the devices of `pool`.
pub(super) fn findings(pool: &str, stores: &[StoreStatus]) -> Vec<Finding> {
    let found = stores.iter().flat_map(|store| of_store(pool, store));
    found.collect()
}

/// An object whose requests fail while those for others succeed.
fn awaited(store: &StoreStatus) -> Option<(String, String)> {
    let (key, seconds, error) = store.awaited.as_ref()?;
    let what = format!(
        "requests for object {key} have failed for {}; operations that need it wait: {error}",
        duration(*seconds)
    );
    let advice = "the store answers for other objects: ask its operator about this one; \
                  nothing is lost while it waits";
    (*seconds >= AWAY_MAX).then(|| (what, advice.to_owned()))
}

/// What is to be known of one device.
// tidy: allow(long-function, one paragraph for each finding)
fn of_store(pool: &str, store: &StoreStatus) -> Vec<Finding> {
    let mut found = Vec::new();
    let pool = shell_word(pool);
    let mut push = |severity, what: String, advice: String| {
        let device = store.place.clone();
        found.push(Finding {
            severity,
            device,
            what,
            advice,
        });
    };
    if let Some(failure) = &store.failure {
        let advice = format!(
            "nothing more gets into the store from here: copy what matters elsewhere, then run \
             'zpool export -f {pool}'"
        );
        push(Severity::Danger, format!("failed: {failure}"), advice);
    }
    if let Some((key, what)) = store.damaged.first() {
        let others = match store.damaged_count {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let advice = format!(
            "run 'zpool scrub {pool}', which repairs what has another copy and lists lost files; \
             then 'cenote cloud compact {pool}' removes damaged objects that nothing needs, and \
             'cenote cloud verify {pool}' checks all objects"
        );
        let what = format!("object {key} in the store is damaged: {what}{others}");
        push(Severity::Danger, what, advice);
    }
    if let Some(lost) = store.lost.as_ref().filter(|_| store.damaged_count == 0) {
        let what = format!(
            "the store has lost objects, first {lost}; {} were put again from this machine",
            store.put_again
        );
        let advice = format!(
            "find out what removes or restores objects in the store; then run \
             'zpool scrub {pool}' and 'cenote cloud verify {pool}', which ends this warning"
        );
        push(Severity::Attention, what, advice);
    }
    let pending = nicebytes(store.pending_bytes);
    let away = store
        .unreachable_seconds
        .filter(|seconds| *seconds >= AWAY_MAX);
    if let Some(seconds) = away {
        let error = store.last_error.as_deref().unwrap_or("no reason is known");
        let what = format!(
            "the store has not answered for {}, and {pending} wait: {error}",
            duration(seconds)
        );
        let advice = match (store.log_used, store.log_size) {
            (Some(used), Some(size)) if used >= size / 100 * 90 => {
                "the local log is full, and what writes waits: bring the store back"
            }
            _ => "bring the store back; until then this machine has the only copy of what waits",
        };
        push(Severity::Attention, what, advice.to_owned());
    }
    if let Some((what, advice)) = awaited(store).filter(|_| away.is_none()) {
        push(Severity::Attention, what, advice);
    }
    let late = store.pending_seconds.filter(|seconds| *seconds >= LATE);
    if let Some(seconds) = late.filter(|_| away.is_none()) {
        let what = format!(
            "{pending} wait to be uploaded, the oldest for {}",
            duration(seconds)
        );
        let advice = "more is written than the line or cloud_upload_rate lets through".to_owned();
        push(Severity::Attention, what, advice);
    }
    if let Some(name) = &store.log_aside {
        let bytes = nicebytes(store.log_aside_bytes);
        let what = format!(
            "another host took over without this host's log: {bytes} never reached the store"
        );
        let advice = format!("they are in {name} in the device's local directory, for experts");
        push(Severity::Note, what, advice);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_wants_attention_and_a_lost_one_more() {
        let mut store = StoreStatus::default();
        assert!(findings("tank", std::slice::from_ref(&store)).is_empty());
        store.unreachable_seconds = Some(AWAY_MAX);
        let found = findings("tank", std::slice::from_ref(&store));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Attention);
        store.unreachable_seconds = None;
        store.awaited = Some(("data/1-2".to_owned(), AWAY_MAX, "503".to_owned()));
        let waits = &findings("tank", std::slice::from_ref(&store))[0];
        assert!(
            waits
                .what
                .starts_with("requests for object data/1-2 have failed"),
            "{}",
            waits.what
        );
        store.damaged = vec![("data/1-2".to_owned(), "it is missing".to_owned())];
        store.damaged_count = 2;
        let damaged = &findings("tank", std::slice::from_ref(&store))[0];
        assert_eq!(damaged.severity, Severity::Danger);
        let named = "object data/1-2 in the store is damaged: it is missing (and 1 more)";
        assert_eq!(damaged.what, named);
        store.damaged.clear();
        store.failure = Some("taken over by host 'b'".to_owned());
        let found = findings("tank", std::slice::from_ref(&store));
        assert_eq!(found[0].severity, Severity::Danger);
    }
}
