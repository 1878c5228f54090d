//! The authority of folder mode, in the state folder: `ca.crt` for gateways, `ca.key` for us.

use std::time::SystemTime;

use super::{Authority, Error};
use crate::state::{Access, StateDir};

/// What gateways are given to verify this operator.
pub const CA_FILE: &str = "ca.crt";

const KEY_FILE: &str = "ca.key";

/// The kept authority, or a new one when the folder has none.
pub fn authority(state: &StateDir, now: SystemTime) -> Result<Authority, Error> {
    let certificate = state.read_text(CA_FILE)?;
    let authority = match (certificate, state.read_text(KEY_FILE)?) {
        (Some(certificate), Some(key)) => return Authority::load(certificate, key),
        (None, Some(key)) => Authority::from_key(key, now)?,
        (_, None) => Authority::make(now)?,
    };
    // The key first: a certificate without its key would be thrown away at the next start.
    state.write(KEY_FILE, authority.key_pem().as_bytes(), Access::Private)?;
    let certificate = authority.certificate_pem().as_bytes();
    state.write(CA_FILE, certificate, Access::Public)?;
    Ok(authority)
}
