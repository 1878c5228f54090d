//! Durations, sizes, names, globs, URLs.

use crate::parse::{dns_label, duration_ms, endpoint_url, globs, size_bytes};
use crate::reason::Reason;

const ANY: std::ops::RangeInclusive<u64> = 0..=u64::MAX;

#[test]
fn durations_in_go_form() {
    for (text, ms) in [
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        ("1m0.25s", 60_250),
        ("1500us", 1),
        ("720h", 2_592_000_000),
    ] {
        assert_eq!(duration_ms("f", text, ANY).unwrap(), ms, "{text}");
    }
}

#[test]
fn what_is_no_duration() {
    let huge = format!("{}h", "9".repeat(60));
    for text in [
        "",
        "0",
        "30",
        "-5s",
        "+5s",
        "1d",
        "1w",
        "s",
        ".s",
        ".5s",
        "1.s",
        "1..5s",
        "1 h",
        "1h ",
        "1H",
        "1e3s",
        "NaNs",
        "infs",
        "99999999999999999999h",
        &huge,
    ] {
        let refusal = duration_ms("spec.f", text, ANY).unwrap_err();
        assert_eq!(refusal.reason(), Reason::Invalid, "{text}");
        assert!(refusal.message().starts_with("spec.f: `"), "{refusal}");
    }
}

#[test]
fn a_duration_out_of_bounds_says_the_bounds() {
    let refusal = duration_ms("spec.f", "2h", 1_000..=3_600_000).unwrap_err();
    assert_eq!(
        refusal.message(),
        "spec.f: 2h is out of bounds, use 1s to 1h"
    );
    assert!(duration_ms("spec.f", "999ms", 1_000..=3_600_000).is_err());
    assert!(duration_ms("spec.f", "1s", 1_000..=3_600_000).is_ok());
}

#[test]
fn sizes() {
    for (text, bytes) in [
        ("16Mi", 16 << 20),
        ("512Ki", 512 << 10),
        ("1Gi", 1 << 30),
        ("1024Ki", 1 << 20),
        ("4096", 4096),
    ] {
        assert_eq!(size_bytes("f", text, ANY).unwrap(), bytes, "{text}");
    }
    for text in [
        "",
        "Mi",
        "1.5Mi",
        "-1Mi",
        "16MB",
        "1M",
        "1k",
        "1e6",
        "99999999999Gi",
        "16 Mi",
    ] {
        assert!(size_bytes("f", text, ANY).is_err(), "{text}");
    }
}

#[test]
fn labels() {
    for good in ["a", "acme", "a-1", &"x".repeat(63)] {
        dns_label("f", good).unwrap();
    }
    for bad in [
        "",
        "-a",
        "a-",
        "A",
        "a.b",
        "a/b",
        "a b",
        "ä",
        &"x".repeat(64),
    ] {
        assert!(dns_label("f", bad).is_err(), "{bad}");
    }
}

#[test]
fn a_bad_glob_is_named_with_its_index() {
    let list = |globs: &[&str]| globs.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    globs("f", &list(&["*", "read_*", "a.{b,c}", "[a-f]?"])).unwrap();
    globs("f", &[]).unwrap();
    let refusal = globs("spec.tools.deny", &list(&["ok", "[z"])).unwrap_err();
    assert_eq!(refusal.reason(), Reason::InvalidGlob);
    assert!(
        refusal.message().starts_with("spec.tools.deny[1]: `[z`"),
        "{refusal}"
    );
    for (bad, words) in [
        (list(&["ok", ""]), "f[1]: must not be empty"),
        (list(&["a", "b", "a"]), "f[2]: `a` stands here twice"),
        (list(&[&"x".repeat(129)]), "f[0]: 129 bytes"),
        (
            (0..257).map(|i| format!("g{i}")).collect(),
            "f: 257 entries",
        ),
    ] {
        let refusal = globs("f", &bad).unwrap_err();
        assert_eq!(refusal.reason(), Reason::Invalid);
        assert!(refusal.message().starts_with(words), "{refusal}");
    }
}

#[test]
fn urls() {
    for good in [
        "https://reports.example.com/mcp",
        "http://127.0.0.1:7411/mcp",
        "https://[2001:db8::1]:8443/mcp",
        "http://[::1]/",
        "https://example.com",
        "https://example.com/mcp?team=a",
    ] {
        endpoint_url("f", good).unwrap_or_else(|refusal| panic!("{good}: {refusal}"));
    }
    for bad in [
        "",
        "reports.example.com",
        "ftp://example.com/",
        "HTTPS//x",
        "https://",
        "https:///mcp",
        "https://:443/mcp",
        "https://example.com:0/",
        "https://example.com:70000/",
        "https://example.com:/",
        "https://example.com/a b",
        "https://example.com/mcp#top",
        "https://exa mple.com/",
        "https://example.com/\n",
    ] {
        assert!(endpoint_url("f", bad).is_err(), "{bad}");
    }
}

#[test]
fn credentials_in_a_url_are_refused_and_not_shown() {
    let refusal = endpoint_url("f", "https://bob:hunter2@example.com/mcp").unwrap_err();
    assert!(refusal.message().contains("credentials"), "{refusal}");
    assert!(!refusal.message().contains("hunter2"), "{refusal}");
}
