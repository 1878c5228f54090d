//! `cargo demo`: the story of one governed task, on the binaries that ship, without a cluster.

mod curl;
mod play;
mod quickstart;
mod stage;
mod story;

#[cfg(test)]
mod tests;

fn main() -> std::process::ExitCode {
    let play::Args { once } = clap::Parser::parse();
    play::play(once)
}
