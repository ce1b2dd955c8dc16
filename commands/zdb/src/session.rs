//! The pool that a command line names, open read-only.

use crate::config::cached_devices;
use crate::line::{Asked, number};
use crate::problem::{Problem, failed};
use cenote_base::ObjectId;
use cenote_dsl::Dataset;
use cenote_own_commands::reading::options::PoolOptions;
use cenote_own_commands::reading::session::{Session, places};
use cenote_pool::Rewind;
use std::path::PathBuf;

/// An open pool, and the key that was given.
pub struct Target {
    /// The pool.
    pub session: Session,
    key: Option<Vec<u8>>,
}

/// The name of the pool that a dataset is in.
fn pool_of(name: &str) -> &str {
    &name[..name.find(['/', '@']).unwrap_or(name.len())]
}

impl Target {
    /// Opens the pool of `name`.
    ///
    /// # Errors
    /// It is not imported and not to be searched for, or cannot be opened.
    pub fn open(asked: &Asked, name: &str) -> Result<Self, Problem> {
        let pool = pool_of(name);
        let options = options(asked, pool)?;
        let session = Session::open(&options, pool);
        let session = session
            .map_err(|failure| Problem::Failed(format!("can't open '{name}': {failure}")))?;
        let key = asked.last("K").map(|key| key.as_encoded_bytes().to_vec());
        Ok(Self { session, key })
    }

    /// The dataset of this name, or of this number after the pool's name.
    ///
    /// # Errors
    /// There is none.
    pub fn dataset(&self, name: &str) -> Result<Dataset, Problem> {
        // `POOL/` is the pool's own dataset, in distinction from the pool.
        let name = name.strip_suffix('/').unwrap_or(name);
        let named = self.session.dataset(name);
        let dataset = match (
            named,
            name.split_once('/').and_then(|(_, rest)| number(rest)),
        ) {
            (Ok(dataset), _) => dataset,
            (Err(_), Some(id)) => {
                let found = self.session.pool().dsl().dataset_of(ObjectId(id));
                found.map_err(failed(format!("can't open '{name}'")))?
            }
            (Err(failure), None) => {
                return Err(Problem::Failed(format!("can't open '{name}': {failure}")));
            }
        };
        self.unlock(&dataset)?;
        Ok(dataset)
    }

    /// Loads the key for a dataset, if one was given.
    fn unlock(&self, dataset: &Dataset) -> Result<(), Problem> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let dsl = self.session.pool().dsl();
        let name = || dataset.name().as_str().to_owned();
        let root = dsl.encryption_root(dataset.directory());
        let Some(root) = root.map_err(failed(name()))? else {
            return Err(Problem::Failed(format!("-K: {} is not encrypted", name())));
        };
        match dsl.keys().is_loaded(root.id()) {
            true => Ok(()),
            false => dsl.load_key(&root, key, false).map_err(failed(name())),
        }
    }
}

fn options(asked: &Asked, pool: &str) -> Result<PoolOptions, Problem> {
    let mut options = PoolOptions {
        devices: asked.all("p").into_iter().map(PathBuf::from).collect(),
        txg: asked.number("t")?,
        checkpoint: asked.has("k"),
        rewind: match (asked.has("X"), asked.has("F")) {
            (true, _) => Rewind::Extreme,
            (false, true) => Rewind::Recent,
            (false, false) => Rewind::Never,
        },
        ..PoolOptions::default()
    };
    let is_exported = asked.has("e");
    if !is_exported && !options.devices.is_empty() {
        return Err(Problem::Usage("-p goes with -e".to_owned()));
    }
    if is_exported && asked.has("U") {
        return Err(Problem::Usage("-e and -U exclude each other".to_owned()));
    }
    if asked.has("U") {
        options.devices = cached_devices(asked, pool)?;
    } else if !is_exported && !places(&options).1 {
        let opened = cenote_connect::opened(pool);
        let opened = opened.map_err(failed(format!("can't open '{pool}'")))?;
        if opened.is_none() {
            let problem = format!(
                "can't open '{pool}': it is not imported. -e searches for its devices, \
                 -e -p DIRECTORY there"
            );
            return Err(Problem::Failed(problem));
        }
    }
    Ok(options)
}
