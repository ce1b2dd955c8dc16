//! What the server of files parses itself: paths, ranges, conditions, what clients accept.

#![no_main]

use cenote_http::check_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check_request(bytes));
