//! Keys of encrypted datasets: from files, standard input or the terminal.
//!
//! A key is loaded when a dataset below its encryption root is first opened. Deriving a key from a
//! passphrase takes a large part of a second.

use super::failure::Failure;
use super::options::KeyOption;
use cenote_control::model::LoadedKey;
use cenote_dsl::{Dataset, DatasetName, Directory, Dsl, DslError};
use cenote_words::{key_file, secrecy};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Maximum size of key material: a passphrase has at most 512 bytes.
const MATERIAL_MAX: u64 = 4096;

/// The keys given on the command line.
#[derive(Debug, Default)]
pub struct Keys {
    given: Vec<KeyOption>,
}

impl Keys {
    /// The keys from `--key` options.
    pub fn new(given: Vec<KeyOption>) -> Self {
        Self { given }
    }

    /// Whether any were given.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Loads a key that the daemon has.
    pub fn load(&self, dsl: &Arc<Dsl>, key: &LoadedKey) -> Result<(), Failure> {
        let failed = |source| Failure::Dataset {
            dataset: key.root.clone(),
            source: Box::new(source),
        };
        let name = DatasetName::parse(&key.root).map_err(|source| {
            let text = key.root.clone();
            failed(DslError::BadName { text, source })
        })?;
        let root = dsl.dataset(&name).map_err(failed)?;
        let wrapping = key.wrapping_key.expose();
        let loaded = dsl.load_wrapping_key(root.directory(), wrapping);
        loaded.map_err(failed)
    }

    /// Loads the key that `dataset` needs, unless it needs none or it is loaded already. Without a
    /// given key it asks the user, if there is a terminal.
    pub fn unlock(&self, dataset: &Dataset) -> Result<(), Failure> {
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        self.unlock_by(dataset, asks)
    }

    /// Loads the key that `dataset` needs, if one was given.
    pub fn unlock_given(&self, dataset: &Dataset) -> Result<(), Failure> {
        self.unlock_by(dataset, false)
    }

    fn unlock_by(&self, dataset: &Dataset, asks: bool) -> Result<(), Failure> {
        let Some(root) = locked_root(dataset)? else {
            return Ok(());
        };
        let root_name = root.name().as_str();
        let named = |key: &&KeyOption| key.dataset.as_deref() == Some(root_name);
        let unnamed = |key: &&KeyOption| key.dataset.is_none();
        let given = self.given.iter();
        let key = given.clone().find(named);
        let key = key.or_else(|| given.clone().find(unnamed));
        let location = match key {
            Some(key) => key.location.as_str(),
            None if asks => "prompt",
            None => return Ok(()),
        };
        let material = read_material(root_name, location)?;
        load(&root, &material).map_err(|source| failed(dataset, source))
    }

    /// Refuses an encrypted dataset whose key is not loaded.
    pub fn require(&self, dataset: &Dataset) -> Result<(), Failure> {
        match locked_root(dataset)? {
            Some(root) => Err(Failure::KeyNeeded {
                dataset: dataset.name().as_str().to_owned(),
                root: root.name().as_str().to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// An error about a dataset.
fn failed(dataset: &Dataset, source: DslError) -> Failure {
    Failure::Dataset {
        dataset: dataset.name().as_str().to_owned(),
        source: Box::new(source),
    }
}

/// The encryption root of a dataset, if its key is not loaded.
fn locked_root(dataset: &Dataset) -> Result<Option<Arc<Directory>>, Failure> {
    let dsl = dataset.dsl();
    let root = dsl.encryption_root(dataset.directory());
    let root = root.map_err(|source| failed(dataset, source))?;
    Ok(root.filter(|root| !dsl.keys().is_loaded(root.id())))
}

fn load(root: &Arc<Directory>, material: &[u8]) -> Result<(), DslError> {
    root.dsl().load_key(root, material, false)
}

/// Reads key material. The key format handles a newline after text keys.
fn read_material(dataset: &str, location: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |source| Failure::KeyFile {
        dataset: dataset.to_owned(),
        location: location.to_owned(),
        source,
    };
    secrecy::keep_out_of_dumps();
    let path = match location {
        "-" => {
            let mut material = Zeroizing::new(Vec::with_capacity(MATERIAL_MAX as usize));
            let input = std::io::stdin().lock();
            input
                .take(MATERIAL_MAX)
                .read_to_end(&mut material)
                .map_err(failed)?;
            return Ok(material);
        }
        "prompt" => return prompt(dataset).map_err(failed),
        location => location.strip_prefix("file://").unwrap_or(location),
    };
    key_file::read(Path::new(path), MATERIAL_MAX as usize).map_err(failed)
}

/// Asks on the terminal, without echo; without a terminal it reads a line.
fn prompt(dataset: &str) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let stdin = std::io::stdin();
    match stdin.is_terminal() {
        true => cenote_words::prompt::ask(
            &format!("Enter key for '{dataset}': "),
            MATERIAL_MAX as usize,
        ),
        false => read_line(&stdin),
    }
}

/// Reads a line byte by byte, so that the input after it is left for the next key.
fn read_line(stdin: &std::io::Stdin) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(MATERIAL_MAX as usize));
    let mut input = stdin.lock();
    let mut byte = [0];
    while (line.len() as u64) < MATERIAL_MAX && input.read(&mut byte)? == 1 {
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Ok(line)
}
