//! `cargo e2e`: the charts on a real one-node cluster, from the first install to the second.

mod metrics;
mod objects;
mod play;
mod stage;
mod story;

fn main() -> std::process::ExitCode {
    play::play(clap::Parser::parse())
}
