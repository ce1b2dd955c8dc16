//! Users' keys changed: a new one, or the parent's.

use crate::command::{By, run};
use crate::errors::{of_dsl, parse_name};
use crate::registry::key_words::{KEY_LOCATION, KeyWords, bad};
use crate::registry::table::Registry;
use crate::values::{purpose_of, setting};
use cenote_base::Env;
use cenote_control::model::{ControlError, Pair, Response, Secret};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::write::{ChangeKey, UserKey};
use cenote_dsl::{Dataset, Stored};

pub(crate) fn change_key(
    registry: &Registry,
    env: &dyn Env,
    dataset: &str,
    properties: &[Pair],
    secret: Option<&Secret>,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(dataset)?;
    let (imported, found) = registry.dataset(&name)?;
    let key = match secret {
        Some(_) => Some(new_key(env, &found, properties, secret)?),
        None => None,
    };
    run(&imported, ChangeKey::new(name, key), by)?;
    Ok(Response::Done)
}

/// The new key of an encrypted dataset. What is not said stays if it is an encryption root.
fn new_key(
    env: &dyn Env,
    dataset: &Dataset,
    properties: &[Pair],
    secret: Option<&Secret>,
) -> Result<UserKey, ControlError> {
    let purpose = Purpose {
        at_creation: true,
        ..purpose_of(dataset)?
    };
    let settings = properties.iter().map(|pair| setting(pair, purpose));
    let mut settings = settings.collect::<Result<Vec<_>, _>>()?;
    let mut words = KeyWords::take(&mut settings);
    if let Some(other) = settings.first() {
        let reason = "Only keyformat, keylocation and pbkdf2iters may be set with this command.";
        return Err(bad(&other.name, reason));
    }
    let directory = dataset.directory();
    let stored = directory.crypto_key().map_err(of_dsl)?;
    let stored = stored.ok_or_else(|| bad("encryption", "Dataset not encrypted."))?;
    if stored.root() == directory.id() {
        words.format = words.format.or(Some(stored.stored.key_format));
        let location = directory.properties().map_err(of_dsl)?.get(KEY_LOCATION);
        if let (None, Some(Stored::Text(location))) = (&words.location, location) {
            words.location = Some(location.clone());
        }
    }
    words.key(dataset.name(), secret, env)
}
