//! `cargo bench-relay`: what a call costs through the gateway, beside the same call sent directly.

mod answers;
mod case;
mod ledger;
mod load;
mod measure;
mod peer;
mod procfs;
mod relay;
mod report;
mod run;
mod stage;
mod upstream;

#[cfg(test)]
mod tests;

fn main() -> std::process::ExitCode {
    run::run(clap::Parser::parse())
}
