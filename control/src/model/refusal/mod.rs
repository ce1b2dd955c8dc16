//! Refusals by subject: devices, pools, stores, streams and keys.
//!
//! The engine names a case and its data. The words are here, in one file for each subject: a daemon
//! also sends them, for clients that do not know the case ([`super::ControlError`]).

mod device;
mod http;
mod inject;
mod key;
mod nbd;
mod pool;
mod store;
mod stream;
mod ublk;

pub use device::DeviceRefusal;
pub use http::HttpRefusal;
pub use inject::InjectRefusal;
pub use key::KeyRefusal;
pub use nbd::NbdRefusal;
pub use pool::PoolRefusal;
pub use store::StoreRefusal;
pub use stream::{StreamAct, StreamFault, StreamRefusal};
pub use ublk::UblkRefusal;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why something is refused, by what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A device.
    #[error("{0}")]
    Device(DeviceRefusal),
    /// A pool as a whole.
    #[error("{0}")]
    Pool(PoolRefusal),
    /// An object store, or a device in one.
    #[error("{0}")]
    Store(StoreRefusal),
    /// A stream.
    #[error("{act}: {why}")]
    Stream {
        /// What cannot be done.
        act: StreamAct,
        /// Why.
        why: StreamRefusal,
    },
    /// Volumes served as network block devices.
    #[error("{0}")]
    Nbd(NbdRefusal),
    /// Volumes as disks of this machine.
    #[error("{0}")]
    Ublk(UblkRefusal),
    /// Sites served over HTTP.
    #[error("{0}")]
    Http(HttpRefusal),
    /// A fault that is injected.
    #[error("{0}")]
    Inject(InjectRefusal),
    /// A property of a new key.
    #[error("{0}")]
    Key(KeyRefusal),
    /// The file that says how alarms are sent.
    #[error("{reason}")]
    Alarms {
        /// What is wrong with it, and where.
        reason: String,
    },
}

impl Refusal {
    /// The property that is to blame, or "".
    pub fn property(&self) -> &str {
        match self {
            Self::Key(refusal) => refusal.property(),
            _ => "",
        }
    }
}

impl From<DeviceRefusal> for Refusal {
    fn from(refusal: DeviceRefusal) -> Self {
        Self::Device(refusal)
    }
}

impl From<PoolRefusal> for Refusal {
    fn from(refusal: PoolRefusal) -> Self {
        Self::Pool(refusal)
    }
}

impl From<StoreRefusal> for Refusal {
    fn from(refusal: StoreRefusal) -> Self {
        Self::Store(refusal)
    }
}

impl From<NbdRefusal> for Refusal {
    fn from(refusal: NbdRefusal) -> Self {
        Self::Nbd(refusal)
    }
}

impl From<UblkRefusal> for Refusal {
    fn from(refusal: UblkRefusal) -> Self {
        Self::Ublk(refusal)
    }
}

impl From<HttpRefusal> for Refusal {
    fn from(refusal: HttpRefusal) -> Self {
        Self::Http(refusal)
    }
}

impl From<InjectRefusal> for Refusal {
    fn from(refusal: InjectRefusal) -> Self {
        Self::Inject(refusal)
    }
}

impl From<KeyRefusal> for Refusal {
    fn from(refusal: KeyRefusal) -> Self {
        Self::Key(refusal)
    }
}
