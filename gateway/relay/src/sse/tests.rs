//! The stream parser.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    event_bytes: 64,
    junk_bytes: 256,
};

/// Feeds chunks and collects events until the stream ends or is given up.
fn read<'c>(
    limits: Limits,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> (Vec<String>, Option<Error>) {
    let mut parser = Parser::new(limits);
    let mut events = Vec::new();
    for mut chunk in chunks {
        loop {
            match parser.next(&mut chunk) {
                Ok(Some(data)) => events.push(data),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
        assert!(chunk.is_empty());
    }
    (events, None)
}

#[test]
fn streams_as_servers_write_them() {
    let cases: [(&[u8], &[&str]); 13] = [
        (b"data: {}\n\n", &["{}"]),
        (b"event: message\ndata: {}\n\n", &["{}"]),
        (b"data: {}\r\n\r\n", &["{}"]),
        (b"data: {}\r\r", &["{}"]),
        (b"\xef\xbb\xbfdata: {}\n\n", &["{}"]),
        (b": keep-alive\n\ndata:{}\n\n", &["{}"]),
        (b"data: {\ndata: }\n\n", &["{\n}"]),
        (b"data:  a\n\n", &[" a"]),
        (b"data\n\n", &[""]),
        (b"id: 1\nretry: 5\ndata: a\n\ndata: b\n\n", &["a", "b"]),
        (b"Data: a\ndatax: b\n data: c\n\n", &[]),
        (b"data: cut off\n", &[]),
        (
            b"data: a\r\n\r\ndata: b\n\r\ndata: c\r\n\n",
            &["a", "b", "c"],
        ),
    ];
    for (stream, events) in cases {
        let shown = String::from_utf8_lossy(stream);
        let (seen, error) = read(LIMITS, [stream]);
        assert_eq!(
            (seen, error),
            (events.iter().map(|&e| e.to_owned()).collect(), None),
            "{shown:?}"
        );
    }
}

#[test]
fn a_mark_counts_at_the_start_only() {
    let (events, _) = read(LIMITS, [b"data: a\n\n\xef\xbb\xbfdata: b\n\n".as_slice()]);
    assert_eq!(events, ["a"]);
}

#[test]
fn bounds_hold() {
    let fits = format!("data: {}\n\n", "x".repeat(64));
    assert_eq!(read(LIMITS, [fits.as_bytes()]).0.len(), 1);
    let long = format!("data: {}\n\n", "x".repeat(65));
    assert_eq!(
        read(LIMITS, [long.as_bytes()]).1,
        Some(Error::EventTooLarge)
    );
    let endless = "x".repeat(74);
    assert_eq!(
        read(LIMITS, [endless.as_bytes()]).1,
        Some(Error::EventTooLarge)
    );
    let lines = "data: 0123456789\n".repeat(6);
    assert_eq!(
        read(LIMITS, [lines.as_bytes()]).1,
        Some(Error::EventTooLarge)
    );
    assert_eq!(
        read(LIMITS, [b"data: \xff\n\n".as_slice()]).1,
        Some(Error::NotUtf8)
    );
}

#[test]
fn comments_fields_and_empty_lines_run_out() {
    for junk in [":\n", "id: 1\n", "\n", "\r\n", "\r"] {
        let stream = junk.repeat(1_000_000);
        assert_eq!(
            read(LIMITS, [stream.as_bytes()]).1,
            Some(Error::TooMuchJunk),
            "{junk:?}"
        );
    }
}

/// A client of the Rust SDK skipped events that it could not decode by recursion, and a burst of
/// them overflowed the stack.
#[test]
fn fifty_thousand_useless_events_are_bounded() {
    let limits = Limits {
        event_bytes: 1 << 20,
        junk_bytes: 1 << 18,
    };
    let stream = "data: x\n\n".repeat(50_000) + "data: {}\n\n";
    let mut chunk = stream.as_bytes();
    let mut parser = Parser::new(limits);
    let mut seen = 0;
    while let Some(data) = parser.next(&mut chunk).unwrap() {
        seen += 1;
        if data == "{}" {
            break;
        }
    }
    assert_eq!(seen, 50_001);

    let mut chunk = stream.as_bytes();
    let mut parser = Parser::new(limits);
    let mut rejected = 0;
    let error = loop {
        let data = parser.next(&mut chunk).unwrap().unwrap();
        match parser.reject(data.len()) {
            Ok(()) => rejected += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::TooMuchJunk);
    assert_eq!(rejected, (1 << 18) / (1 + REJECT_COST));
}

#[test]
fn what_we_send_reads_back() {
    assert_eq!(encode("{}"), "event: message\ndata: {}\n\n");
    let (events, error) = read(LIMITS, [encode("{\n\"a\":1}").as_bytes()]);
    assert_eq!((events, error), (vec!["{\n\"a\":1}".to_owned()], None));
}

#[test]
fn debug_shows_no_data() {
    let mut parser = Parser::new(LIMITS);
    parser
        .next(&mut b"data: canary\ndata: can".as_slice())
        .unwrap();
    let shown = format!("{parser:?}");
    assert!(!shown.contains("can"), "{shown}");
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data:a".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b": c".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunks_make_no_difference(stream in pieces(), cuts in proptest::collection::vec(0_usize..200, 0..12)) {
        let whole = read(LIMITS, [stream.as_slice()]);
        let singles = read(LIMITS, stream.chunks(1));
        prop_assert_eq!(&singles, &whole);

        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(&read(LIMITS, chunks), &whole);
    }

    #[test]
    fn every_message_reads_back(message in "[^\r\n]{0,60}") {
        let limits = Limits { event_bytes: 1024, junk_bytes: 256 };
        let stream = encode(&message);
        prop_assert_eq!(read(limits, [stream.as_bytes()]), (vec![message], None));
    }
}
