//! `cargo interop record`: writes the corpus anew.
//!
//! Every SDK's client takes its steps with every SDK's server, and the conformance suite judges its
//! server, all of them directly, with nothing between that understands a message. Files that begin
//! with `capture-` or `made-` came about in another way and are left alone.

mod tap;

use anyhow::Result;

use crate::corpus::{Origin, Recording};
use crate::cross::{self, Sdk};
use crate::peer::Server;
use crate::{conformance, record::tap::Tap};

const REVISION: &str = "2026-07-28";

pub async fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for sdk in Sdk::ALL {
        let server = Server::start(&sdk.server(folder.path())?).await?;
        let tap = Tap::start(server.url()).await?;
        let mut exchanges = Vec::new();
        for client in Sdk::ALL {
            cross::take_steps(client, &tap.url(), folder.path()).await?;
            exchanges.extend(tap.taken(client.name()).await?);
        }
        let origin = format!(
            "`cargo interop record`: the cross runs with the {} server",
            sdk.name()
        );
        write(&format!("cross-{}", sdk.name()), origin, exchanges)?;
    }
    let server = Server::start(&conformance::server(folder.path())?).await?;
    let tap = Tap::start(server.url()).await?;
    conformance::judge(&tap.url(), "direct", folder.path()).await?;
    let exchanges = tap.taken("suite").await?;
    let origin = "`cargo interop record`: the conformance suite with its server".to_owned();
    write("conformance", origin, exchanges)
}

fn write(name: &str, origin: String, exchanges: Vec<crate::corpus::Exchange>) -> Result<()> {
    let recording = Recording {
        name: name.to_owned(),
        origin: Origin {
            origin,
            revision: REVISION.to_owned(),
        },
        exchanges,
    };
    recording.write()
}
