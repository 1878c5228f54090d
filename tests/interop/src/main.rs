//! `cargo interop`: runs everything and writes its tables into `tests/README.md`.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    hangar_interop::run::run(clap::Parser::parse()).await
}
