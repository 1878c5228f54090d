//! Tokens and the pods they stand for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::state::StateDir;

fn mk_pod(name: &str) -> Pod {
    Pod {
        namespace: "hangar".into(),
        name: name.into(),
        uid: "uid".into(),
    }
}

#[tokio::test]
async fn the_token_is_made_once_and_matches_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let token = Arc::new(PodToken::load_or_make(&state).unwrap());
    let text = state.read_text(token::FILE).unwrap().unwrap();
    assert_eq!(text.len(), 64);
    let mode = fs::metadata(dir.path().join(token::FILE)).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert!(PodToken::load_or_make(&state).unwrap().matches(&text));

    let auth = Authenticator::Token(token);
    assert_eq!(auth.identify(&text).await.unwrap(), Identity::AnyPod);
    for wrong in ["", &text[1..], &format!("{text}0"), &"0".repeat(64)] {
        let error = auth.identify(wrong).await.unwrap_err();
        assert_eq!(error.reason(), "TokenInvalid", "{wrong}");
    }
    assert!(!format!("{auth:?}").contains(&text));
}

#[test]
fn a_deleted_or_damaged_token_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    fs::write(dir.path().join(token::FILE), "short").unwrap();
    let token = PodToken::load_or_make(&state).unwrap();
    assert!(!token.matches("short"));
    assert!(token.matches(&state.read_text(token::FILE).unwrap().unwrap()));
}

#[test]
fn a_bound_token_speaks_for_its_pod_only() {
    let identity = Identity::Pod(mk_pod("gateway-0"));
    let authorized = identity.clone().authorize(&mk_pod("gateway-0")).unwrap();
    assert_eq!(authorized.pod(), &mk_pod("gateway-0"));
    let error = identity.authorize(&mk_pod("gateway-1")).unwrap_err();
    assert_eq!(error.reason(), "PodMismatch");
    assert!(error.to_string().contains("hangar/gateway-1"), "{error}");
}
