//! What must hold of any input; each target says whether the input was accepted.

use hangar_relay::contract;
use hangar_relay::envelope::{self, Echo, Incoming, Message, Reply};
use hangar_relay::headers::{self, Routing, TaskName};
use hangar_relay::json::{Error as JsonError, Members, Tree};
use hangar_relay::method::Method;
use hangar_relay::params::Params;
use hangar_relay::rewrite;
use hangar_relay::sse::{self, Limits, Parser};
use hangar_relay::task::{self, Outcome, Payload};
use hangar_relay::{TasksExtension, wire};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use crate::mutate::Dice;

const ID: &str = "1";
/// A name that must be escaped.
const OTHER: &str = "\"other\"\u{e9}\u{1}\\";

/// A message of either direction: what is accepted is passed on byte for byte.
pub(crate) fn envelope(input: &[u8]) -> bool {
    let request = envelope::parse(input);
    let reply = envelope::parse_incoming(input, &raw(ID));
    if let Ok(text) = std::str::from_utf8(input)
        && has_twice(text)
    {
        assert!(request.is_err(), "a client's key is there twice");
        assert!(reply.is_err(), "an upstream's key is there twice");
    }
    if let Ok(Message::Request(request)) = &request {
        assert_eq!(request.body.as_bytes(), input);
        assert!(request.body.contains(request.id.get()));
        relayed(request);
    }
    match &reply {
        Ok(Incoming::Reply(outcome, echo)) => {
            let part = match outcome {
                Reply::Result(result) => result.get(),
                Reply::Error(error) => error.raw.get(),
            };
            assert!(lies_in(part, input), "a copy instead of what came");
            if *echo == Echo::Exact {
                let id = envelope::id_of(std::str::from_utf8(input).unwrap());
                assert_eq!(id.unwrap().get(), ID);
            }
            let answer = match outcome {
                Reply::Result(result) => wire::result(&raw("\"me\""), result),
                Reply::Error(error) => wire::rpc_error(Some(&raw("\"me\"")), error.raw),
            };
            assert!(
                answer.contains(part),
                "another payload under the client's id"
            );
        }
        Ok(Incoming::Notification(_)) | Err(_) => {}
    }
    request.is_ok() || reply.is_ok()
}

/// The request as it goes upstream, under the same name of the tool.
fn relayed(request: &envelope::Request<'_>) {
    let Some(method) = Method::parse(&request.method) else {
        return;
    };
    let Ok(params) = Params::parse(method, request) else {
        return;
    };
    for member in request.params.into_iter().chain([params.meta.raw]) {
        assert!(!has_twice(member.get()), "a governed key is there twice");
    }
    let Some(name) = params
        .name
        .as_deref()
        .filter(|_| method == Method::ToolsCall)
    else {
        return;
    };
    let tasks = if params.meta.capabilities.tasks.is_yes() {
        TasksExtension::Forward
    } else {
        TasksExtension::Withhold
    };
    let sent = rewrite::call(request, &params, name, tasks);
    if tasks == TasksExtension::Forward || params.meta.capabilities.raw.get() == "{}" {
        assert_eq!(sent, request.body, "not passed byte for byte");
    }
    let mut renamed = rewrite::call(request, &params, OTHER, tasks).into_owned();
    let again = envelope::parse(renamed.as_bytes()).expect("what is sent can be read");
    let Message::Request(again) = again else {
        panic!("a request became something else");
    };
    let read = Params::parse(method, &again).expect("its params can be read");
    assert_eq!(read.name.as_deref(), Some(OTHER));
    // Only the name differs: put back, everything is as it was.
    let spelled = params.members.get("name").unwrap().get();
    let made = read.members.get("name").unwrap().get().to_owned();
    renamed = renamed.replacen(&made, spelled, 1);
    if !request.body.contains(&made) {
        assert_eq!(renamed, sent, "more than the name was changed");
    }
}

/// Header lines, as `name: value`.
pub(crate) fn headers(input: &[u8]) -> bool {
    let mut map = HeaderMap::new();
    let mut is_whole = true;
    for line in input.split(|byte| *byte == b'\n') {
        let colon = line.windows(2).position(|two| two == b": ");
        let parsed = colon.and_then(|at| {
            let name = HeaderName::from_bytes(&line[..at]).ok()?;
            Some((name, HeaderValue::from_bytes(&line[at + 2..]).ok()?))
        });
        match parsed {
            Some((name, value)) => {
                map.append(name, value);
            }
            None => is_whole = false,
        }
    }
    // What a header holds, and what it may stand for: either may be the name of a tool.
    let held = map
        .values()
        .filter_map(|value| value.to_str().ok().map(str::to_owned));
    for text in held.chain(map.values().filter_map(headers::decode)) {
        let made = headers::encode(&text);
        let is_plain = |byte: &u8| (0x20..=0x7e).contains(byte);
        assert!(made.as_bytes().iter().all(is_plain));
        let back = headers::decode(&made).unwrap_or_default();
        assert_eq!(back, text, "another value went upstream");
    }
    let count = |name: &HeaderName| map.get_all(name).iter().count();
    let governed = [
        headers::MCP_METHOD,
        headers::MCP_NAME,
        headers::MCP_PROTOCOL_VERSION,
    ];
    let Ok(routing) = Routing::read(&map) else {
        return false;
    };
    assert!(
        governed.iter().all(|name| count(name) < 2),
        "one of two was taken"
    );
    let text = |name: &HeaderName| map.get(name).and_then(headers::decode);
    let method = text(&headers::MCP_METHOD).and_then(|method| Method::parse(&method));
    let (Some(method), Some(version)) = (method, text(&headers::MCP_PROTOCOL_VERSION)) else {
        return is_whole;
    };
    let name = text(&headers::MCP_NAME);
    let agree = |name: Option<&str>| routing.agree(method, &version, name, TaskName::Required);
    assert!(agree(name.as_deref()).is_ok());
    assert!(agree(Some("something else entirely")).is_err());
    is_whole
}

