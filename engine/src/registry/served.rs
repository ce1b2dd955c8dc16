//! Volumes that clients have open.
//!
//! A client of a block device cannot be held back as a mount can: its next request goes to the
//! volume that it opened. So a volume with clients is not destroyed, renamed or given other
//! contents, unless whoever wants that disconnects them. This is the list of clients, with a way
//! to disconnect each.

use cenote_base::ObjectId;
use cenote_base::rt::{Condvar, Mutex, ranks};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long requests of clients that are disconnected may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Disconnects a client.
pub type HangUp = Arc<dyn Fn() + Send + Sync>;

/// A client.
#[derive(Clone)]
struct Client {
    /// What it has open.
    dataset: ObjectId,
    /// Whether it came in because of the property.
    is_by_property: bool,
    hang_up: HangUp,
}

#[derive(Default)]
struct Clients {
    next: u64,
    known: BTreeMap<u64, Client>,
}

/// The clients of a pool's volumes.
#[derive(Default)]
pub(crate) struct Served {
    clients: Mutex<Clients, ranks::ServedVolumes>,
    /// A client is gone.
    left: Condvar,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.clients.lock().known.len();
        f.debug_struct("Served").field("clients", &count).finish()
    }
}

impl Served {
    /// Notes a client; the number is for [`Self::remove`].
    pub fn add(&self, dataset: ObjectId, is_by_property: bool, hang_up: HangUp) -> u64 {
        let mut clients = self.clients.lock();
        let number = clients.next;
        clients.next += 1;
        let client = Client {
            dataset,
            is_by_property,
            hang_up,
        };
        clients.known.insert(number, client);
        number
    }

    /// A client is gone, and what it wrote is taken care of.
    pub fn remove(&self, number: u64) {
        let gone = self.clients.lock().known.remove(&number);
        drop(gone);
        self.left.notify_all();
    }

    /// What clients have open, each with whether it came in by the property.
    pub fn datasets(&self) -> Vec<(ObjectId, bool)> {
        let clients = self.clients.lock();
        let each = clients.known.values();
        each.map(|client| (client.dataset, client.is_by_property))
            .collect()
    }

    /// Disconnects the clients for which `is_meant` holds, and waits until they are gone; false if
    /// they do not go.
    pub fn hang_up(&self, is_meant: impl Fn(ObjectId, bool) -> bool) -> bool {
        let is_meant = |client: &Client| is_meant(client.dataset, client.is_by_property);
        let clients = self.clients.lock();
        let meant: Vec<Client> = clients
            .known
            .values()
            .filter(|client| is_meant(client))
            .cloned()
            .collect();
        drop(clients);
        for client in &meant {
            (client.hang_up)();
        }
        drop(meant);
        let is_there = |clients: &mut Clients| clients.known.values().any(&is_meant);
        let clients = self.clients.lock();
        let (_clients, are_there) = self.left.wait_timeout_while(clients, PATIENCE, is_there);
        !are_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn clients_are_disconnected_and_waited_for() {
        let served = Arc::new(Served::default());
        let calls = Arc::new(AtomicU64::new(0));
        let (own, count) = (Arc::clone(&served), Arc::clone(&calls));
        let first = served.add(
            ObjectId(1),
            true,
            Arc::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
                let own = Arc::clone(&own);
                rt::spawn("gone", move || own.remove(0)).expect("a thread");
            }),
        );
        assert_eq!(first, 0);
        served.add(ObjectId(2), false, Arc::new(|| panic!("it is not meant")));
        assert_eq!(served.datasets().len(), 2);
        assert!(served.hang_up(|id, is_by_property| id == ObjectId(1) && is_by_property));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(served.datasets(), [(ObjectId(2), false)]);
        assert!(served.hang_up(|id, _| id == ObjectId(1)), "nobody is there");
    }
}
