//! What waits, what does not, and in which order it is written.

use super::*;

/// Keeps each write apart.
#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<String>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        if !text.is_empty() {
            lock(&self.0).push(text);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0))
    }
}

fn mk_log() -> (Log<Written>, Written) {
    let written = Written::default();
    (Log::new(written.clone()), written)
}

#[test]
fn lines_wait_for_each_other_and_for_no_error() {
    let (log, written) = mk_log();
    log.say(b"one\n", false);
    log.say(b"two\n", false);
    assert_eq!(written.taken(), [""; 0]);
    log.say(b"broken\n", true);
    assert_eq!(written.taken(), ["one\ntwo\nbroken\n"]);
    log.say(b"three\n", false);
    log.flush();
    log.flush();
    assert_eq!(written.taken(), ["three\n"]);
}

#[test]
fn what_waits_is_bounded() {
    let (log, written) = mk_log();
    let line = [b'x'; 1 << 10];
    for _ in 1..MOST / line.len() {
        log.say(&line, false);
    }
    assert_eq!(written.taken(), [""; 0]);
    log.say(&line, false);
    assert_eq!(written.taken()[0].len(), MOST);
}

#[test]
fn the_level_of_an_event_says_whether_it_is_urgent() {
    let (log, written) = mk_log();
    let subscriber = tracing_subscriber::registry().with(
        fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(log.clone()),
    );
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("one");
        tracing::warn!("two");
        assert_eq!(written.taken(), [""; 0]);
        tracing::error!("three");
    });
    let text = written.taken().concat();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let messages: Vec<_> = lines.iter().map(|line| &line["message"]).collect();
    assert_eq!(messages, ["one", "two", "three"]);
}

#[test]
fn whoever_speaks_at_once_is_written_whole_and_in_order() {
    let (log, written) = mk_log();
    std::thread::scope(|scope| {
        for voice in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..500 {
                    log.say(format!("{voice} {n}\n").as_bytes(), n % 7 == 0);
                }
            });
        }
    });
    log.flush();
    let text = written.taken().concat();
    for voice in 0..4 {
        let said: Vec<usize> = text
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{voice} "))?.parse().ok())
            .collect();
        assert!(said.iter().copied().eq(0..500), "{voice}");
    }
}
