//! What a promotion does to keys (format/2d 10): an encryption root that loses its snapshots to a
//! clone hands its office over, too.
//!
//! The keys themselves stay as they are, wrapped by the same user's key: that they name another
//! root is not authenticated, so no key need be loaded.

use crate::error::DslError;
use crate::property::stored::{Stored, StoredProperties};
use crate::write::context::SyncContext;
use crate::write::datasets::promote::Promotion;
use crate::write::properties::Setting;
use cenote_ondisk::crypto_key::entries;

const KEY_LOCATION: &str = "keylocation";
/// The `keylocation` of an encryption root if none was set locally.
const PROMPT: &str = "prompt";
const OUTSIDE: &str = "cannot promote dataset outside its encryption root\n\
                       move it next to its origin first";
const BELOW_ORIGIN: &str = "an encrypted clone that has its key by way of its origin cannot be \
                            promoted\nmove it next to its origin first";

impl SyncContext<'_> {
    /// Refuses to promote what could not have its key from its encryption root any more.
    pub(crate) fn check_promoted_keys(&self, promotion: &Promotion) -> Result<(), DslError> {
        let clone = promotion.clone.directory();
        let origin = promotion.origin_head.directory();
        let Some(key) = clone.crypto_key()?.filter(|key| key.root() != origin.id()) else {
            return Ok(());
        };
        // It becomes a clone of what its origin is a clone of, and has its key from there.
        if origin.origin().is_some() {
            return Ok(());
        }
        let refused = |problem| {
            let name = clone.name().clone();
            Err(DslError::LeavesEncryptionRoot { name, problem })
        };
        // It is no clone any more, and its origin becomes one of its.
        let parent = clone.parent().expect("the pool's root is no clone");
        let above = parent.crypto_key()?;
        if above.is_none_or(|above| above.root() != key.root()) {
            return refused(OUTSIDE);
        }
        match self.has_key_from(parent, key.root(), origin.id())? {
            true => Ok(()),
            false => refused(BELOW_ORIGIN),
        }
    }

    /// Makes a promoted clone the encryption root, if its origin was it.
    pub(crate) fn promote_keys(&self, promotion: &Promotion) -> Result<(), DslError> {
        let (clone, origin) = (
            promotion.clone.directory(),
            promotion.origin_head.directory(),
        );
        let (to, from) = (clone.id(), origin.id());
        let key = clone.crypto_key()?;
        if key.is_none_or(|key| key.root() != from) {
            return Ok(());
        }
        for heir in self.keyed_by(from)? {
            if let Some(key) = heir.crypto_key()? {
                self.set_number(key.object, entries::ROOT.as_bytes(), to.0)?;
            }
        }
        let stored = self.mos().zap(origin.phys().properties)?;
        let stored = StoredProperties::load(&stored)?;
        let mut setting = Setting {
            name: KEY_LOCATION.to_owned(),
            value: match stored.get(KEY_LOCATION) {
                Some(location) => Some(location.clone()),
                // A received location was not chosen on this machine, so it is not used.
                None => Some(Stored::Text(PROMPT.to_owned())),
            },
        };
        self.apply_settings(to, std::slice::from_ref(&setting))?;
        setting.value = None;
        self.apply_settings(from, &[setting])?;
        self.dsl.keys().move_root(from, to);
        Ok(())
    }
}
