//! A device that has lost `current`, on a store whose lists fail or leave something out.
//!
//! A list that failed was taken for an empty one, and the device for a new one: a pool was created
//! over the pool that was in it. Only a whole list of an empty store makes a device new.

use crate::damage::{Bounded, Damage, SIZE, answer, list, made, options, walk};
use crate::fake::{Answered, FakeServer};
use crate::server::store;
use cenote_base::Env;
use cenote_cloud::store::s3::BucketName;
use cenote_cloud::store::{Answer, DirectoryStore, Request, Store, StoreError};
use cenote_cloud::{CloudDevice, CloudError, Options};
use cenote_device::Device;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

fn env() -> Arc<dyn Env> {
    Bounded::new()
}

/// A device that has lost `current`, and whose first commits are removed, as they are after a day.
fn worn(root: &Path) -> Vec<u8> {
    let model = made(root);
    std::fs::remove_file(root.join("current")).expect("there");
    let mut roots = walk(&root.join("map"));
    roots.retain(|path| path.ends_with("root"));
    roots.sort();
    let newest = roots.pop().expect("a checkpoint");
    let newest = newest.parent().and_then(Path::file_name).expect("a number");
    for commit in walk(&root.join("commit")) {
        if commit.file_name() <= Some(newest) {
            std::fs::remove_file(commit).expect("there");
        }
    }
    model
}

/// What a server answers to a request for a list.
fn spoilt(root: &Path, kind: &str, page: Answered, has_token: bool) -> Answered {
    let of = |body: String| Answered {
        status: 200,
        headers: Vec::new(),
        body: body.into(),
    };
    let text = String::from_utf8(page.body.clone()).expect("text");
    let cut = |inside: &str| {
        format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>next</NextContinuationToken>{inside}</ListBucketResult>"
        )
    };
    match kind {
        "whole" => page,
        "503" => Answered::error(503, "SlowDown"),
        "500" => Answered::error(500, "InternalError"),
        "403" => Answered::error(403, "AccessDenied"),
        "404" => Answered::error(404, "NoSuchKey"),
        "broken" => Answered {
            headers: vec![
                ("content-length", "9999".into()),
                ("connection", "close".into()),
            ],
            ..page
        },
        "a page for people" => of("<html><body>sign in</body></html>".into()),
        "empty" => {
            of("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>".into())
        }
        "first page empty" if has_token => page,
        "first page empty" | "all pages empty" => of(cut("")),
        "no token" => {
            // Only the first objects of the list, as a page that is not the last.
            let end = text.find("<Contents><Key>x/map/").expect("it has a map");
            let head = text[..end].replace(">false<", ">true<");
            of(head + "</ListBucketResult>")
        }
        "without the map" => {
            let objects: Vec<&str> = text.split_inclusive("</Contents>").collect();
            let is_kept = |object: &&&str| {
                !object.contains("<Key>x/map/") && !object.contains("<Key>x/device")
            };
            of(objects.iter().filter(is_kept).copied().collect())
        }
        _ => panic!("{kind} of {}", root.display()),
    }
}

#[test]
fn a_list_that_fails_makes_no_device_new() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path().join("store");
    let model = worn(&root);
    let kinds = [
        ("whole", true),
        ("first page empty", true),
        ("503", false),
        ("500", false),
        ("403", false),
        ("404", false),
        ("broken", false),
        ("a page for people", false),
        ("empty", false),
        ("all pages empty", false),
        ("no token", false),
        ("without the map", false),
    ];
    for (kind, is_good) in kinds {
        let root = root.clone();
        let fake = FakeServer::new(move |asked| match asked.path.starts_with("/bucket?") {
            true => {
                let has_token = asked.path.contains("continuation-token=next");
                spoilt(&root, kind, list(&root, asked), has_token)
            }
            false => answer(&root, asked, "", Damage::Missing),
        });
        let mut name = BucketName::parse("bucket/x").expect("a name");
        name.endpoint = Some(format!("http://{}", fake.address));
        let options = Options {
            is_read_only: true,
            ..options()
        };
        match CloudDevice::open(store(&name), |_| Ok(None), options, &env()) {
            Ok(device) if is_good => {
                let found = device.read_vec(0, SIZE as usize).expect("readable");
                assert!(found == model, "{kind}: another state");
            }
            Ok(_) => panic!("{kind}: it was opened"),
            Err(error @ CloudError::NoDevice { .. }) => panic!("{kind}: {error}"),
            Err(error) => assert!(!is_good, "{kind}: {error}"),
        }
    }
}

/// What is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Lists fail.
    Lists(StoreError),
    /// Lists are empty.
    Empty,
    /// The copy of the identity cannot be read.
    Copy(StoreError),
}

/// A directory, and what is wrong with it.
#[derive(Debug)]
struct Faulty {
    inner: DirectoryStore,
    fault: Mutex<Fault>,
}

impl Faulty {
    fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            inner: DirectoryStore::new(root).expect("a directory"),
            fault: Mutex::new(Fault::None),
        })
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().expect("no panic") = fault;
    }
}

impl Store for Faulty {
    fn run(&self, requests: &[Request]) -> Vec<Result<Answer, StoreError>> {
        let fault = self.fault.lock().expect("no panic").clone();
        let answers = requests.iter().map(|request| match (&fault, request) {
            (Fault::Lists(error), Request::List { .. }) => Err(error.clone()),
            (Fault::Empty, Request::List { .. }) => Ok(Answer::List(Vec::new())),
            (Fault::Copy(error), Request::Get { key, .. }) if key == "device-copy" => {
                Err(error.clone())
            }
            _ => {
                let mut answers = self.inner.run(std::slice::from_ref(request));
                answers.pop().expect("an answer")
            }
        });
        answers.collect()
    }

