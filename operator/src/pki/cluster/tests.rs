//! What is kept is what is loaded.

use super::*;

#[test]
fn a_secret_gives_the_authority_back() {
    let made = Authority::make(SystemTime::now()).unwrap();
    let secret = secret_of(&made, &Owner::default());
    let loaded = load(&secret).unwrap();
    assert_eq!(loaded.certificate_pem(), made.certificate_pem());
    assert_eq!(loaded.key_pem(), made.key_pem());
}

#[test]
fn an_incomplete_secret_is_named_without_its_content() {
    let mut secret = secret_of(
        &Authority::make(SystemTime::now()).unwrap(),
        &Owner::default(),
    );
    secret.data.as_mut().unwrap().remove(PRIVATE_KEY);
    let error = load(&secret).unwrap_err();
    assert_eq!(error.reason(), "incomplete");
    assert!(error.to_string().contains("`ca.key`"), "{error}");
}
