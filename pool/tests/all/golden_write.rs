//! Pools that OpenZFS made, opened for writing, changed a little, and judged by OpenZFS.

use crate::common;
use cenote_base::RealEnv;
use cenote_tests::referee::judge_golden;
use cenote_tests::test_each_golden_pool;
use std::sync::Arc;

fn a_few_groups(kind: &str) {
    let Some((dir, golden)) = common::golden(kind) else {
        return;
    };
    let candidates = common::candidates(dir.path());
    let options = cenote_pool::ImportOptions {
        force: true,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    for round in 0..4 {
        common::change(&pool, round).expect("written");
    }
    pool.export().expect("written");
    drop(pool);
    judge_golden(dir.path(), &golden);
}

test_each_golden_pool!(a_few_groups);
