//! Opens devices for commands that read a pool themselves: paths, stores read-only, and exports of
//! NBD servers.

use cenote_cloud::location::SCHEMES;
use cenote_cloud::{OffsetOpener, Schemes, StoreOpener};
use cenote_device::Opener;
use cenote_nbd_client::NbdOpener;
use std::sync::Arc;

/// Opens files and disks from `offset` on, and devices in stores at their newest commits, which
/// does not disturb a writer.
pub fn opener(offset: u64) -> Arc<dyn Opener> {
    let stores: Arc<dyn Opener> = Arc::new(StoreOpener::new(false));
    let exports: Arc<dyn Opener> = Arc::new(NbdOpener::default());
    let schemes = Schemes::new(Arc::new(OffsetOpener::new(offset)));
    Arc::new(schemes.with(&SCHEMES, &stores).with_nbd(&exports))
}
