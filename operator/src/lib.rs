//! The operator's shell around `hangar-operator-core`: sources, push endpoint, status, clock.
//!
//! ```text
//! source (folder | Kubernetes) --Change--> control loop --> publisher --> push --> gateways
//!                                              | verdicts                    | acknowledgements
//!                                              +--------> status <-- fleet <-+
//! ```
//!
//! Guarantees: no configuration is pushed before every kind was loaded once; one bad object
//! never stops the others; what a gateway was given is never followed by anything older.
//! Decisions live in the core; here is only fetching, applying and waiting.

pub mod args;
pub mod auth;
pub mod check;
pub mod control;
pub mod epoch;
pub mod fleet;
pub mod graves;
pub mod http;
pub mod metrics;
pub mod owner;
pub mod pki;
pub mod publish;
pub mod push;
pub mod run;
pub mod serve;
pub mod source;
pub mod state;
pub mod status;

/// An error and what caused it, on one line. Some errors of libraries print their cause
/// themselves; it is not said twice.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}
