//! Inspecting streams that OpenZFS sent.

use super::*;
use cenote_dsl::resume_token;
use cenote_tests::golden::Golden;
use cenote_tests::streams;

fn summary(name: &str) -> Option<Summary> {
    let path = streams::stream(name).expect("unpacks")?;
    let file = std::fs::File::open(path).expect("readable");
    Some(inspect(file, Checks::default()).expect("a stream"))
}

#[test]
fn whole_streams_say_what_they_are() {
    for (name, path) in streams::streams().expect("streams unpack") {
        let length = std::fs::metadata(path).expect("there").len();
        let summary = summary(&name).expect("there");
        assert_eq!(summary.is_whole(), name != "resume-part1", "{name}");
        assert!(summary.streams.iter().all(|stream| stream.is_whole) == summary.is_whole());
        if summary.is_whole() {
            assert_eq!(summary.bytes, length, "{name}");
        }
    }
    let Some(incremental) = summary("incremental-i") else {
        return;
    };
    let [stream] = &incremental.streams[..] else {
        panic!("one stream")
    };
    assert_eq!(stream.kind(), StreamKind::Incremental);
    assert_eq!(stream.begin.to_name, b"gold_streams/fs@b");
    assert_eq!(stream.begin.from_guid.0, 0x99f3_45b8_b88c_63e9);
    assert_eq!(
        (stream.counts[3].records, stream.counts[3].payload),
        (14, 564_736)
    );
    let raw = summary("raw-encrypted").expect("there");
    let keys = raw.streams[0].payload.crypt.as_ref().expect("keys");
    assert_eq!((keys.suite, keys.to_ivset_guid.is_some()), (8, true));
}

#[test]
fn packages_say_what_they_hold() {
    let Some(summary) = summary("replication") else {
        return;
    };
    let (begin, package) = summary.package.expect("a package");
    assert_eq!(
        (summary.packages, begin.to_name.as_slice()),
        (1, &b"gold_streams/repl@3"[..])
    );
    assert!(package.recursive && package.datasets.len() == 3);
    let kinds: Vec<StreamKind> = summary.streams.iter().map(StreamSummary::kind).collect();
    let count = |kind| kinds.iter().filter(|one| **one == kind).count();
    assert_eq!(
        (
            count(StreamKind::Full),
            count(StreamKind::Incremental),
            count(StreamKind::Clone)
        ),
        (2, 5, 1)
    );
}

#[test]
fn a_cut_stream_has_the_token_that_the_reference_gave() {
    let Some(summary) = summary("resume-part1") else {
        return;
    };
    let Ending::Broken { error, resume } = summary.ending else {
        panic!("it is cut")
    };
    assert!(matches!(error, StreamError::Cut { .. }), "{error:?}");
    let golden = Golden::find(streams::KIND)
        .expect("readable")
        .expect("there");
    let token = &golden.manifest.document["streams"]["resume"]["token"];
    let expected = resume_token::from_text(token.as_str().expect("text")).expect("a token");
    assert_eq!(resume.as_deref(), Some(&expected));
}

#[test]
fn what_is_no_stream_has_no_summary() {
    for bytes in [&b""[..], b"hello", &[0; 400]] {
        let error = inspect(bytes, Checks::default()).expect_err("no stream");
        assert!(matches!(error, StreamError::NotAStream), "{error:?}");
    }
}
