//! Only a `ServiceAccount` of the namespace owns, and only what names one is adopted.

use k8s_openapi::api::authentication::v1::UserInfo;

use super::*;

fn review(username: &str, uid: &str) -> SelfSubjectReviewStatus {
    SelfSubjectReviewStatus {
        user_info: Some(UserInfo {
            username: Some(username.to_owned()),
            uid: Some(uid.to_owned()),
            ..UserInfo::default()
        }),
    }
}

fn owner(uid: &str) -> Owner {
    let review = review("system:serviceaccount:platform:hangar-operator", uid);
    Owner::from_review(Some(&review), "platform")
}

#[test]
fn a_service_account_of_the_namespace_owns() {
    let references = owner("uid-1").references().unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!(references[0].name, "hangar-operator");
    assert_eq!(references[0].uid, "uid-1");
    assert_eq!(references[0].kind, "ServiceAccount");
    // It must not keep its owner from being deleted.
    assert_eq!(references[0].block_owner_deletion, None);
}

#[test]
fn nobody_else_owns() {
    for (username, namespace) in [
        ("kubernetes-admin", "platform"),
        (
            "system:serviceaccount:elsewhere:hangar-operator",
            "platform",
        ),
        ("system:serviceaccount:platform", "platform"),
    ] {
        let found = Owner::from_review(Some(&review(username, "uid-1")), namespace);
        assert_eq!(found, Owner::default(), "{username}");
    }
    assert_eq!(Owner::from_review(None, "platform"), Owner::default());
}

#[test]
fn what_an_earlier_installation_made_is_adopted() {
    let mut metadata = ObjectMeta {
        owner_references: owner("uid-1").references(),
        ..ObjectMeta::default()
    };
    assert!(!owner("uid-1").adopt(&mut metadata), "it is ours already");
    assert!(owner("uid-2").adopt(&mut metadata));
    assert_eq!(metadata.owner_references, owner("uid-2").references());
}

#[test]
fn what_a_person_made_is_left_alone() {
    let mut metadata = ObjectMeta::default();
    assert!(!owner("uid-1").adopt(&mut metadata));
    let of_a_person = OwnerReference {
        kind: "Deployment".to_owned(),
        name: "hangar-operator".to_owned(),
        uid: "uid-7".to_owned(),
        ..OwnerReference::default()
    };
    metadata.owner_references = Some(vec![of_a_person.clone()]);
    assert!(!owner("uid-1").adopt(&mut metadata));
    assert_eq!(metadata.owner_references, Some(vec![of_a_person]));
}
