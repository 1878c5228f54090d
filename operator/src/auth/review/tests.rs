//! What counts as a gateway's token, and for how long.

use super::*;

fn mk_status() -> TokenReviewStatus {
    serde_json::from_value(serde_json::json!({
        "authenticated": true,
        "audiences": [TOKEN_AUDIENCE],
        "user": {
            "username": "system:serviceaccount:hangar-system:gateway",
            "extra": {POD_NAME: ["gateway-0"], POD_UID: ["uid-0"]},
        },
    }))
    .unwrap()
}

#[test]
fn the_pod_comes_from_the_token() {
    let pod = bound_pod(mk_status()).unwrap();
    let expected = Pod {
        namespace: "hangar-system".into(),
        name: "gateway-0".into(),
        uid: "uid-0".into(),
    };
    assert_eq!(pod, expected);
}

#[test]
fn every_missing_piece_is_a_refusal() {
    let mut status = mk_status();
    status.audiences = None;
    assert_eq!(bound_pod(status), None);

    let mut status = mk_status();
    status.authenticated = Some(false);
    assert_eq!(bound_pod(status), None);

    let mut status = mk_status();
    let extra = status.user.as_mut().unwrap().extra.as_mut().unwrap();
    extra.remove(POD_UID);
    assert_eq!(bound_pod(status), None);

    let mut status = mk_status();
    status.user.as_mut().unwrap().username = Some("admin".into());
    assert_eq!(bound_pod(status), None);
}

#[test]
fn verdicts_last_a_minute_and_are_bounded() {
    let mut verdicts = Verdicts::default();
    let now = Instant::now();
    let key = Sha256Hex::of(b"token");
    verdicts.keep(key, Verdict::Invalid, now);
    let soon = now + Duration::from_secs(59);
    assert_eq!(verdicts.get(&key, soon), Some(Verdict::Invalid));
    assert_eq!(verdicts.get(&key, now + KEPT_FOR), None);
    for number in 0..=KEPT_AT_MOST {
        let key = Sha256Hex::of(&number.to_be_bytes());
        verdicts.keep(key, Verdict::Invalid, now);
    }
    assert!(verdicts.0.len() <= KEPT_AT_MOST);
}
