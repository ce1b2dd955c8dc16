use super::{Found, cut, join, rest};
use crate::reader::Reader;
use cenote_base::ObjectId;
use cenote_ondisk::stream::{Record, ResumeToken};
use cenote_tests::streams;

/// The records of a stream by what they are of.
fn records(stream: &[u8]) -> Vec<(u32, usize)> {
    let mut reader = Reader::new(stream);
    let mut records = Vec::new();
    while let Some(item) = reader.next_item().expect("whole") {
        records.push((item.header.record.kind(), item.payload.len()));
    }
    records
}

/// The stream that a sender makes for a token, as far as it can be made of the whole one.
fn sent_for(whole: &[u8], token: &ResumeToken) -> Vec<u8> {
    let mut made = Vec::new();
    rest(whole, std::slice::from_ref(token), &mut made).expect("made");
    made
}

#[test]
fn a_stream_cut_anywhere_is_joined_to_what_it_was() {
    let Some(path) = streams::stream("full").expect("streams") else {
        return;
    };
    let whole = std::fs::read(path).expect("a stream");
    assert!(matches!(cut(&whole[..]), Ok(Found::Whole)));
    let mut joined = 0;
    for end in (312..whole.len()).step_by(whole.len() / 97) {
        let found = cut(&whole[..end]).expect("a stream");
        let Found::Cut(found) = found else {
            continue;
        };
        let mut file = whole[..usize::try_from(found.bytes).expect("small")].to_vec();
        let more = sent_for(&whole, &found.token);
        assert!(more.len() < whole.len());
        let bytes = join(&found, &more[..], &mut file).expect("joined");
        assert_eq!(bytes, file.len() as u64);
        assert!(file == whole, "cut at {end}");
        joined += 1;
    }
    assert!(joined > 50, "{joined}");
}

#[test]
fn what_is_not_the_rest_is_refused() {
    let Some(path) = streams::stream("full").expect("streams") else {
        return;
    };
    let whole = std::fs::read(path).expect("a stream");
    let Ok(Found::Cut(found)) = cut(&whole[..whole.len() / 2]) else {
        panic!("it can be resumed");
    };
    // Neither the whole stream nor one that begins elsewhere.
    assert!(join(&found, &whole[..], std::io::sink()).is_err());
    let mut later = found.token.clone();
    later.object = ObjectId(later.object.0 + 1);
    let more = sent_for(&whole, &later);
    assert!(join(&found, &more[..], std::io::sink()).is_err());
}

#[test]
fn a_receiver_gets_its_object_once_more_and_what_follows() {
    let Some(path) = streams::stream("full").expect("streams") else {
        return;
    };
    let whole = std::fs::read(path).expect("a stream");
    let Ok(Found::Cut(found)) = cut(&whole[..whole.len() / 2]) else {
        panic!("it can be resumed");
    };
    let more = sent_for(&whole, &found.token);
    let mut reader = Reader::new(&more[..]);
    let mut first = None;
    while let Some(item) = reader.next_item().expect("whole") {
        match &item.header.record {
            Record::Object(object) => first = first.or(Some(object.object)),
            Record::Write(write) => {
                let place = (write.object, write.offset);
                assert!(place >= (found.token.object, found.token.offset));
            }
            _ => {}
        }
    }
    assert_eq!(first, Some(found.token.object));
    // Without a token nothing changes.
    let mut same = Vec::new();
    rest(&whole[..], &[], &mut same).expect("written");
    assert_eq!(records(&same), records(&whole));
}
