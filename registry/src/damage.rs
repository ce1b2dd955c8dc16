//! Passes damage that reads find to the pool's error log.

use cenote_base::Bookmark;
use cenote_dataset::{DamageSink, place_of};
use cenote_dsl::ErrorEntry;
use cenote_pool::{ErrorNotes, Pool};
use cenote_posix::PosixError;
use cenote_volume::VolumeError;
use std::error::Error;
use std::sync::Arc;

/// Takes the damage reports of readers of one pool.
#[derive(Debug)]
pub struct DamageLog(Arc<ErrorNotes>);

impl DamageLog {
    /// The damage log of a pool.
    pub fn of(pool: &Pool) -> Arc<Self> {
        Arc::new(Self(Arc::clone(pool.error_notes())))
    }

    /// Notes the error of a read, if it is damage with a known place.
    pub fn report(&self, error: &PosixError) {
        if error.is_damage() {
            self.note(error.place());
        }
    }

    /// The same for a read of a volume.
    pub fn report_volume(&self, error: &VolumeError) {
        if let VolumeError::Dmu(error) = error
            && error.is_damage()
        {
            log::error!("{error}");
            self.note(place_of(error));
        }
    }

    fn note(&self, place: Option<Bookmark>) {
        if let Some(place) = place {
            self.0.note(ErrorEntry {
                objset: place.objset,
                object: place.object,
                level: i64::from(place.level.0),
                block: place.block.0,
                birth: None,
            });
        }
    }
}

impl DamageSink for DamageLog {
    fn report(&self, error: &dyn Error, place: Option<Bookmark>) {
        log::error!("{error}");
        self.note(place);
    }
}
