//! Jobs: no request, pause or stop is lost, in whatever order they arrive.

use super::everywhere;
use crate::rt::job::{Control, Job, Next, Progress, Work, guarded, once};
use crate::rt::{self, Condvar, Instant, Mutex, Unranked, World, channel, scope, sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

/// What is seen of some work.
#[derive(Debug, Default)]
struct Seen {
    steps: AtomicUsize,
    saves: AtomicUsize,
    loads: AtomicUsize,
    /// A step is under way; another one at the same time is an error.
    is_busy: AtomicBool,
    changed: Condvar,
    lock: Mutex<(), Unranked>,
}

impl Seen {
    fn step(&self) {
        assert!(
            !self.is_busy.swap(true, Ordering::AcqRel),
            "two steps at once"
        );
        rt::yield_now();
        self.steps.fetch_add(1, Ordering::AcqRel);
        assert!(self.is_busy.swap(false, Ordering::AcqRel));
        drop(self.lock.lock());
        self.changed.notify_all();
    }

    fn steps(&self) -> usize {
        self.steps.load(Ordering::Acquire)
    }

    /// Waits for more steps than `before`; a step that never comes is a deadlock, which simulated
    /// worlds report.
    fn await_more(&self, before: usize) {
        drop(
            self.changed
                .wait_while(self.lock.lock(), |()| self.steps() <= before),
        );
    }

    fn work(self: &Arc<Self>, next: Next) -> impl Work {
        let seen = Arc::clone(self);
        move |_: &Control| {
            seen.step();
            next
        }
    }
}

/// Regression: a worker that was about to end missed a request of that moment, and the requester
/// saw a worker. So a resilver was "in progress" without any thread that worked on it.
#[test]
fn each_request_is_followed_by_a_step() {
    everywhere(|| {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        scope(|scope| {
            for next in [Next::Done, Next::WhenAsked, Next::After(LONG)] {
                let (job, seen) = (&job, &seen);
                scope.spawn(move || {
                    for _ in 0..4 {
                        let before = seen.steps();
                        job.start("work", seen.work(next)).expect("a thread");
                        seen.await_more(before);
                    }
                });
            }
        });
        job.stop();
        assert!(!job.is_at_work());
    });
}

/// Work that is requested while the previous run ends starts after that run.
#[test]
fn a_start_beside_a_stop_is_not_lost() {
    everywhere(|| {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        job.start("first", seen.work(Next::WhenAsked))
            .expect("a thread");
        scope(|scope| {
            scope.spawn(|| job.stop());
            scope.spawn(|| job.cancel());
        });
        let before = seen.steps();
        job.start("second", seen.work(Next::Now)).expect("a thread");
        seen.await_more(before);
        job.cancel();
        let before = seen.steps();
        job.start("third", seen.work(Next::WhenAsked))
            .expect("a thread");
        seen.await_more(before);
        job.stop();
        let after = seen.steps();
        rt::yield_now();
        assert_eq!(seen.steps(), after, "no step after a stop");
        job.close();
        job.start("late", seen.work(Next::Done)).expect("nothing");
        assert!(!job.is_at_work());
    });
}

/// Work that was asked for after a run was cancelled that had made no step yet was taken for that
/// run's: it ended without a step.
#[test]
fn a_start_after_a_cancel_before_the_first_step_is_not_lost() {
    everywhere(|| {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        for _ in 0..4 {
            job.start("first", seen.work(Next::WhenAsked))
                .expect("a thread");
            job.cancel();
            let before = seen.steps();
            job.start("second", seen.work(Next::WhenAsked))
                .expect("a thread");
            seen.await_more(before);
            job.cancel();
        }
        job.stop();
    });
}

/// Stops, starts, pauses and requests from many threads: nothing hangs, and the last request is
/// carried out.
#[test]
fn everybody_at_once() {
    let turmoil = || {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| job.stop()));
            scope.spawn(|| {
                for _ in 0..3 {
                    let _pause = job.pause();
                    rt::yield_now();
                }
            });
            scope.spawn(|| (0..3).for_each(|_| job.wake()));
            for next in [Next::Now, Next::After(Duration::from_millis(1))] {
                let (job, seen) = (&job, &seen);
                scope.spawn(move || {
                    for _ in 0..3 {
                        job.start("work", seen.work(next)).expect("a thread");
                    }
                });
            }
        });
        let before = seen.steps();
        job.start("last", seen.work(Next::WhenAsked))
            .expect("a thread");
        seen.await_more(before);
        job.close();
        assert!(!job.is_at_work());
    };
    for seed in 0..400 {
        World::simulated(seed).run(turmoil);
    }
}

#[test]
fn a_paused_job_makes_no_steps() {
    everywhere(|| {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        let pause = job.pause();
        job.start("work", seen.work(Next::Now)).expect("a thread");
        for _ in 0..20 {
            rt::yield_now();
        }
        assert_eq!(seen.steps(), 0);
        let second = job.pause();
        drop(pause);
        rt::yield_now();
        assert_eq!(seen.steps(), 0, "the second pause still holds");
        drop(second);
        seen.await_more(0);
        let _pause = job.pause();
        job.stop();
        assert!(!job.is_at_work(), "a stop does not wait for pauses");
    });
}

/// A record in memory.
struct Recorded(Arc<Seen>);

