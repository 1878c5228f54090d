//! The official conformance suite, directly and through the gateway.

#![cfg(test)]

use std::collections::BTreeSet;

use hangar_interop::differences::Allowed;
use hangar_interop::{conformance, readme, run};

/// One run for all: each takes half a minute.
#[tokio::test]
async fn what_a_server_passes_directly_passes_through_the_gateway() {
    let runs = conformance::run().await.unwrap();
    let failures = runs.direct.failures();
    assert!(failures.is_empty(), "of the server itself: {failures:#?}");
    let allowed = Allowed::parse(run::DIFFERENCES).unwrap();
    let findings: BTreeSet<_> = allowed.findings(&runs.differences()).into_iter().collect();
    assert!(findings.is_empty(), "{findings:#?}");
    readme::check(run::CONFORMANCE, &runs.table()).unwrap();
    readme::check(run::ALLOWED, &allowed.table()).unwrap();
}
