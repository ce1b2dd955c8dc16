//! Random bytes by the handful, drawn from the environment by the page.

use cenote_base::Env;
use cenote_base::rt::{Mutex, ranks};

/// Bytes drawn at once.
const PAGE: usize = 4096;

/// Bytes that were drawn and not given out yet.
#[derive(Default)]
pub(crate) struct RandomPool(Mutex<Vec<u8>, ranks::RandomPool>);

impl std::fmt::Debug for RandomPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RandomPool(secret)")
    }
}

impl RandomPool {
    /// `N` bytes that no other caller gets.
    ///
    /// # Errors
    /// If the environment has no randomness to give.
    pub(crate) fn take<const N: usize>(&self, env: &dyn Env) -> std::io::Result<[u8; N]> {
        assert!(N <= PAGE);
        let mut pool = self.0.lock();
        if pool.len() < N {
            pool.resize(PAGE, 0);
            if let Err(error) = env.fill_random(&mut pool) {
                pool.clear();
                return Err(error);
            }
        }
        let rest = pool.len() - N;
        let taken = pool[rest..].try_into().expect("N bytes are left");
        pool.truncate(rest);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::RealEnv;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_given_twice() {
        let (pool, env) = (RandomPool::default(), RealEnv::new());
        let mut seen = HashSet::new();
        for _ in 0..2000 {
            let bytes: [u8; 12] = pool.take(&env).expect("this system has randomness");
            assert!(seen.insert(bytes));
        }
    }
}
