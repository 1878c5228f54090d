//! Command line: shape, lists, refusals.

use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn lists_repeat_and_split() {
    let args =
        parse("hangar-operator run --namespace a --namespace b,c --allow-address 127.0.0.0/8")
            .unwrap();
    let Command::Run(run) = args.command else {
        panic!("run expected");
    };
    assert_eq!(run.namespaces, ["a", "b", "c"]);
    assert_eq!(run.allow_addresses, ["127.0.0.0/8"]);
    assert_eq!(run.class, "hangar");
    assert_eq!(run.push_address.port(), 8443);
}

#[test]
fn bad_addresses_are_wrong_usage() {
    for bad in [
        "127.0.0.1",
        "10.0.0.0/33",
        "host/8",
        "::/129",
        "10.0.0.0/-1",
        "::ffff:10.0.0.0/104",
    ] {
        let line = format!("hangar-operator run --deny-address {bad}");
        let error = parse(&line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{bad}");
    }
    parse("hangar-operator run --deny-address fd00::/8").unwrap();
    assert_eq!(parse("hangar-operator check").unwrap_err().exit_code(), 2);
}