/// A stream, read whole, byte by byte, and in pieces.
pub(crate) fn sse(input: &[u8]) -> bool {
    let limits = Limits {
        event_bytes: 4096,
        junk_bytes: 4096,
    };
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut parser, mut events) = (Parser::new(limits), Vec::new());
        for mut piece in pieces {
            loop {
                match parser.next(&mut piece) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(error) => return (events, Err(error)),
                }
            }
            assert!(
                parser.held() <= 2 * 4096 + 16,
                "more is kept than the bound"
            );
        }
        (events, Ok(()))
    };
    let whole = read(&mut [input].into_iter());
    assert_eq!(whole, read(&mut input.chunks(1)), "cut into bytes");
    let mut dice = Dice::new(input.len() as u64);
    for _ in 0..3 {
        let mut cuts: Vec<_> = (0..4).map(|_| dice.below(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let mut pieces = cuts.windows(2).map(|two| &input[two[0]..two[1]]);
        assert_eq!(whole, read(&mut pieces), "cut at {cuts:?}");
    }
    let (events, end) = whole;
    if end.is_ok() {
        let text = input
            .iter()
            .map(|byte| char::from(*byte))
            .collect::<String>();
        let plain = |event: &String| event.bytes().map(char::from).collect::<String>();
        let read: Vec<_> = events.iter().map(plain).collect();
        assert_eq!(
            read,
            by_the_book(&text),
            "read otherwise than the standard says"
        );
    }
    // What is sent on says the same: line ends alone may change, as they do between JSON tokens.
    let sent: String = events.iter().map(|event| sse::encode(event)).collect();
    let mut once = [sent.as_bytes()].into_iter();
    let wide = Limits {
        event_bytes: 1 << 20,
        junk_bytes: 1 << 20,
    };
    let (mut parser, mut again) = (Parser::new(wide), Vec::new());
    let mut rest = once.next().unwrap_or_default();
    while let Some(event) = parser.next(&mut rest).expect("what is sent can be read") {
        again.push(event);
    }
    assert_eq!(again, events, "sent on, the stream says something else");
    end.is_ok() && !events.is_empty()
}

/// The events of a whole stream, as the HTML standard has it; a character is a byte here.
fn by_the_book(stream: &str) -> Vec<String> {
    let stream = stream.strip_prefix("\u{ef}\u{bb}\u{bf}").unwrap_or(stream);
    let lines = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut data) = (Vec::new(), Vec::new());
    // What stands behind the last line end is no line yet.
    let whole = lines.rsplit_once('\n').map(|(whole, _)| whole.split('\n'));
    for line in whole.into_iter().flatten() {
        match line.split_once(':') {
            _ if line.is_empty() && data.is_empty() => {}
            _ if line.is_empty() => {
                events.push(data.join("\n"));
                data.clear();
            }
            Some(("data", value)) => data.push(value.strip_prefix(' ').unwrap_or(value)),
            None if line == "data" => data.push(""),
            Some(_) | None => {}
        }
    }
    events
}

/// A tool: its digest is that of its canonical form, and of nothing else.
pub(crate) fn tools(input: &[u8]) -> bool {
    let Some(tool) = parsed(input) else {
        return false;
    };
    let digest = contract::digest(&tool);
    let tree = Tree::parse(&tool);
    if has_twice_anywhere(tool.get()) {
        assert!(digest.is_err() && tree.is_err(), "a key is there twice");
    }
    let Ok(tree) = tree else {
        assert!(digest.is_err());
        return false;
    };
    let canonical = serde_json_text(&tree);
    match Tree::parse(&raw(&canonical)) {
        Ok(again) => {
            assert!(again == tree, "the canonical form says something else");
            assert_eq!(serde_json_text(&again), canonical, "not idempotent");
        }
        Err(error) => {
            assert_eq!(
                error,
                JsonError::BigInteger,
                "the canonical form is refused"
            );
            assert!(has_long_double(&tree), "an integer that was none");
            return digest.is_ok();
        }
    }
    let Ok(digest) = digest else {
        assert!(!matches!(tree, Tree::Object(_)), "a tool without a digest");
        return false;
    };
    assert_eq!(contract::digest(&raw(&canonical)), Ok(digest));
    assert_eq!(
        contract::digest(&raw(&format!(" {canonical}\n"))),
        Ok(digest)
    );
    let Tree::Object(mut members) = tree else {
        panic!("a digest of what is no tool");
    };
    members.remove("execution");
    let without = serde_json_text(&Tree::Object(members.clone()));
    assert_eq!(
        contract::digest(&raw(&without)),
        Ok(digest),
        "execution counts"
    );
    // Any other member does.
    members.insert("x-fuzz".to_owned(), Tree::Array(vec![Tree::Null]));
    let more = serde_json_text(&Tree::Object(members));
    assert_ne!(
        contract::digest(&raw(&more)),
        Ok(digest),
        "a member does not count"
    );
    true
}

