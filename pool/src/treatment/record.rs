//! How far the treatment of a leaf is, as its ZAP keeps it (format/1c.8).

use cenote_base::ObjectId;
use cenote_dmu::ObjectSet;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::vdev_zap;
use std::sync::Arc;

/// What is done to the free space of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreatmentKind {
    /// The device discards its free space.
    Trim,
    /// It is written all over once.
    Initialize,
}

/// How far a treatment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TreatmentState {
    /// There never was one, or it was taken back.
    #[default]
    None,
    /// Active: an import resumes it.
    Active,
    /// Given up.
    Canceled,
    /// Waits to be started again where it was.
    Suspended,
    /// All free space was treated.
    Complete,
}

impl TreatmentState {
    const ALL: [Self; 5] = [
        Self::None,
        Self::Active,
        Self::Canceled,
        Self::Suspended,
        Self::Complete,
    ];

    fn of_number(number: u64) -> Self {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        Self::ALL.get(index).copied().unwrap_or_default()
    }
}

/// A treatment of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub state: TreatmentState,
    /// Bytes of the leaf's allocatable area that are done with.
    pub offset: u64,
    /// When the state was last changed by a command or ended, in seconds.
    pub time: u64,
    /// Bytes a second; 0 for no limit.
    pub rate: u64,
    /// What an initialization fills the space with; `None` for what the setting says.
    pub word: Option<u64>,
}

/// The names of the entries: offset, state, time, and where there is one the rate.
fn keys(kind: TreatmentKind) -> [Option<&'static str>; 4] {
    match kind {
        TreatmentKind::Trim => [
            Some(vdev_zap::leaf::TRIM_OFFSET),
            Some(vdev_zap::leaf::TRIM_STATE),
            Some(vdev_zap::leaf::TRIM_TIME),
            Some(vdev_zap::leaf::TRIM_RATE),
        ],
        TreatmentKind::Initialize => [
            Some(vdev_zap::leaf::INITIALIZE_OFFSET),
            Some(vdev_zap::leaf::INITIALIZE_STATE),
            Some(vdev_zap::leaf::INITIALIZE_TIME),
            None,
        ],
    }
}

/// Entries of a trim that say how it is done: of all space, and not securely.
const TRIM_MODES: [&str; 2] = [
    vdev_zap::leaf::TRIM_IS_PARTIAL,
    vdev_zap::leaf::TRIM_IS_SECURE,
];

impl Record {
    /// What a leaf's ZAP says; a ZAP that cannot be read says nothing.
    pub fn read(mos: &Arc<ObjectSet>, zap: ObjectId, kind: TreatmentKind) -> Option<Self> {
        let zap = mos.zap(zap).ok()?;
        let found = |key: &str| zap.lookup_u64(key).ok().flatten();
        let number = |key: Option<&str>| key.and_then(found).unwrap_or(0);
        let [offset, state, time, rate] = keys(kind).map(number);
        let word = match kind {
            TreatmentKind::Trim => None,
            TreatmentKind::Initialize => found(vdev_zap::leaf::INITIALIZE_VALUE),
        };
        let state = TreatmentState::of_number(state);
        let record = Self {
            state,
            offset,
            time,
            rate,
            word,
        };
        (state != TreatmentState::None).then_some(record)
    }

    /// Stores a record; one without a state is taken away.
    pub fn store(
        &self,
        context: &SyncContext<'_>,
        zap: ObjectId,
        kind: TreatmentKind,
    ) -> Result<(), DslError> {
        let zap = context.mos().zap(zap)?;
        let values = [self.offset, self.state as u64, self.time, self.rate];
        let mut entries: Vec<(&str, u64)> = Vec::new();
        for (key, value) in keys(kind).into_iter().zip(values) {
            entries.extend(key.map(|key| (key, value)));
        }
        if kind == TreatmentKind::Trim {
            entries.extend(TRIM_MODES.map(|key| (key, 0)));
        }
        let word = vdev_zap::leaf::INITIALIZE_VALUE;
        match self.word {
            Some(value) => entries.push((word, value)),
            None if kind == TreatmentKind::Initialize && zap.lookup_u64(word)?.is_some() => {
                zap.remove(context.tx, word.as_bytes())?;
            }
            None => {}
        }
        for (key, value) in entries {
            if self.state != TreatmentState::None {
                zap.update(context.tx, key, &ZapValue::from_u64(value))?;
            } else if zap.lookup_u64(key)?.is_some() {
                zap.remove(context.tx, key.as_bytes())?;
            }
        }
        Ok(())
    }
}
