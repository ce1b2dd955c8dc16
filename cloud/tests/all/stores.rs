//! What every store has to do, and what the client makes of one that fails.

use cenote_base::{Env, RealEnv};
use cenote_cloud::simulation::{Faults, SimulatedEnv, SimulatedStore};
use cenote_cloud::store::{
    Client, DirectoryStore, Put, Rates, Request, RequestKind, Store, StoreError,
};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn client(store: Arc<dyn Store>, env: Arc<dyn Env>) -> Client {
    Client::new(store, env, Rates::default())
}

pub(crate) fn body(text: &str) -> Arc<Vec<u8>> {
    Arc::new(text.as_bytes().to_vec())
}

/// The contract, on a store that is empty.
pub(crate) fn keeps_the_contract(client: &Client) {
    let put = |key: &str, text: &str| client.put_new(vec![(key.into(), body(text))]);
    assert!(client.get("a/1").expect("answers").is_none());
    assert_eq!(put("a/1", "one"), Ok(vec![Put::Done]));
    assert_eq!(put("a/1", "one"), Ok(vec![Put::Done]), "identical bytes");
    assert_eq!(put("a/1", "two"), Ok(vec![Put::Taken(body("one"))]));
    assert_eq!(client.keeps_name("a/1", &body("one")), Ok(true));
    assert_eq!(client.probe(7, 8), Ok(true));

    let range = |range| Request::Get {
        key: "a/1".into(),
        range: Some(range),
    };
    let pieces = client.get_all(vec![range(1..3), range(0..1)]);
    assert_eq!(pieces, Ok(vec![Some(body("ne")), Some(body("o"))]));

    assert_eq!(client.replace("current", None, &body("x")), Ok(true));
    let (_, tag) = client.get("current").expect("answers").expect("there");
    assert_eq!(client.replace("current", tag.clone(), &body("y")), Ok(true));
    assert_eq!(client.replace("current", tag, &body("z")), Ok(false));
    let (bytes, _) = client.get("current").expect("answers").expect("there");
    assert_eq!(bytes, body("y"));

    put("a/2", "two").expect("answers");
    put("b/1", "three").expect("answers");
    let keys = |prefix: &str, after: Option<&str>, limit| -> Vec<String> {
        let found = client.list(prefix, after.map(Into::into), limit);
        found
            .expect("answers")
            .into_iter()
            .map(|meta| meta.key)
            .collect()
    };
    assert_eq!(keys("a/", None, 10), ["a/1", "a/2"]);
    assert_eq!(keys("a/", Some("a/1"), 10), ["a/2"]);
    assert_eq!(keys("", None, 2), ["a/1", "a/2"]);
    let meta = client.head("b/1").expect("answers").expect("there");
    assert_eq!(meta.length, 5);
    assert!(meta.modified > 1_600_000_000);
    client
        .delete(vec!["a/1".into(), "a/1".into(), "c".into()])
        .expect("no error");
    assert!(client.head("a/1").expect("answers").is_none());
    assert_eq!(keys("", None, 10), ["a/2", "b/1", "current"]);
}

#[test]
fn a_directory_is_a_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("store");
    let store = DirectoryStore::new(&root).expect("made");
    let client = client(Arc::new(store), Arc::new(RealEnv::new()));
    keeps_the_contract(&client);
    client.set_patience(Some(Duration::ZERO));
    assert!(client.get("../escape").is_err());
    std::fs::remove_dir_all(&root).expect("removable");
    let error = client.get("a/2").expect_err("not mounted is not missing");
    assert!(matches!(error, StoreError::Transient(_)));
    let mistyped = directory.path().join("no/such");
    assert!(DirectoryStore::new(&mistyped).is_err());
    assert!(!directory.path().join("no").exists(), "nothing was made");
}

