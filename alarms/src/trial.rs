//! One alarm by every way, to try whether they lead anywhere.

use crate::alarm::{Alarm, AlarmKind, AlarmSeverity};
use crate::way::{AlarmPlan, AlarmWay, AlarmWayPlan};
use cenote_base::{Env, hostname, rt};
use cenote_control::model::{AlarmOutcome, AlarmWayState, Event};
use std::sync::Arc;

/// A way by which nothing was sent yet.
pub(crate) fn unused(way: &AlarmWayPlan) -> AlarmWayState {
    AlarmWayState {
        name: way.name.clone(),
        kind: way.kind.to_owned(),
        target: way.target.clone(),
        sent: 0,
        failed: 0,
        dropped: 0,
        waiting: 0,
        last_error: None,
        outcome: None,
    }
}

/// Sends a test alarm by all ways at once, and stores the outcome in each way's state.
pub fn try_all(ways: &mut [AlarmWayState], senders: &[Arc<dyn AlarmWay>], env: &dyn Env) {
    let alarm = test_alarm(&hostname(), env);
    rt::scope(|scope| {
        for (way, sender) in ways.iter_mut().zip(senders) {
            let alarm = &alarm;
            scope.spawn(move || {
                way.outcome = Some(match sender.send(alarm) {
                    Ok(()) => AlarmOutcome::Sent,
                    Err(error) => AlarmOutcome::Failed {
                        reason: error.to_string(),
                    },
                });
            });
        }
    });
}

/// The ways of a plan, for commands without a daemon; with an environment they are tested.
pub fn alarm_ways(plan: &AlarmPlan, tried: Option<&dyn Env>) -> Vec<AlarmWayState> {
    let mut ways: Vec<AlarmWayState> = plan.ways.iter().map(unused).collect();
    if let Some(env) = tried {
        let senders = plan.ways.iter().map(|way| Arc::clone(&way.way));
        try_all(&mut ways, &senders.collect::<Vec<_>>(), env);
    }
    ways
}

pub(crate) fn test_alarm(host: &str, env: &dyn Env) -> Alarm {
    let now = env.wall_clock();
    let class = "sysevent.fs.cenote.test";
    Alarm {
        kind: AlarmKind::Test,
        severity: AlarmSeverity::Note,
        pool: String::new(),
        device: None,
        host: host.to_owned(),
        subject: format!("a test from {host}"),
        text: "This is a test, sent by 'cenote alarm test'. Nothing is wrong.\n".to_owned(),
        event: Event {
            class: class.to_owned(),
            seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
            details: vec![("class".to_owned(), format!("\"{class}\""))],
        },
        event_id: 0,
        lost: 0,
    }
}