/// Whether a double is in it whose canonical form is digits alone, as those of an integer beyond 2^53 are:
/// that form is hashed, and refused where it is read.
fn has_long_double(tree: &Tree) -> bool {
    match tree {
        Tree::Float(value) => value.fract() == 0.0 && value.abs() < 1e21,
        Tree::Array(values) => values.iter().any(has_long_double),
        Tree::Object(members) => members.values().any(has_long_double),
        Tree::Null | Tree::Bool(_) | Tree::Integer(_) | Tree::String(_) => false,
    }
}

/// A result: of `tools/call`, and of `tasks/get`.
pub(crate) fn handles(input: &[u8]) -> bool {
    let Some(result) = parsed(input) else {
        return false;
    };
    let twice = has_twice(result.get());
    let outcome = task::classify(&result);
    assert!(
        !twice || matches!(outcome, Outcome::Invalid(_)),
        "a key is there twice"
    );
    if let Outcome::Task(snapshot) = &outcome {
        let members = Members::of(&result).unwrap();
        assert_eq!(
            members.string("taskId").as_deref(),
            Some(&*snapshot.task_id)
        );
        assert!((1..=256).contains(&snapshot.task_id.len()));
        assert!(members.get("task").is_none(), "two handles in one");
    }
    let id = task::suspected_id(&result);
    let Some(polled) = id.as_deref().and_then(|id| task::polled(&result, id).ok()) else {
        return !matches!(outcome, Outcome::Invalid(_));
    };
    assert!(!twice, "a key is there twice");
    assert_eq!(polled.raw.get(), result.get(), "not passed byte for byte");
    assert_eq!(Some(&polled.snapshot.task_id), id.as_ref());
    let other = format!("{}x", polled.snapshot.task_id);
    assert!(
        task::polled(&result, &other).is_err(),
        "an answer about another task"
    );
    // Payloads go with their status and with no other.
    let members = Members::of(&result).unwrap();
    let has = |name| members.get(name).is_some_and(|raw| raw.get() != "null");
    let (done, failed, asks) = match &polled.payload {
        Payload::None => (false, false, false),
        Payload::Completed { .. } => (true, false, false),
        Payload::Failed { .. } => (false, true, false),
        Payload::InputRequired { requests } => {
            assert!(!requests.is_empty() && requests.len() <= task::MAX_OUTSTANDING);
            let unlike = requests.iter().all(|q| !has_twice(q.raw.get()));
            assert!(unlike, "a question has a key twice");
            (false, false, true)
        }
    };
    assert_eq!(
        (has("result"), has("error"), has("inputRequests")),
        (done, failed, asks)
    );
    true
}

/// One object level has a key twice, however it is written; judged without the code under test.
fn has_twice(text: &str) -> bool {
    matches!(Members::parse(text), Err(JsonError::Duplicate)) || naive(text, 1)
}

fn has_twice_anywhere(text: &str) -> bool {
    naive(text, usize::MAX)
}

/// Looks for equal keys down to this depth, by a reader of its own.
fn naive(text: &str, depth: usize) -> bool {
    let mut levels: Vec<Option<Vec<String>>> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '{' => levels.push(Some(Vec::new())),
            '[' => levels.push(None),
            '}' | ']' => drop(levels.pop()),
            '"' => {
                let Some((string, after)) = string(rest) else {
                    return false;
                };
                let is_key = after.trim_start().starts_with(':');
                let is_seen = levels.len() <= depth;
                if let Some(Some(keys)) = levels.last_mut().filter(|_| is_key && is_seen) {
                    if keys.contains(&string) {
                        return serde_json::from_str::<&RawValue>(text).is_ok();
                    }
                    keys.push(string);
                }
                rest = after;
                continue;
            }
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    false
}

/// The string at the front, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => {
                let read = serde_json::from_str(&text[..=at]).ok()?;
                return Some((read, &text[at + 1..]));
            }
            _ => is_escaped = false,
        }
    }
    None
}

fn lies_in(part: &str, whole: &[u8]) -> bool {
    let range = whole.as_ptr_range();
    range.contains(&part.as_ptr()) && part.len() <= whole.len()
}

fn parsed(input: &[u8]) -> Option<Box<RawValue>> {
    serde_json::from_slice(input).ok()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

/// The RFC 8785 form.
fn serde_json_text(tree: &Tree) -> String {
    let bytes = hangar_wire::canonical(tree).expect("a tree has a canonical form");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}
