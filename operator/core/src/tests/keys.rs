//! A Secret of API keys.

use hangar_wire::ApiKeyHash;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::mk_keys;
use crate::keys::{Keys, resolve};
use crate::object::{Place, SecretView};
use crate::reason::Reason;

const ALICE: &str = "alice-key-of-16b";
const NEXT: &str = "alice-key-rotated";

fn mk_usable(value: &str) -> Result<Vec<ApiKeyHash>, String> {
    match Keys::of(&mk_keys("keys", &[("alice", value)])) {
        Keys::Usable(principals) => Ok(principals["alice"].iter().copied().collect()),
        Keys::NotLabelled { found } => panic!("{found:?}"),
        Keys::Invalid(what) => Err(what),
    }
}

#[test]
fn lines_are_keys() {
    let alice = ApiKeyHash::of(ALICE.as_bytes());
    for value in [
        ALICE.to_owned(),
        format!("{ALICE}\n"),
        format!("{ALICE}\r\n"),
        format!("\n\r\n{ALICE}\n\n"),
        format!("{ALICE}\n{ALICE}"),
    ] {
        assert_eq!(mk_usable(&value).unwrap(), [alice], "{value:?}");
    }
    let two = mk_usable(&format!("{ALICE}\n{NEXT}\n")).unwrap();
    assert_eq!(two.len(), 2);
    assert!(two.contains(&alice) && two.contains(&ApiKeyHash::of(NEXT.as_bytes())));
}

#[test]
fn a_bad_value_names_the_data_key_and_never_the_value() {
    let long = "k".repeat(513);
    let nine: Vec<String> = (0..9).map(|i| format!("{ALICE}-{i}")).collect();
    for (value, words) in [
        ("fifteen-bytes-k", "line 1 is not 16 to 512"),
        (&format!("{ALICE}\nshort"), "line 2 is not 16 to 512"),
        (long.as_str(), "line 1 is not 16 to 512"),
        ("has a space in the key", "holds a space"),
        ("trailing-space-key ", "holds a space"),
        ("schlüssel-mit-umlaut", "visible ASCII"),
        ("", "0 keys"),
        ("\n\r\n", "0 keys"),
        (&nine.join("\n"), "9 keys"),
    ] {
        let what = mk_usable(value).unwrap_err();
        assert!(what.starts_with("data key alice: "), "{what}");
        assert!(what.contains(words), "{what}");
        for line in value.lines().filter(|line| line.len() > 2) {
            assert!(!what.contains(line), "{what}");
        }
    }
}

#[test]
fn the_number_of_principals_is_bounded() {
    let many: Vec<(String, String)> = (0..257)
        .map(|i| (format!("p{i}"), format!("{ALICE}-{i}")))
        .collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert!(matches!(
        Keys::of(&mk_keys("keys", &many[..256])),
        Keys::Usable(_)
    ));
    assert!(matches!(
        Keys::of(&mk_keys("keys", &many)),
        Keys::Invalid(_)
    ));
    assert!(matches!(Keys::of(&mk_keys("keys", &[])), Keys::Invalid(_)));
}

#[test]
fn a_data_key_that_no_cluster_would_have_is_refused() {
    for name in ["", "a b", "key:alice", "a/b", &"x".repeat(254)] {
        assert!(
            matches!(
                Keys::of(&mk_keys("keys", &[(name, ALICE)])),
                Keys::Invalid(_)
            ),
            "{name}"
        );
    }
}

#[test]
fn each_way_to_have_no_key_has_its_reason_and_its_remedy() {
    let place = Place::new("hangar", "keys");
    let unlabelled = SecretView {
        purpose: None,
        ..mk_keys("keys", &[("alice", ALICE)])
    };
    let other_use = SecretView {
        purpose: Some("tls".into()),
        ..mk_keys("keys", &[("alice", ALICE)])
    };
    let cases = [
        (
            None,
            Reason::SecretNotFound,
            "kubectl label secret -n hangar keys hangar.dev/use=api-keys",
        ),
        (
            Some(Keys::of(&unlabelled)),
            Reason::SecretNotLabelled,
            "is not labelled",
        ),
        (
            Some(Keys::of(&other_use)),
            Reason::SecretNotLabelled,
            "hangar.dev/use=tls",
        ),
        (
            Some(Keys::of(&mk_keys("keys", &[("bob", "short")]))),
            Reason::InvalidSecret,
            "data key bob",
        ),
        (
            Some(Keys::unreadable()),
            Reason::InvalidSecret,
            "cannot be read",
        ),
    ];
    for (found, reason, words) in cases {
        let refusal = resolve("spec.x", &place, found.as_ref()).unwrap_err();
        assert_eq!(refusal.reason(), reason);
        assert!(refusal.message().starts_with("spec.x: "), "{refusal}");
        assert!(refusal.message().contains(words), "{refusal}");
    }
}

#[test]
fn a_secret_is_read_as_the_api_server_would_and_shows_no_value() {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"namespace": "hangar", "name": "keys", "labels": {"hangar.dev/use": "api-keys"}},
        "data": {"alice": "b2xkLW9sZC1vbGQtb2xkLW9sZA==", "bob": "Ym9iLWJvYi1ib2ItYm9iLWJvYg=="},
        "stringData": {"alice": ALICE},
    }))
    .unwrap();
    let view = SecretView::of(secret);
    assert_eq!(
        view,
        mk_keys("keys", &[("alice", ALICE), ("bob", "bob-bob-bob-bob-bob")])
    );
    let shown = format!("{view:?} {:?}", view.data);
    assert!(shown.contains("alice"), "{shown}");
    assert!(
        !shown.contains(ALICE) && !shown.contains("bob-bob"),
        "{shown}"
    );
    assert!(!format!("{:?}", Keys::of(&view)).contains(ALICE));
}
