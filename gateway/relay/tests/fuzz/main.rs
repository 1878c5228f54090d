//! Mutated messages through everything that reads what a client or an upstream sent.
//!
//! Seeds are the recorded exchanges of every SDK and messages that are wrong on purpose. The loop is ours
//! and draws from a seed, so a run can be repeated; `HANGAR_FUZZ_SEEDS` and `HANGAR_FUZZ_INPUTS` make it
//! longer (`cargo campaign fuzz`). A finding prints its input as a Rust byte string.

#![cfg(test)]

mod corpus;
mod mutate;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};

use corpus::Corpus;
use mutate::Mutator;

/// Inputs of one target and one seed in a plain test run.
const INPUTS: u64 = 20_000;

#[allow(clippy::disallowed_methods)] // a test run is made longer from outside
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number of seeds or inputs"),
        Err(_) => default,
    }
}

/// Feeds every seed as it is and then mutations of them; at least one in ten inputs must be accepted, since
/// a target that refuses everything shows nothing.
fn fuzz(seeds: &[Vec<u8>], target: impl Fn(&[u8]) -> bool) {
    assert!(seeds.len() > 20, "{} seeds only", seeds.len());
    let (runs, inputs) = (
        number("HANGAR_FUZZ_SEEDS", 1),
        number("HANGAR_FUZZ_INPUTS", INPUTS),
    );
    let (mut accepted, mut total) = (0_u64, 0_u64);
    let mut feed = |input: &[u8]| {
        let judged = catch_unwind(AssertUnwindSafe(|| target(input)));
        let Ok(taken) = judged else {
            panic!("with the input b\"{}\"", input.escape_ascii());
        };
        accepted += u64::from(taken);
        total += 1;
    };
    for seed in seeds {
        feed(seed);
    }
    for run in 1..=runs {
        let mut mutator = Mutator::new(run, seeds);
        for _ in 0..inputs {
            feed(&mutator.next());
        }
    }
    println!("{total} inputs, {accepted} accepted");
    assert!(
        accepted * 10 >= total,
        "{accepted} of {total} inputs accepted"
    );
}

#[test]
fn envelope() {
    fuzz(&Corpus::read().messages(), targets::envelope);
}

#[test]
fn headers() {
    fuzz(&Corpus::read().headers(), targets::headers);
}

#[test]
fn sse() {
    fuzz(&Corpus::read().streams(), targets::sse);
}

#[test]
fn tools() {
    fuzz(&Corpus::read().tools(), targets::tools);
}

#[test]
fn handles() {
    fuzz(&Corpus::read().results(), targets::handles);
}
