//! Server-sent events, as far as MCP uses them.

/// The data of each event of a complete stream, in order.
///
/// CRLF, LF and comments are taken; several `data` lines are joined by a line feed; events
/// without data are skipped.
pub fn events(stream: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in stream
        .split('\n')
        .map(|l| l.strip_suffix('\r').unwrap_or(l))
    {
        if line.is_empty() {
            flush(&mut data, &mut events);
        } else if let Some(rest) = line.strip_prefix("data:") {
            data.push(rest.strip_prefix(' ').unwrap_or(rest));
        }
    }
    flush(&mut data, &mut events);
    events
}

/// One event that carries one message.
pub fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

fn flush(data: &mut Vec<&str>, events: &mut Vec<String>) {
    if !data.is_empty() {
        events.push(data.join("\n"));
        data.clear();
    }
}

#[cfg(test)]
mod tests;
