//! What mutations start from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hangar_relay::json::{self, Members};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Recorded exchanges, spelled as they were.
pub(crate) struct Corpus {
    exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
struct Exchange {
    ask: Side,
    answer: Side,
}

#[derive(Deserialize)]
struct Side {
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    #[serde(default)]
    events: Vec<Box<RawValue>>,
}

/// Wrong in one way each.
const BAD_MESSAGES: [&str; 20] = [
    "",
    "{}",
    "[]",
    "null",
    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
    r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call"}"#,
    r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call","method":"tools/list"}"#,
    r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"taskId":"a","taskId":"b"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"taskId":"a","taskID":"b"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"_meta":{}}}"#,
    "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0000\\n\",\"method\":\"m\"} \n",
    "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}",
    r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
];
const TOOLS: [&str; 9] = [
    r#"{"name":"n","inputSchema":{"maximum":0.5e21,"minimum":-1e20}}"#,
    r#"{"name":"n","inputSchema":{"type":"object"},"x":[1,1.0,1e0,-0,0.5,5e-324,1e21]}"#,
    r#"{"name":"n","description":"\u0061\/\u00e9\ud83d\ude00","inputSchema":{}}"#,
    r#"{"b":1,"a":2,"\u0061a":3,"\uffff":4,"\ud83d\ude00":5,"name":"n"}"#,
    r#"{"name":"n","execution":{"taskSupport":"required"},"inputSchema":{"execution":1}}"#,
    r#"{"name":"n","inputSchema":{"a":1,"a":2}}"#,
    r#"{"name":"n","x":9007199254740993}"#,
    r#"{"name":"n","x":{"$serde_json::private::RawValue":"1"}}"#,
    r#"[{"name":"n"}]"#,
];
const HANDLES: [&str; 12] = [
    r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":null}"#,
    r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":1e3,"pollIntervalMs":5.0}"#,
    r#"{"resultType":"task","taskId":"t","taskId":"u","status":"working","createdAt":"a","lastUpdatedAt":"b"}"#,
    r#"{"resultType":"task","taskId":"","status":"working","createdAt":"a","lastUpdatedAt":"b"}"#,
    r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","result":{}}"#,
    r#"{"task":{"taskId":"t","status":"working"}}"#,
    r#"{"resultType":"complete","task":{"taskId":"t"}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"completed","createdAt":"a","lastUpdatedAt":"b","result":{}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","error":{"code":1}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"input_required","createdAt":"a","lastUpdatedAt":"b","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url"}},"l":{"method":"roots/list"}}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"input_required","createdAt":"a","lastUpdatedAt":"b","inputRequests":{"k":{"method":"roots/list"},"k":{"method":"roots/list"}}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"cancelled","createdAt":"a","lastUpdatedAt":"b","ttlMs":-1}"#,
];
/// Values of `Mcp-Name`.
const NAMES: [&str; 8] = [
    "=?base64?YWJj?=",
    "=?base64??=",
    "=?BASE64?YWJj?=",
    "=?base64?w6k=?=",
    "=?base64?gA==?=",
    "tab\there",
    "a\nmcp-name: a",
    "a\nmcp-method: tools/call",
];
const LONGEST: usize = 2048;
const STREAMS: [&str; 12] = [
    "data: {}\n\n",
    "data: {}\r\n\r\n",
    "data: {}\r\r",
    "\u{feff}data: a\n\n",
    ": keep-alive\n\ndata:b\n\n",
    "event: message\nid: 1\nretry: 5\ndata: a\ndata: b\n\n",
    "data\n\ndata\ndata\n\n",
    "data: a\n\r\ndata: b\r\n\n",
    "data:  two\n\n data: none\n\n",
    "data: cut",
    "\n\n\n\r\r\n\n",
    "Data: a\n\ndatax: b\n\ndata : c\n\n",
];

// === impl Corpus ===

impl Corpus {
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/corpus");
        let mut paths: Vec<_> = fs::read_dir(root)
            .expect("the recorded exchanges")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        let mut exchanges = Vec::new();
        for path in paths {
            #[allow(clippy::disallowed_methods)] // a test reads its corpus
            let text = fs::read_to_string(&path).expect("a recording");
            // The first line says what the file is.
            let lines = text.lines().skip(1);
            exchanges.extend(lines.map(|line| serde_json::from_str(line).expect("an exchange")));
        }
        Self { exchanges }
    }

    /// Bodies of both directions.
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        seeds(self.bodies().chain(BAD_MESSAGES))
    }

    /// Routing headers, a line each.
    pub(crate) fn headers(&self) -> Vec<Vec<u8>> {
        let made = NAMES.map(|name| format!("mcp-method: tools/call\nmcp-name: {name}"));
        let recorded = self.exchanges.iter().map(|exchange| {
            let headers = exchange.ask.headers.iter();
            let routing = headers.filter(|(name, _)| name.starts_with("mcp-"));
            let lines: Vec<_> = routing
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            lines.join("\n")
        });
        let all: Vec<_> = recorded.chain(made).collect();
        seeds(all.iter().map(String::as_str))
    }

    /// Events as they are sent, and streams that are hard to read.
    pub(crate) fn streams(&self) -> Vec<Vec<u8>> {
        let sent = self.exchanges.iter().map(|exchange| {
            let events = exchange.answer.events.iter();
            events
                .map(|event| hangar_relay::sse::encode(event.get()))
                .collect()
        });
        let sent: Vec<String> = sent.filter(|sent: &String| !sent.is_empty()).collect();
        seeds(sent.iter().map(String::as_str).chain(STREAMS))
    }

    pub(crate) fn tools(&self) -> Vec<Vec<u8>> {
        let listed = self.members("result").filter_map(|result| {
            let tools = Members::of(result).ok()?.get("tools")?;
            json::array(tools, 100).ok()
        });
        seeds(listed.flatten().map(RawValue::get).chain(TOOLS))
    }

    /// Handles, snapshots and whatever else a server may answer.
    pub(crate) fn results(&self) -> Vec<Vec<u8>> {
        seeds(self.members("result").map(RawValue::get).chain(HANDLES))
    }

    fn members<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RawValue> {
        self.bodies()
            .filter_map(move |body| Members::parse(body).ok()?.get(name))
    }

    fn bodies(&self) -> impl Iterator<Item = &str> {
        self.exchanges.iter().flat_map(|Exchange { ask, answer }| {
            let bodies = ask.body.iter().chain(&answer.body);
            bodies.chain(&answer.events).map(|body| body.get())
        })
    }
}

/// Each once; long ones are left out, since a mutation of them seldom hits anything.
fn seeds<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let texts = texts.into_iter().filter(|text| text.len() <= LONGEST);
    let mut seeds: Vec<_> = texts.map(|text| text.as_bytes().to_vec()).collect();
    seeds.sort();
    seeds.dedup();
    seeds
}
