//! Waiting for one of two things.

use std::pin::pin;
use std::task::{Context, Poll};

/// What `wanted` gives, or `None` if `end` is ready before.
pub(crate) async fn either<T, E>(
    wanted: impl Future<Output = T>,
    end: impl Future<Output = E>,
) -> Option<T> {
    let (mut wanted, mut end) = (pin!(wanted), pin!(end));
    std::future::poll_fn(|context: &mut Context<'_>| {
        if let Poll::Ready(found) = wanted.as_mut().poll(context) {
            return Poll::Ready(Some(found));
        }
        end.as_mut().poll(context).map(|_| None)
    })
    .await
}
