//! `cargo campaign`: what takes too long for every change.

mod breaks;
mod cargo;
mod command;
mod long;
mod table;
mod tree;

#[cfg(test)]
mod tests;

fn main() -> std::process::ExitCode {
    command::run(clap::Parser::parse())
}
