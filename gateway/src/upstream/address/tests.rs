//! Address rules.

use super::*;

fn mk_policy(allow: &[&str], deny: &[&str]) -> Policy {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Policy::parse(&AddressRules {
        allow: list(allow),
        deny: list(deny),
    })
    .unwrap()
}

#[test]
fn the_machine_itself_is_out_of_reach_unless_allowed() {
    let policy = mk_policy(&[], &[]);
    for inside in [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "255.255.255.255",
        "224.0.0.1",
        "fd00:ec2::254",
        "100.100.100.200",
        "fd20:ce::254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b::100.100.100.200",
        "::127.0.0.1",
        "::169.254.169.254",
    ] {
        assert!(!policy.permits(inside.parse().unwrap()), "{inside}");
    }
    for outside in [
        "10.0.0.1",
        "192.168.1.1",
        "93.184.216.34",
        "fd00::1",
        "2001:db8::1",
        "64:ff9b::93.184.216.34",
        "::93.184.216.34",
        "64:ff9b:1::127.0.0.1",
    ] {
        assert!(policy.permits(outside.parse().unwrap()), "{outside}");
    }
}

#[test]
fn deny_wins_over_allow() {
    let policy = mk_policy(&["127.0.0.0/8"], &["127.0.0.2", "10.0.0.0/8"]);
    assert!(policy.permits("127.0.0.1".parse().unwrap()));
    assert!(policy.permits("::ffff:127.0.0.1".parse().unwrap()));
    assert!(!policy.permits("127.0.0.2".parse().unwrap()));
    assert!(!policy.permits("10.200.0.1".parse().unwrap()));
    assert!(mk_policy(&["0.0.0.0/0"], &[]).permits("127.0.0.1".parse().unwrap()));
}

#[test]
fn an_address_inside_another_needs_both_to_be_permitted() {
    let permits = |allow: &[&str], deny: &[&str], address: &str| {
        mk_policy(allow, deny).permits(address.parse().unwrap())
    };
    let inside = "64:ff9b::127.0.0.1";
    assert!(permits(&["127.0.0.1"], &[], inside));
    assert!(!permits(&["64:ff9b::/96"], &[], inside));
    assert!(!permits(&["127.0.0.1"], &["64:ff9b::/96"], inside));
    assert!(!permits(&[], &["10.0.0.0/8"], "64:ff9b::10.1.2.3"));
    assert!(
        permits(&["::1"], &["0.0.0.1"], "::1"),
        "no IPv4 address is in it"
    );
}

#[test]
fn a_bad_range_is_named() {
    for bad in ["10.0.0.0/33", "ten/8", "::/129", "10.0.0.0/", ""] {
        let rules = AddressRules {
            allow: vec![bad.into()],
            deny: vec![],
        };
        assert!(Policy::parse(&rules).unwrap_err().to_string().contains(bad));
    }
}

#[test]
fn a_rule_for_ipv4_may_be_written_as_ipv6() {
    let policy = mk_policy(&[], &["::ffff:10.99.0.0/120"]);
    for inside in ["10.99.0.1", "::ffff:10.99.0.1"] {
        assert!(!policy.permits(inside.parse().unwrap()), "{inside}");
    }
    assert!(policy.permits("10.99.1.1".parse().unwrap()));
    // Wider than IPv4 as a whole: nobody can mean that.
    assert!("::ffff:0:0/90".parse::<Network>().is_err());
}
