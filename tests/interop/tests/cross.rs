//! Clients and servers of every SDK, with the gateway between them.

#![cfg(test)]

use hangar_interop::differences::Allowed;
use hangar_interop::{cross, readme, run};

#[tokio::test]
async fn every_client_gets_on_with_every_server_through_the_gateway() {
    let runs = cross::run().await.unwrap();
    let allowed = Allowed::parse(run::UNSUPPORTED).unwrap();
    let findings = allowed.findings(&runs.differences());
    assert!(findings.is_empty(), "{findings:#?}");
    readme::check(run::CROSS, &runs.table()).unwrap();
    readme::check(run::UNSUPPORTED_TABLE, &allowed.table()).unwrap();
}
