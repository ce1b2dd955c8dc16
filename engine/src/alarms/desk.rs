//! The alarms of a daemon: the job that detects them, and the ways to send them.

use super::judge::Judge;
use crate::events::Events;
use crate::registry::imported::Imported;
use cenote_alarms::{
    Alarm, AlarmLimits, AlarmPlan, AlarmSetup, AlarmSeverity, AlarmSource, AlarmWay, Courier,
    Journal, try_all,
};
use cenote_base::Env;
use cenote_base::hostname;
use cenote_base::rt::{Instant, Mutex, MutexGuard, ranks};
use cenote_control::model::{AlarmAct, ControlError, Refusal, Response};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the daemon's end waits for alarms that are on their way.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// All of it.
pub(crate) struct Alarms {
    state: Mutex<State, ranks::Alarms>,
    source: Option<Box<dyn AlarmSource>>,
}

struct State {
    judge: Judge,
    journal: Journal,
    limits: AlarmLimits,
    file: Option<String>,
    couriers: Vec<Courier>,
}

impl Alarms {
    pub fn new(setup: AlarmSetup, directory: Option<PathBuf>) -> Self {
        let mut state = State {
            judge: Judge::default(),
            journal: Journal::new(directory),
            limits: AlarmLimits::default(),
            file: None,
            couriers: Vec::new(),
        };
        state.take_up(setup.plan);
        Self {
            state: Mutex::new(state),
            source: setup.source,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Looks for alarms and hands them on; never waits for a way.
    pub fn look(&self, events: &Events, env: &dyn Env, pools: &[Arc<Imported>]) {
        let mut state = self.lock();
        let State {
            judge,
            journal,
            limits,
            couriers,
            ..
        } = &mut *state;
        let alarms = judge.look(events, env, pools, journal, (limits, &hostname()));
        journal.write_in_time(env.monotonic());
        for alarm in alarms {
            hand_on(couriers, alarm);
        }
    }

    /// Hands an alarm on that is not about a pool which is here.
    pub fn tell(&self, alarm: Alarm) {
        hand_on(&self.lock().couriers, alarm);
    }

    /// Handles a client's request.
    pub fn act(&self, act: AlarmAct, env: &dyn Env) -> Result<Response, ControlError> {
        match act {
            AlarmAct::List => {}
            AlarmAct::Reload => self.reload()?,
            AlarmAct::Test => {
                self.reload()?;
                return Ok(self.test(env));
            }
        }
        let state = self.lock();
        let ways = state.couriers.iter().map(Courier::state).collect();
        let file = state.file.clone();
        Ok(Response::Alarms { file, ways })
    }

    /// What went wrong with a pool, also before this daemon.
    pub fn history(&self, imported: &Imported) -> Response {
        let records = self.lock().journal.records(imported.pool.guid().0);
        Response::ErrorHistory { records }
    }

    /// Reads the plan again; if it is invalid, nothing changes.
    fn reload(&self) -> Result<(), ControlError> {
        if let Some(source) = &self.source {
            let plan = source.load().map_err(|error| {
                let reason = error.to_string();
                Refusal::Alarms { reason }
            })?;
            self.lock().take_up(plan);
        }
        Ok(())
    }

    /// Sends one alarm by each way at the same time, past the queues.
    fn test(&self, env: &dyn Env) -> Response {
        let (file, mut ways, senders) = {
            let state = self.lock();
            let couriers = || state.couriers.iter();
            let ways: Vec<_> = couriers().map(Courier::state).collect();
            let senders: Vec<Arc<dyn AlarmWay>> = couriers()
                .map(|courier| Arc::clone(&courier.plan.way))
                .collect();
            (state.file.clone(), ways, senders)
        };
        try_all(&mut ways, &senders, env);
        Response::Alarms { file, ways }
    }

    /// Gives alarms that wait a last chance, before the daemon ends.
    pub fn finish(&self) {
        let end = Instant::now() + LAST_WAIT;
        let mut state = self.lock();
        state.journal.finish();
        let left = state.couriers.iter().filter(|courier| !courier.finish(end));
        for courier in left {
            let name = &courier.plan.name;
            log::warn!("alarms '{name}': not all were sent before the daemon ended");
        }
    }
}

/// Writes an alarm into the log, and gives it to the ways that take it.
fn hand_on(couriers: &[Courier], alarm: Alarm) {
    let level = match alarm.severity {
        AlarmSeverity::Note => log::Level::Info,
        AlarmSeverity::Attention => log::Level::Warn,
        AlarmSeverity::Danger => log::Level::Error,
    };
    log::log!(level, "{}", alarm.subject);
    for courier in couriers.iter().filter(|courier| courier.takes(&alarm)) {
        courier.put(alarm.clone());
    }
}

impl State {
    /// Switches to this plan; waiting alarms move to the way of the same name.
    fn take_up(&mut self, plan: AlarmPlan) {
        let before = std::mem::take(&mut self.couriers);
        let start = |way| Courier::start(way, &plan.retries);
        self.couriers = plan.ways.into_iter().map(start).collect();
        (self.limits, self.file) = (plan.limits, plan.file);
        for old in before {
            let waiting = old.end();
            let mut new = self.couriers.iter();
            if let Some(new) = new.find(|new| new.plan.name == old.plan.name) {
                waiting.into_iter().for_each(|alarm| new.put(alarm));
            }
        }
    }
}
