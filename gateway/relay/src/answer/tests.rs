//! Only an explicit yes is a yes.

use super::*;

fn mk(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn answers_to_an_elicitation() {
    let cases = [
        (
            r#"{"action":"accept","content":{"ok":true}}"#,
            Verdict::Accept,
        ),
        (r#"{"action":"accept"}"#, Verdict::Accept),
        (r#"{"action":"\u0061ccept","x":1}"#, Verdict::Accept),
        (r#"{"action":"decline"}"#, Verdict::Decline(Why::Declined)),
        (r#"{"action":"cancel"}"#, Verdict::Decline(Why::Cancelled)),
        ("null", Verdict::Decline(Why::Null)),
        ("{}", Verdict::Decline(Why::NoAction)),
        (
            r#"{"content":{"action":"accept"}}"#,
            Verdict::Decline(Why::NoAction),
        ),
        (
            r#"{"action":"Accept"}"#,
            Verdict::Decline(Why::UnknownAction),
        ),
        (
            r#"{"action":"accepted"}"#,
            Verdict::Decline(Why::UnknownAction),
        ),
        (r#"{"action":null}"#, Verdict::Decline(Why::UnknownAction)),
        (
            r#"{"action":["accept"]}"#,
            Verdict::Decline(Why::UnknownAction),
        ),
        (r#""accept""#, Verdict::Decline(Why::Malformed)),
        ("[]", Verdict::Decline(Why::Malformed)),
        (
            r#"{"action":"decline","action":"accept"}"#,
            Verdict::Decline(Why::Malformed),
        ),
        (
            r#"{"action":"accept","Action":"decline"}"#,
            Verdict::Decline(Why::Malformed),
        ),
    ];
    for (answer, verdict) in cases {
        assert_eq!(
            judge("elicitation/create", &mk(answer)),
            verdict,
            "{answer}"
        );
    }
}

#[test]
fn any_object_answers_the_other_methods() {
    for method in ["sampling/createMessage", "roots/list"] {
        assert_eq!(
            judge(method, &mk(r#"{"role":"assistant"}"#)),
            Verdict::Accept
        );
        assert_eq!(judge(method, &mk("{}")), Verdict::Accept);
        assert_eq!(judge(method, &mk("null")), Verdict::Decline(Why::Null));
        assert_eq!(judge(method, &mk("[]")), Verdict::Decline(Why::Malformed));
    }
}

#[test]
fn the_hash_is_of_the_bytes() {
    let one = hash(&mk(r#"{"action":"accept"}"#));
    assert_eq!(one, hash(&mk(r#"{"action":"accept"}"#)));
    assert_ne!(one, hash(&mk(r#"{"action": "accept"}"#)));
}

#[test]
fn reasons_are_distinct() {
    let reasons: std::collections::BTreeSet<_> = Why::ALL.map(Why::reason).into();
    assert_eq!(reasons.len(), Why::ALL.len());
}