impl Work for Recorded {
    fn step(&mut self, control: &Control) -> Next {
        control.advance(10);
        self.0.step();
        // Longer than a record may be old.
        match control.is_interrupted() {
            false => Next::After(Duration::from_secs(6)),
            true => Next::Now,
        }
    }

    fn load(&mut self, _: &Control) {
        self.0.loads.fetch_add(1, Ordering::AcqRel);
    }

    fn save(&mut self) {
        self.0.saves.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn records_are_saved_in_time_and_at_the_end() {
    for seed in 0..40 {
        World::simulated(seed).run(|| {
            let (job, seen) = (Job::new(), Arc::new(Seen::default()));
            job.set_progress(5, 1000);
            job.start("work", Recorded(Arc::clone(&seen)))
                .expect("a thread");
            sleep(Duration::from_secs(60));
            let saves = || seen.saves.load(Ordering::Acquire);
            let (steps, before) = (seen.steps(), saves());
            assert!((9..=11).contains(&steps), "{steps}");
            assert!((steps - 2..=steps).contains(&before), "{before} of {steps}");
            let progress = job.progress();
            assert_eq!(progress.fresh, 10 * steps as u64);
            assert_eq!(progress.done, 5 + progress.fresh);
            job.wake();
            seen.await_more(steps);
            job.stop();
            assert_eq!(saves(), before + 1, "{steps}");
            assert_eq!(seen.loads.load(Ordering::Acquire), 1);
        });
    }
}

#[test]
fn nobody_waits_longer_than_for_the_reason() {
    for seed in 0..40 {
        World::simulated(seed).run(|| {
            let (job, seen) = (Job::new(), Arc::new(Seen::default()));
            let begun = Instant::now();
            job.start("work", seen.work(Next::After(LONG)))
                .expect("a thread");
            seen.await_more(0);
            job.wake();
            seen.await_more(1);
            job.stop();
            // As fast as a rate limit allows, and a stop ends that wait.
            job.set_rate(100);
            let slow = |control: &Control| {
                control.advance(1000);
                Next::Now
            };
            job.start("slow", slow).expect("a thread");
            sleep(Duration::from_secs(25));
            assert_eq!(job.progress().fresh, 3000, "the third waits");
            job.stop();
            assert!(begun.elapsed() < Duration::from_secs(26));
        });
    }
}

#[test]
fn a_panic_ends_the_work_only() {
    everywhere(|| {
        let job = Job::new();
        job.start("fails", |_: &Control| panic!("as it is to be"))
            .expect("a thread");
        assert!(job.wait_idle(Instant::now() + LONG));
        let (sender, receiver) = channel();
        let works = once(move || sender.send(7).expect("a receiver"));
        job.start("works", works).expect("a thread");
        assert_eq!(receiver.recv(), Ok(7));
        job.stop();
    });
}

#[test]
fn who_waits_for_idleness_hears_of_it() {
    everywhere(|| {
        let (job, seen) = (Job::new(), Arc::new(Seen::default()));
        assert!(job.wait_idle(Instant::now()), "there is no work");
        for round in 1..5 {
            job.start("work", seen.work(Next::WhenAsked))
                .expect("a thread");
            assert!(job.wait_idle(Instant::now() + LONG));
            assert_eq!(seen.steps(), round);
        }
        let _pause = job.pause();
        job.wake();
        assert!(!job.wait_idle(Instant::now()), "a step is due");
    });
}

/// The last owner of a pool may be one of its jobs.
#[test]
fn a_job_may_end_itself() {
    everywhere(|| {
        let job = Arc::new(Job::new());
        let (sender, receiver) = channel();
        let (mut own, told) = (Some(Arc::clone(&job)), sender);
        let work = move |_: &Control| {
            if let Some(own) = own.take() {
                own.stop();
                drop(own);
            }
            told.send(()).expect("a receiver");
            Next::Now
        };
        job.start("work", work).expect("a thread");
        drop(job);
        // A step, perhaps none where it was dropped first, and the sender goes.
        assert!(receiver.iter().count() <= 1);
    });
}

#[test]
fn figures_are_those_of_the_run() {
    let progress = Progress {
        done: 60,
        total: 100,
        fresh: 20,
        elapsed: Duration::from_secs(5),
    };
    assert_eq!((progress.rate(), progress.seconds_left()), (4, Some(10)));
    assert!((progress.percent() - 60.0).abs() < 1e-9);
    let nothing = Progress::default();
    assert_eq!((nothing.rate(), nothing.seconds_left()), (0, None));
    assert!((nothing.percent() - 100.0).abs() < 1e-9);
}

/// Regression: when work panicked, threads that waited for its result waited for ever.
#[test]
fn work_that_panics_is_told_of() {
    for seed in 0..20 {
        World::simulated(seed).run(|| {
            let (sender, receiver) = channel();
            let work = once(|| std::panic::resume_unwind(Box::new("broken".to_owned())));
            let job = Job::new();
            let told = guarded(work, move |words| {
                sender.send(words.to_owned()).expect("the test listens");
            });
            job.start("panics", told).expect("a thread");
            assert_eq!(receiver.recv().as_deref(), Ok("broken"));
            assert!(job.wait_idle(Instant::now() + LONG));
            let seen = Arc::new(Seen::default());
            job.start("again", seen.work(Next::Done)).expect("a thread");
            seen.await_more(0);
            job.stop();
        });
    }
}
