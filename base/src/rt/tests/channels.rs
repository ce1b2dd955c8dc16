//! Channels.

use super::everywhere;
use crate::rt::{
    RecvError, RecvTimeoutError, TryRecvError, TrySendError, channel, scope, sync_channel,
};
use std::time::Duration;

/// Longer than any machine is busy.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn values_arrive_in_order() {
    for capacity in [None, Some(0), Some(1), Some(3)] {
        everywhere(|| {
            let numbers = 0..10;
            let own = numbers.clone();
            let received: Vec<_> = scope(|scope| match capacity {
                None => {
                    let (sender, receiver) = channel();
                    scope.spawn(move || own.for_each(|number| sender.send(number).expect("taken")));
                    receiver.iter().collect()
                }
                Some(capacity) => {
                    let (sender, receiver) = sync_channel(capacity);
                    scope.spawn(move || own.for_each(|number| sender.send(number).expect("taken")));
                    receiver.into_iter().collect()
                }
            });
            assert_eq!(received, numbers.collect::<Vec<_>>());
        });
    }
}

#[test]
fn all_senders_are_heard() {
    everywhere(|| {
        let (sender, receiver) = sync_channel(1);
        let received = scope(|scope| {
            for number in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || sender.send(number).expect("taken"));
            }
            drop(sender);
            let mut received: Vec<_> = receiver.iter().collect();
            received.sort_unstable();
            received
        });
        assert_eq!(received, [0, 1, 2]);
    });
}

#[test]
fn the_end_of_the_other_side_is_seen() {
    everywhere(|| {
        let (sender, receiver) = channel();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let soon = Duration::from_micros(10);
        assert_eq!(receiver.recv_timeout(soon), Err(RecvTimeoutError::Timeout));
        sender.send(1).expect("a receiver");
        drop(sender);
        assert_eq!(receiver.recv_timeout(LONG), Ok(1));
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(
            receiver.recv_timeout(Duration::MAX),
            Err(RecvTimeoutError::Disconnected)
        );
        let (sender, receiver) = channel();
        drop(receiver);
        assert_eq!(sender.send(2).expect_err("no receiver").0, 2);
    });
}

#[test]
fn a_full_channel_takes_no_more() {
    everywhere(|| {
        let (sender, receiver) = sync_channel(1);
        sender.try_send(1).expect("room");
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        drop(receiver);
        assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
        // No receiver waits, so the value would not be taken.
        let (sender, receiver) = sync_channel(0);
        assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
        // A value that is never taken goes back to its sender.
        scope(|scope| {
            let sender = scope.spawn(move || sender.send(5));
            drop(receiver);
            let sent = sender.join().expect("no panic");
            assert_eq!(sent.expect_err("no receiver took it").0, 5);
        });
    });
}

/// A value whose destructor sends to the same channel must not find it locked.
#[test]
fn values_are_dropped_outside_of_the_lock() {
    struct Echo(crate::rt::Sender<Option<Echo>>);

    impl Drop for Echo {
        fn drop(&mut self) {
            let _ = self.0.send(None);
        }
    }

    everywhere(|| {
        let (sender, receiver) = channel();
        sender.send(Some(Echo(sender.clone()))).expect("a receiver");
        drop(receiver);
    });
}
