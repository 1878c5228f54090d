//! The authority is kept; certificates are renewed under it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;
use crate::state::StateDir;

fn verify(authority_pem: &str, serving: &Serving, name: &str, at: SystemTime) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority_pem.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let since = at.duration_since(UNIX_EPOCH).unwrap();
    verifier
        .verify_server_cert(
            &serving.current().cert[0],
            &[],
            &ServerName::try_from(name.to_owned()).unwrap(),
            &[],
            UnixTime::since_unix_epoch(since),
        )
        .is_ok()
}

#[test]
fn the_authority_survives_a_restart_and_a_lost_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let now = SystemTime::now();
    let first = folder::authority(&state, now).unwrap();
    let again = folder::authority(&state, now).unwrap();
    assert_eq!(first.certificate_pem(), again.certificate_pem());
    let mode = fs::metadata(dir.path().join("ca.key")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);

    fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let rebuilt = folder::authority(&state, now).unwrap();
    let serving = Serving::new(rebuilt, now).unwrap();
    assert!(verify(
        first.certificate_pem(),
        &serving,
        hangar_wire::SERVER_NAME,
        now
    ));

    fs::remove_file(dir.path().join("ca.key")).unwrap();
    let other = folder::authority(&state, now).unwrap();
    assert_ne!(first.certificate_pem(), other.certificate_pem());
}

#[test]
fn only_the_one_name_is_served_and_renewal_keeps_the_trust() {
    let now = SystemTime::now();
    let authority = Authority::make(now).unwrap();
    let trust = authority.certificate_pem().to_owned();
    let serving = Serving::new(authority, now).unwrap();
    let name = hangar_wire::SERVER_NAME;
    assert!(verify(&trust, &serving, name, now));
    assert!(!verify(&trust, &serving, "localhost", now));

    let before = serving.current();
    let later = now + Duration::from_hours(24 * 91);
    assert!(!verify(&trust, &serving, name, later));
    serving.renew(later).unwrap();
    assert_ne!(before.cert, serving.current().cert);
    assert!(verify(&trust, &serving, name, later));
}

#[test]
fn debug_shows_no_key() {
    let authority = Authority::make(SystemTime::now()).unwrap();
    let shown = format!("{authority:?}");
    assert!(!shown.contains("PRIVATE"), "{shown}");
}
