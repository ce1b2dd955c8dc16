//! A request under way, and the place where its answer arrives.

use crate::protocol::request::Request;
use cenote_base::rt::{Condvar, Instant, Mutex, ranks};
use std::io;
use std::sync::Arc;

/// A request, from when it is made until its caller has an answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: Request,
    /// What is to be written.
    pub data: Option<Arc<[u8]>>,
    answer: Mutex<Answer, ranks::NbdAnswer>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Answer {
    /// What was read so far.
    buffer: Vec<u8>,
    result: Option<io::Result<Vec<u8>>>,
}

impl Asked {
    pub fn new(request: Request, data: Option<Arc<[u8]>>) -> Arc<Self> {
        Arc::new(Self {
            request,
            data,
            answer: Mutex::default(),
            answered: Condvar::new(),
        })
    }

    /// The buffer of a read, for the thread that receives; [`Self::put_buffer`] gives it back.
    pub fn take_buffer(&self) -> Vec<u8> {
        std::mem::take(&mut self.answer.lock().buffer)
    }

    pub fn put_buffer(&self, buffer: Vec<u8>) {
        self.answer.lock().buffer = buffer;
    }

    /// Hands the caller its answer.
    pub fn finish(&self, result: io::Result<()>) {
        let mut answer = self.answer.lock();
        let buffer = std::mem::take(&mut answer.buffer);
        answer.result = Some(result.map(|()| buffer));
        drop(answer);
        self.answered.notify_all();
    }

    /// Waits for the answer; `None` if there is none by then.
    pub fn wait(&self, deadline: Instant) -> Option<io::Result<Vec<u8>>> {
        let mut answer = self.answer.lock();
        loop {
            if let Some(result) = answer.result.take() {
                return Some(result);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            (answer, _) = self.answered.wait_timeout(answer, left);
        }
    }
}
