//! The parts that need no process of ours.

use std::fs;
use std::process::Command;

use hangar_tests::envelope::Envelope;
use serde_json::json;

use hangar_tests::teller::Teller;

use crate::{curl, quickstart};

const UPSTREAM: &str = "
kind: McpUpstream
metadata: {name: reports}
spec: {endpoint: {url: http://127.0.0.1:7411/mcp}}
";

const TENANT: &str = "
kind: TenantPolicy
metadata: {name: acme}
spec:
  tenant: acme-corporation
  subjects:
  - {name: staff, type: APIKeys, apiKeys: {secretRef: {name: acme-keys}}}
  - {name: absent, type: APIKeys, apiKeys: {secretRef: {name: no-such-secret}}}
---
kind: Secret
metadata: {name: acme-keys}
stringData:
  alice: |
    alice-new-key
    alice-old-key
  bob: bob-key
---
kind: Secret
metadata: {name: unused}
stringData: {mallory: mallory-key}
";

fn mk_quickstart(upstream: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("upstream.yaml"), upstream).unwrap();
    fs::write(folder.path().join("acme.yaml"), TENANT).unwrap();
    folder
}

fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_quoted_word_is_one_word_whatever_is_in_it() {
    for word in ["plain", "two words", "it's", "$HOME `id` \"\\", "''", ""] {
        assert_eq!(
            shell(&format!("printf '[%s]' {}", curl::quote(word))),
            format!("[{word}]")
        );
    }
}

#[test]
fn the_pasted_line_sends_what_the_story_sent() {
    let call = Envelope::call("greet", json!({"name": "O'Hara"}));
    let line = curl::mcp("http://127.0.0.1:1/mcp/default/reports", "key-1", &call);
    let words = shell(&format!("curl() {{ printf '%s\\n' \"$@\"; }}; {line}"));
    let words: Vec<_> = words.lines().collect();
    assert_eq!(words[..2], ["-s", "http://127.0.0.1:1/mcp/default/reports"]);
    assert!(words.contains(&"authorization: Bearer key-1"), "{words:?}");
    for (name, value) in call.headers() {
        assert!(
            words.contains(&format!("{name}: {value}").as_str()),
            "{name} in {words:?}"
        );
    }
    assert_eq!(words.last().unwrap().as_bytes(), call.body());
}

#[test]
fn the_copy_points_at_the_running_upstream() {
    let (from, to) = (mk_quickstart(UPSTREAM), tempfile::tempdir().unwrap());
    let names = quickstart::copy(from.path(), to.path(), "http://127.0.0.1:9/mcp").unwrap();
    assert_eq!(names, ["acme.yaml", "upstream.yaml"]);
    let upstream = fs::read_to_string(to.path().join("upstream.yaml")).unwrap();
    assert_eq!(upstream, UPSTREAM.replace("127.0.0.1:7411", "127.0.0.1:9"));
    assert_eq!(
        fs::read_to_string(to.path().join("acme.yaml")).unwrap(),
        TENANT
    );
}

#[test]
fn a_quickstart_that_moved_its_upstream_is_refused() {
    let (from, to) = (
        mk_quickstart("kind: McpUpstream\n"),
        tempfile::tempdir().unwrap(),
    );
    let error = quickstart::copy(from.path(), to.path(), "http://127.0.0.1:9/mcp").unwrap_err();
    assert!(error.to_string().contains("upstream.yaml"), "{error}");
}

#[test]
fn callers_are_those_whom_a_policy_admits() {
    let folder = mk_quickstart(UPSTREAM);
    let callers = quickstart::callers(folder.path()).unwrap();
    let found: Vec<_> = callers
        .values()
        .map(|caller| {
            (
                caller.tenant.as_str(),
                caller.principal.as_str(),
                caller.key.as_str(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("acme-corporation", "alice", "alice-new-key"),
            ("acme-corporation", "bob", "bob-key"),
        ]
    );
}

#[test]
fn steps_are_numbered_and_each_line_to_try_names_its_step() {
    let mut told = Vec::new();
    let mut teller = Teller::new(&mut told);
    teller.step("Called").unwrap();
    teller.paste("curl one");
    teller.step("Result").unwrap();
    teller.say("completed").unwrap();
    teller.held("P3", "verified").unwrap();
    teller.paste("curl two");
    teller.pastes().unwrap();
    let told = String::from_utf8(told).unwrap();
    let result = " 2  Result\n    completed\n    => P3: verified\n";
    assert!(told.contains(result), "{told}");
    assert!(
        told.contains("# step 1\ncurl one\n\n# step 2\ncurl two\n"),
        "{told}"
    );
}
