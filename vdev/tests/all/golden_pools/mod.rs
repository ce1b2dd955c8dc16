//! What the tests on golden pools are made of.

mod blocks;
mod labels;
mod support;
