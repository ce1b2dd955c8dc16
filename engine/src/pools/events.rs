//! `zpool events`: what happened to pools, sent to the client.

use crate::context::Context;
use cenote_control::model::{ControlError, Part, Response};
use cenote_control::protocol::Reply;

/// Sends the events of all pools or one, and with `follow` new ones until the client disconnects.
pub(crate) fn events(
    context: &Context,
    pool: Option<&str>,
    follow: bool,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    if let Some(pool) = pool {
        context.registry.pool(pool)?;
    }
    let (mut from, mut waits) = (0, false);
    loop {
        let (events, next) = context.events.since(from, pool, waits);
        (from, waits) = (next, follow);
        if !events.is_empty() {
            reply.part(Part::Events(events))?;
        }
        if !follow || reply.cancelled() {
            return Ok(Response::Done);
        }
    }
}

/// Forgets all events.
pub(crate) fn clear(context: &Context) -> Response {
    let events = context.events.clear();
    Response::Cleared { events }
}
