//! What `zpool status` prints about devices in object stores.

use crate::format::json::{Json, Object};
use crate::format::number::{duration, nicebytes};
use cenote_control::model::StoreStatus;

/// The section of a pool; empty if it has no such devices.
pub fn text(stores: &[StoreStatus]) -> String {
    if stores.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nstores:\n\n");
    for store in stores {
        text.push_str(&format!("\t{}\n", store.place));
        for line in lines(store) {
            text.push_str(&format!("\t  {line}\n"));
        }
    }
    text
}

/// The lines about a device.
pub fn lines(store: &StoreStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if store.read_only {
        lines.push(match store.released {
            true => format!(
                "released by host '{}' with commit {}",
                store.host, store.commit
            ),
            false => format!(
                "held by host '{}', as of commit {}",
                store.host, store.commit
            ),
        });
        return lines;
    }
    if let Some(failure) = &store.failure {
        lines.push(format!("failed: {failure}"));
    }
    lines.push(match (store.unreachable_seconds, &store.last_error) {
        (None, _) => "the store answers".to_owned(),
        (Some(seconds), error) => format!(
            "the store has not answered for {}: {}",
            duration(seconds),
            error.as_deref().unwrap_or("no reason is known")
        ),
    });
    lines.extend(loss(store));
    lines.extend(damage(store));
    lines.push(pending(store));
    let cache = match store.writethrough {
        true => "writethrough",
        false => "writeback",
    };
    lines.push(format!(
        "held by host '{}' with commit {}, cache={cache}",
        store.host, store.commit
    ));
    if let Some(name) = &store.log_aside {
        lines.push(format!(
            "another host took over without this host's log: {} that never reached the store \
             are in {name}",
            nicebytes(store.log_aside_bytes)
        ));
    }
    lines
}

/// What the store has lost, as far as was found.
fn loss(store: &StoreStatus) -> Option<String> {
    let lost = store.lost.as_ref()?;
    let put_again = match store.put_again {
        0 => String::new(),
        count => format!("; {count} objects were put again from this machine"),
    };
    Some(format!(
        "the store has lost objects, first {lost}{put_again}"
    ))
}

/// Which objects are damaged.
fn damage(store: &StoreStatus) -> Vec<String> {
    let named = store.damaged.iter();
    let mut lines: Vec<String> = named
        .map(|(key, what)| format!("damaged object {key}: {what}"))
        .collect();
    let more = store.damaged_count.saturating_sub(lines.len() as u64);
    if more > 0 {
        lines.push(format!("damaged objects beside these: {more}"));
    }
    lines
}

/// What is not in the store yet.
fn pending(store: &StoreStatus) -> String {
    let mut text = match (store.pending_bytes, store.pending_seconds) {
        (0, None) => "everything is uploaded".to_owned(),
        (bytes, seconds) => format!(
            "{} wait to be uploaded, the oldest for {}",
            nicebytes(bytes),
            duration(seconds.unwrap_or(0))
        ),
    };
    if let (Some(used), Some(size)) = (store.log_used, store.log_size) {
        let (used, size) = (nicebytes(used), nicebytes(size));
        text.push_str(&format!("; the local log has {used} of {size} in use"));
    }
    text
}

/// The same as JSON, by place.
pub fn json(stores: &[StoreStatus]) -> Object {
    let mut all = Object::new();
    for store in stores {
        all.put(&store.place, json_of(store));
    }
    all
}

/// A device as JSON, with exact numbers.
pub fn json_of(store: &StoreStatus) -> Object {
    let mut object = Object::new();
    object.put("uuid", store.uuid.as_str());
    object.put("size", store.size);
    object.put("commit", store.commit);
    object.put("host", store.host.as_str());
    object.put("written", store.written);
    object.put("released", store.released);
    if store.read_only {
        return object;
    }
    object.put("writethrough", store.writethrough);
    object.put("pending_bytes", store.pending_bytes);
    let numbers = [
        ("pending_seconds", store.pending_seconds),
        ("unreachable_seconds", store.unreachable_seconds),
        ("log_used", store.log_used),
        ("log_size", store.log_size),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            object.put(name, value);
        }
    }
    object.put("put_again", store.put_again);
    object.put("damaged_count", store.damaged_count);
    let damaged = store.damaged.iter().map(|(key, what)| {
        let mut entry = Object::new();
        entry.put("key", key.as_str());
        entry.put("what", what.as_str());
        Json::from(entry)
    });
    object.put("damaged", damaged.collect::<Vec<Json>>());
    let texts = [
        ("lost", &store.lost),
        ("last_error", &store.last_error),
        ("failure", &store.failure),
        ("log_aside", &store.log_aside),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            object.put(name, value.as_str());
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, a short object was retried for ever and the store was reported as healthy.
    #[test]
    fn damaged_objects_are_named() {
        let store = StoreStatus {
            damaged: vec![("data/1-2".to_owned(), "it is missing".to_owned())],
            damaged_count: 3,
            ..StoreStatus::default()
        };
        let lines = lines(&store);
        let named = "damaged object data/1-2: it is missing".to_owned();
        assert!(lines.contains(&named), "{lines:?}");
        let more = "damaged objects beside these: 2".to_owned();
        assert!(lines.contains(&more), "{lines:?}");
    }

    #[test]
    fn it_says_what_waits_and_why() {
        let store = StoreStatus {
            place: "file:///a".to_owned(),
            host: "here".to_owned(),
            commit: 7,
            pending_bytes: 3 << 20,
            pending_seconds: Some(61),
            unreachable_seconds: Some(5),
            last_error: Some("commit/7: /a is not there".to_owned()),
            ..StoreStatus::default()
        };
        let expected = "\nstores:\n\n\tfile:///a\n\
            \t  the store has not answered for 00:00:05: commit/7: /a is not there\n\
            \t  3M wait to be uploaded, the oldest for 00:01:01\n\
            \t  held by host 'here' with commit 7, cache=writeback\n";
        assert_eq!(text(&[store]), expected);
        assert_eq!(text(&[]), "");
    }
}
