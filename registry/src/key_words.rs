//! Encryption of new datasets, and what the words about keys come to.
//!
//! A key format makes a dataset an encryption root, with a key of its own; without one it gets its
//! parent's. The words are OpenZFS's (cli/contract-zfs 8).

use crate::errors::of_dsl;
use crate::values::take_number;
use cenote_base::Env;
use cenote_control::model::{ControlError, KeyRefusal, Secret};
use cenote_dsl::write::{Encryption, NewKeyFormat, Setting, UserKey};
use cenote_dsl::{Dataset, DatasetName, Directory, Stored};
use cenote_ondisk::crypto_key::{EncryptionSuite, KeyFormat};

/// The value `off` of the property `encryption`.
const ENCRYPTION_OFF: u64 = 2;
/// The default number of PBKDF2 iterations for a passphrase, and the minimum.
const ITERATIONS: u64 = 350_000;
const ITERATIONS_MIN: u64 = 100_000;
/// The property that says where a key comes from.
pub const KEY_LOCATION: &str = "keylocation";
const NO_LOCATION: &str = "none";
const PROMPT: &str = "prompt";

/// The refusal of a property's value.
pub fn bad(name: &str, reason: impl Into<String>) -> ControlError {
    ControlError::BadValue {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// The user's key for a new dataset or pool.
#[derive(Clone, Copy)]
pub enum KeyGiven<'a> {
    /// The key that came with the command, if there was one.
    Now(Option<&'a Secret>),
    /// Only a plan is wanted, before the command asks the user for the key.
    Later,
}

/// What the properties of a key say.
#[derive(Debug, Default)]
pub struct KeyWords {
    /// `keyformat`, unless it is `none`.
    pub format: Option<KeyFormat>,
    /// `keylocation`, unless it is `none`.
    pub location: Option<String>,
    iterations: Option<u64>,
}

impl KeyWords {
    /// Takes them out of the settings: they are stored with the keys.
    pub fn take(settings: &mut Vec<Setting>) -> Self {
        let format = take_number(settings, "keyformat").and_then(KeyFormat::from_number);
        let at = settings.iter().position(|s| s.name == KEY_LOCATION);
        let location = at.and_then(|at| match settings.remove(at).value {
            Some(Stored::Text(text)) if text != NO_LOCATION => Some(text),
            _ => None,
        });
        Self {
            format: format.filter(|format| *format != KeyFormat::None),
            location,
            iterations: take_number(settings, "pbkdf2iters"),
        }
    }

    fn is_empty(&self) -> bool {
        self.format.is_none() && self.location.is_none() && self.iterations.is_none()
    }

    /// The key that they and what the user gave come to.
    pub fn key(
        &self,
        name: &DatasetName,
        secret: Option<&Secret>,
        env: &dyn Env,
    ) -> Result<UserKey, ControlError> {
        let format = self.checked()?;
        let secret = secret.ok_or_else(|| ControlError::KeyMalformed {
            dataset: name.as_str().to_owned(),
            reason: "A key is required.".to_owned(),
        })?;
        let location = self.location();
        UserKey::derive(name, secret.expose(), format, location, env).map_err(of_dsl)
    }

    fn location(&self) -> &str {
        self.location.as_deref().unwrap_or(PROMPT)
    }

    /// The key's form, if they fit together.
    fn checked(&self) -> Result<NewKeyFormat, ControlError> {
        let format = match self.format {
            Some(KeyFormat::Raw) => NewKeyFormat::Raw,
            Some(KeyFormat::Hex) => NewKeyFormat::Hex,
            Some(KeyFormat::Passphrase) => NewKeyFormat::Passphrase {
                iterations: self.iterations.unwrap_or(ITERATIONS),
            },
            Some(KeyFormat::None) | None => return Err(KeyRefusal::NoFormat.into()),
        };
        match self.iterations {
            Some(_) if self.format != Some(KeyFormat::Passphrase) => {
                return Err(KeyRefusal::NotIterated.into());
            }
            Some(..ITERATIONS_MIN) => {
                let minimum = ITERATIONS_MIN;
                return Err(KeyRefusal::TooFewIterations { minimum }.into());
            }
            _ => {}
        }
        match is_place_of_key(self.location()) {
            true => Ok(format),
            false => Err(KeyRefusal::BadLocation.into()),
        }
    }
}

/// Whether keys can be kept there.
pub fn is_place_of_key(text: &str) -> bool {
    let schemes = ["file:///", "http://", "https://"];
    text == PROMPT || schemes.iter().any(|scheme| text.starts_with(scheme))
}

/// Whether a new dataset is encrypted, and how; these properties are taken out of its settings. A
/// key that is given later is missing from the answer.
pub fn new_encryption(
    name: &DatasetName,
    parent: Option<&Directory>,
    settings: &mut Vec<Setting>,
    key: KeyGiven<'_>,
    env: &dyn Env,
) -> Result<Encryption, ControlError> {
    let wanted = take_number(settings, "encryption");
    let words = KeyWords::take(settings);
    let is_below_encrypted = match parent {
        Some(parent) => parent.crypto_key().map_err(of_dsl)?.is_some(),
        None => false,
    };
    let is_off = match wanted {
        Some(number) => number == ENCRYPTION_OFF,
        None => !is_below_encrypted,
    };
    if is_off {
        return match (words.is_empty(), wanted) {
            (false, _) => {
                let reason = "Encryption must be turned on to set encryption properties.";
                Err(bad("encryption", reason))
            }
            (true, Some(_)) => Ok(Encryption::Off),
            (true, None) => Ok(Encryption::Inherit),
        };
    }
    let suite = wanted.and_then(EncryptionSuite::from_number);
    if words.is_empty() && is_below_encrypted {
        return Ok(Encryption::On { suite, key: None });
    }
    let key = match key {
        KeyGiven::Now(secret) => Some(words.key(name, secret, env)?),
        KeyGiven::Later => {
            words.checked()?;
            None
        }
    };
    Ok(Encryption::On { suite, key })
}

/// Refuses to take the place of its key away from an encryption root, which came with no other.
pub fn check_location_stays(dataset: &Dataset, property: &str) -> Result<(), ControlError> {
    if property != KEY_LOCATION {
        return Ok(());
    }
    let directory = dataset.directory();
    let key = directory.crypto_key().map_err(of_dsl)?;
    let is_root = key.is_some_and(|key| key.root() == directory.id());
    let own = directory.properties().map_err(of_dsl)?;
    let is_received = own.all_received().any(|(name, _)| name == KEY_LOCATION);
    match is_root && !is_received {
        true => Err(bad(
            KEY_LOCATION,
            "keylocation must not be 'none' for encrypted datasets",
        )),
        false => Ok(()),
    }
}

/// Refuses a place for the key of a dataset that has no key of its own.
pub fn check_location(dataset: &Dataset, settings: &[Setting]) -> Result<(), ControlError> {
    let place = settings.iter().find(|s| s.name == KEY_LOCATION);
    let Some(Stored::Text(place)) = place.and_then(|setting| setting.value.as_ref()) else {
        return Ok(());
    };
    let directory = dataset.directory();
    let reason = match directory.crypto_key().map_err(of_dsl)? {
        _ if place != NO_LOCATION && !is_place_of_key(place) => "invalid keylocation",
        None if place != NO_LOCATION => "keylocation must be 'none' for unencrypted datasets",
        None => return Ok(()),
        Some(_) if place == NO_LOCATION => "keylocation must not be 'none' for encrypted datasets",
        Some(key) if key.root() != directory.id() => {
            "keylocation may only be set on encryption roots"
        }
        Some(_) => return Ok(()),
    };
    Err(bad(KEY_LOCATION, reason))
}
