//! Server-sent events in the forms that servers send.

use super::{event, events};

#[test]
fn takes_both_line_ends_comments_and_joined_data() {
    let stream =
        ": hello\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: message\ndata:two\n\n: bye\n\n";
    assert_eq!(events(stream), ["{\"a\":\n1}", "two"]);
}

#[test]
fn takes_a_last_event_without_an_empty_line() {
    assert_eq!(events("data: x"), ["x"]);
}

#[test]
fn reads_back_what_it_writes() {
    let stream = format!("{}{}", event("1"), event("2"));
    assert_eq!(events(&stream), ["1", "2"]);
}
