//! What is kept of a file, and what is counted.

use super::{Recording, distinct};

const FILE: &str = concat!(
    r#"{"origin":"made by hand","revision":"2026-07-28"}"#,
    "\n",
    r#"{"run":"a","ask":{"headers":{},"body":{"id":1,"method":"m","params":{"name":"x"}}},"answer":{"status":200,"headers":{},"body":{"id":1,"result":1.0}}}"#,
    "\n",
    r#"{"run":"b","ask":{"headers":{},"body":{"id":"2","method":"m","params":{"name":"x"}}},"answer":{"status":200,"headers":{},"body":{"id":"2","result":1.0}}}"#,
    "\n",
    r#"{"run":"b","ask":{"headers":{},"body":{"id":3,"method":"m","params":{"name":"x"}}},"answer":{"status":200,"headers":{},"events":[{"method":"n"}]}}"#,
    "\n",
);

#[test]
fn messages_stay_as_they_were_written() {
    let file = Recording::parse("one", FILE).unwrap();
    let [first, _, last] = &file.exchanges[..] else {
        unreachable!("three lines")
    };
    assert!(first.answer.body.as_ref().unwrap().get().contains("1.0"));
    assert_eq!(first.ask.method(), "m");
    assert_eq!(first.ask.param("name").as_deref(), Some("x"));
    assert!(last.answer.is_open() && !first.answer.is_open());
}

#[test]
fn the_id_and_the_run_make_no_exchange_another() {
    let file = Recording::parse("one", FILE).unwrap();
    assert_eq!(distinct(&[file]), 2);
}

#[test]
fn an_unknown_member_is_refused() {
    let text = FILE.replace("\"run\":\"a\"", "\"run\":\"a\",\"more\":1");
    assert!(Recording::parse("one", &text).is_err());
}
