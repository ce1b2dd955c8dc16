//! What clients and the daemon send each other.

#![no_main]

use cenote_control::model::{Part, Request, Response};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

fn check<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else {
        return;
    };
    let sent = serde_json::to_vec(&read).expect("what was read can be sent");
    let again: T = serde_json::from_slice(&sent).expect("what was sent can be read");
    let sent_again = serde_json::to_vec(&again).expect("it can be sent again");
    assert_eq!(sent, sent_again, "{read:?}");
}

fuzz_target!(|bytes: &[u8]| {
    check::<Request>(bytes);
    check::<Response>(bytes);
    check::<Part>(bytes);
});