/// A part of a store may lie on another disk, behind a link. Regression: it was read, and not
/// listed.
#[test]
fn what_is_behind_a_link_is_listed() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    std::fs::create_dir(at("store")).expect("made");
    std::fs::create_dir(at("elsewhere")).expect("made");
    symlink(at("elsewhere"), at("store/map")).expect("made");
    symlink(at("nowhere"), at("store/lost")).expect("made");
    symlink(at("store"), at("store/circle")).expect("made");
    let store = DirectoryStore::new(&at("store")).expect("there");
    let client = client(Arc::new(store), Arc::new(RealEnv::new()));
    client.set_patience(Some(Duration::ZERO));
    let put = client.put_new(vec![("map/1/root".into(), body("r"))]);
    assert_eq!(put, Ok(vec![Put::Done]));
    let found = client.list("map/", None, 10).expect("answers");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].key, "map/1/root");
    let all = client.list("", None, 100).expect("comes to its end");
    assert!(all.iter().any(|meta| meta.key == "map/1/root"));
}

#[test]
fn the_simulated_store_is_one() {
    let env = Arc::new(SimulatedEnv::new(1));
    let store = SimulatedStore::new(1, env.clone());
    keeps_the_contract(&client(store.connect(), env));
}

#[test]
fn faults_are_tried_away() {
    for seed in 0..50 {
        let env = Arc::new(SimulatedEnv::new(seed));
        let store = SimulatedStore::new(seed, env.clone());
        store.set_faults(Faults {
            failing: 200,
            answer_lost: 200,
            late: 50,
            latency_ms_max: 100,
            ..Faults::default()
        });
        let client = client(store.connect(), env.clone());
        for number in 0..10 {
            let objects = (0..4).map(|at| (format!("k/{number}-{at}"), body("bytes")));
            let put = client.put_new(objects.collect());
            assert_eq!(put, Ok(vec![Put::Done; 4]), "seed {seed}");
        }
        assert_eq!(client.list("k/", None, 100).expect("answers").len(), 40);
        let counts = client.statistics().of(RequestKind::Put);
        assert!(counts.requests > 40 && counts.transient > 0);
        assert_eq!(client.statistics().health().failing_since, None);
    }
}

#[test]
fn a_store_that_ignores_conditions_is_found_out() {
    let env = Arc::new(SimulatedEnv::new(1));
    let store = SimulatedStore::new(1, env.clone());
    store.set_faults(Faults {
        ignores_conditions: true,
        ..Faults::default()
    });
    let client = client(store.connect(), env);
    client
        .put_new(vec![("device".into(), body("d"))])
        .expect("answers");
    assert_eq!(client.keeps_name("device", &body("d")), Ok(false));
    assert_eq!(client.probe(7, 8), Ok(false));
}

#[test]
fn patience_and_closing_end_the_trying() {
    let env = Arc::new(SimulatedEnv::new(1));
    let store = SimulatedStore::new(1, env.clone());
    store.set_faults(Faults {
        failing: 1000,
        ..Faults::default()
    });
    let client = client(store.connect(), env.clone());
    client.set_patience(Some(Duration::from_secs(20)));
    let start = env.monotonic();
    assert!(client.get("x").is_err());
    assert!(env.monotonic() - start <= Duration::from_secs(20));
    assert!(client.statistics().health().failing_since.is_some());
    client.set_patience(None);
    client.close();
    assert!(client.get("x").is_err());
}

#[test]
fn uploads_keep_to_their_rate() {
    let env = Arc::new(SimulatedEnv::new(1));
    let store = SimulatedStore::new(1, env.clone());
    let rates = Rates {
        upload: Some(1000),
        download: None,
    };
    let client = Client::new(store.connect(), env.clone(), rates);
    let start = env.monotonic();
    for number in 0..11 {
        let object = (number.to_string(), Arc::new(vec![0; 1000]));
        client.put_new(vec![object]).expect("no faults");
    }
    assert_eq!((env.monotonic() - start).as_secs(), 10);
}
