//! Every recorded exchange, directly and through the gateway.

#![cfg(test)]

use hangar_interop::rules::Rules;
use hangar_interop::{corpus, replay};

/// Exchanges that differ in more than handles, times and counters.
const LEAST: usize = 500;

#[test]
fn the_corpus_is_as_large_as_it_should_be() {
    let distinct = corpus::distinct(&corpus::all().unwrap());
    assert!(distinct >= LEAST, "{distinct} distinct exchanges");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_through_the_gateway_is_the_exchange() {
    let recordings = corpus::all().unwrap();
    let found = replay::run(&recordings).await.unwrap();
    let findings = Rules::parse(replay::ALLOWED).unwrap().findings(&found);
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}
