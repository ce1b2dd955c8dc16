//! The arguments of a subcommand.

use crate::reading::failure::Failure;
use crate::reading::options::PoolOptions;
use crate::reading::session::Session;
use crate::reading::spec::Spec;
use cenote_dmu::ObjectSet;
use std::ffi::OsString;
use std::sync::Arc;

/// The command's name.
pub const NAME: &str = "inspect";

/// The arguments of a subcommand.
#[derive(Debug, Default)]
pub struct Arguments {
    pub pool: PoolOptions,
    /// Show the pool's own objects (MOS) instead of a dataset's.
    pub mos: bool,
    /// Print every entry, not only sums.
    pub entries: bool,
    /// Raw bytes.
    pub raw: bool,
    pub operands: Vec<OsString>,
}

impl Arguments {
    /// The first operand: a dataset, or a file in one.
    pub fn spec(&self) -> Result<Spec, Failure> {
        match self.operands.first() {
            Some(text) => Spec::parse(text),
            None => Err(wrong("give a pool or dataset")),
        }
    }

    /// Operand `index` as a number.
    pub fn number(&self, index: usize, what: &str) -> Result<u64, Failure> {
        let text = self.operands.get(index).and_then(|text| text.to_str());
        let text = text.ok_or_else(|| wrong(format!("give {what}")))?;
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| wrong(format!("'{text}' is not {what}")))
    }

    pub fn open(&self, spec: &Spec) -> Result<Session, Failure> {
        Session::open(&self.pool, spec.pool())
    }

    /// The objects of the dataset in `spec`, or the pool's own.
    pub fn object_set(&self, session: &Session, spec: &Spec) -> Result<Arc<ObjectSet>, Failure> {
        match self.mos {
            true => Ok(Arc::clone(session.pool().mos())),
            false => session.object_set(&session.dataset(&spec.dataset)?),
        }
    }
}

pub(super) fn wrong(problem: impl Into<String>) -> Failure {
    Failure::Usage {
        command: NAME,
        problem: problem.into(),
    }
}