    fn sent_bytes(&self) -> u64 {
        self.inner.sent_bytes()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

fn faults() -> [Fault; 5] {
    [
        Fault::Lists(StoreError::Transient("reset".into())),
        Fault::Lists(StoreError::Busy("503".into())),
        Fault::Lists(StoreError::Denied("403".into())),
        Fault::Lists(StoreError::Unclear("no list".into())),
        Fault::Empty,
    ]
}

fn open(store: &Arc<Faulty>) -> Result<Arc<CloudDevice>, CloudError> {
    let options = Options {
        is_forced: true,
        ..options()
    };
    CloudDevice::open(store.clone(), |_| Ok(None), options, &env())
}

/// The error of opening a device that must not be opened, because of `why`.
fn refused(store: &Arc<Faulty>, why: &str) -> CloudError {
    match open(store) {
        Ok(_) => panic!("opened, though {why}"),
        Err(error) => error,
    }
}

fn create(store: &Arc<Faulty>, is_forced: bool) -> Result<(), CloudError> {
    let options = Options {
        is_forced,
        ..options()
    };
    // Another identity than that of the device that was made before.
    let env: Arc<dyn Env> = Bounded::of(8);
    CloudDevice::create(store.clone(), SIZE, &options, &env).map(drop)
}

fn objects(root: &Path) -> Vec<PathBuf> {
    let mut found = walk(root);
    found.sort();
    found
}

#[test]
fn a_device_without_current_is_opened_once_its_list_is_whole() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path().join("store");
    let model = worn(&root);
    let before = objects(&root);
    let store = Faulty::new(&root);
    for fault in faults() {
        store.set(fault.clone());
        let error = refused(&store, "it is not new");
        assert!(
            matches!(error, CloudError::Store { .. }),
            "{fault:?}: {error}"
        );
        let error = create(&store, true).expect_err("there is one");
        assert!(
            matches!(error, CloudError::Exists { .. }),
            "{fault:?}: {error}"
        );
        assert_eq!(objects(&root), before, "{fault:?}");
    }
    store.set(Fault::None);
    let device = open(&store).expect("there");
    let found = device.read_vec(0, SIZE as usize).expect("readable");
    assert!(found == model);
}

/// New devices are opened, and those that have lost what leads to their state are not.
#[test]
fn only_an_empty_store_has_a_new_device() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path().join("new");
    let store = Faulty::new(&root);
    std::fs::write(root.join("README"), "nothing of ours").expect("room");
    create(&store, false).expect("an empty store");
    for fault in faults() {
        store.set(fault.clone());
        let error = refused(&store, "no list says that it is new");
        assert!(
            matches!(error, CloudError::Store { .. }),
            "{fault:?}: {error}"
        );
    }
    store.set(Fault::None);
    drop(open(&store).expect("new"));

    // The first commits, without what follows them; data without commits.
    for lost in ["current map", "current map commit"] {
        let root = home.path().join("worn");
        made(&root);
        for name in lost.split(' ') {
            let path = root.join(name);
            match path.is_dir() {
                true => std::fs::remove_dir_all(path).expect("there"),
                false => std::fs::remove_file(path).expect("there"),
            }
        }
        let third = root.join(format!("commit/{:020}", 3));
        if third.exists() {
            std::fs::remove_file(third).expect("there");
        }
        let before = objects(&root);
        let error = refused(&Faulty::new(&root), "older than what is there");
        assert!(
            matches!(error, CloudError::Missing { .. }),
            "{lost}: {error}"
        );
        assert_eq!(objects(&root), before);
        std::fs::remove_dir_all(&root).expect("removable");
    }
}

/// Regression: a device whose identity was lost was replaced by a new one, beside what was left of
/// it.
#[test]
fn what_is_left_of_a_device_is_not_overwritten() {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path().join("store");
    made(&root);
    std::fs::remove_file(root.join("device")).expect("there");
    let store = Faulty::new(&root);
    store.set(Fault::Copy(StoreError::Busy("503".into())));
    let error = refused(&store, "the copy may be there");
    assert!(matches!(error, CloudError::Store { .. }), "{error}");
    std::fs::remove_file(root.join("device-copy")).expect("there");
    let before = objects(&root);
    for fault in &faults()[..4] {
        store.set(fault.clone());
        let error = create(&store, false).expect_err("no list says that it is empty");
        assert!(
            matches!(error, CloudError::Store { .. }),
            "{fault:?}: {error}"
        );
    }
    store.set(Fault::None);
    let error = create(&store, false).expect_err("something is left");
    assert!(matches!(error, CloudError::Remains { .. }), "{error}");
    assert!(error.to_string().contains("-f"), "{error}");
    assert_eq!(objects(&root), before);
    // A list that lies lets a new identity be put; it does not make the device new.
    store.set(Fault::Empty);
    create(&store, false).expect("nothing is listed");
    refused(&store, "its own identity is not listed");
    store.set(Fault::None);
    refused(&store, "what is there is another device's");
    for name in ["device", "device-copy"] {
        std::fs::remove_file(root.join(name)).expect("there");
    }
    assert_eq!(objects(&root), before);

    create(&store, true).expect("by force");
    let device = open(&store).expect("new");
    let found = device.read_vec(0, SIZE as usize).expect("readable");
    assert!(found.iter().all(|byte| *byte == 0));
}
