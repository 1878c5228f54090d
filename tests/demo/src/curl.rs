//! Requests as lines for a shell.

use hangar_tests::envelope::Envelope;

/// The line that sends this request with this API key.
pub(crate) fn mcp(url: &str, key: &str, envelope: &Envelope) -> String {
    let mut words = vec!["curl -s".to_owned(), quote(url)];
    let key = ("authorization".to_owned(), format!("Bearer {key}"));
    for (name, value) in std::iter::once(&key).chain(envelope.headers()) {
        words.push(format!("-H {}", quote(&format!("{name}: {value}"))));
    }
    let body = envelope.body();
    words.push(format!("-d {}", quote(&String::from_utf8_lossy(&body))));
    words.join(" ")
}

/// One word for a POSIX shell, whatever is in it.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
