//! An upstream that does what the test says.
//!
//! Left alone it is a correct little MCP server with three tools: `echo` answers at once,
//! `slow` becomes a task that ends when the test says so, `ask` becomes a task with a question.
//! A test can queue or compute other answers for any method, hold them at a gate, send them in
//! pieces and hang up in the middle. Everything that arrives is kept, byte for byte.
//!
//! Caveats: header names are kept in lower case, as the HTTP library gives them.

mod answer;
mod feed;
mod gate;
mod legacy;
mod legacy_tasks;
mod mcp;
mod seen;
mod server;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Framing};
pub use feed::Feed;
pub use gate::Gate;
pub use legacy::Legacy;
pub use legacy_tasks::{LegacyTasks, mk_payload};
pub use mcp::{mk_tool, tools};
pub use seen::Seen;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::wait;

/// A running upstream; its listener closes when this is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    queued: BTreeMap<String, VecDeque<Answer>>,
    scripts: BTreeMap<String, Script>,
    framing: Framing,
    mcp: mcp::Mcp,
}

// === impl Upstream ===

impl Upstream {
    /// Listens on loopback at a free port.
    pub async fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        let address = server::listen(Arc::clone(&shared), stop.clone()).await?;
        Ok(Self {
            address,
            shared,
            _stop: stop.drop_guard(),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The next answer to this JSON-RPC method; several are given out in order, then the
    /// script or the built-in behaviour is back.
    pub fn enqueue(&self, method: &str, answer: Answer) {
        let mut state = self.shared.lock();
        state
            .queued
            .entry(method.to_owned())
            .or_default()
            .push_back(answer);
    }

    /// Every answer to this method from now on, queued ones first.
    pub fn script(&self, method: &str, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        self.shared
            .lock()
            .scripts
            .insert(method.to_owned(), Arc::new(script));
    }

    /// Back to the built-in behaviour.
    pub fn unscript(&self, method: &str) {
        let mut state = self.shared.lock();
        state.scripts.remove(method);
        state.queued.remove(method);
    }

    /// How built-in answers are framed from now on.
    pub fn framing(&self, framing: Framing) {
        self.shared.lock().framing = framing;
    }

    /// What `tools/list` says from now on; for drift.
    pub fn set_tools(&self, tools: Vec<Value>) {
        self.shared.lock().mcp.tools = tools;
    }

    /// The next tasks get these ids; for collisions.
    pub fn set_task_ids(&self, ids: &[&str]) {
        self.shared.lock().mcp.next_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    /// The ids of all tasks, oldest first.
    pub fn tasks(&self) -> Vec<String> {
        self.shared.lock().mcp.ids()
    }

    /// The task as `tasks/get` would give it.
    pub fn task(&self, id: &str) -> Option<Value> {
        self.shared.lock().mcp.public(id)
    }

    /// Completes a live task with this text.
    pub fn complete(&self, id: &str, text: &str) -> Result<()> {
        self.set_task(id, |mcp, id| mcp.complete(id, text))
    }

    /// Fails a live task as a JSON-RPC error.
    pub fn fail(&self, id: &str, code: i64, message: &str) -> Result<()> {
        self.set_task(id, |mcp, id| mcp.fail(id, code, message))
    }

    /// Puts a question to the client of a live task.
    pub fn ask(&self, id: &str, key: &str, question: &str) -> Result<()> {
        self.set_task(id, |mcp, id| mcp.ask(id, key, question))
    }

    /// Sets members of the task as they are, legal or not; null removes one.
    pub fn bend(&self, id: &str, members: &Value) -> Result<()> {
        self.set_task(id, |mcp, id| mcp.bend(id, members))
    }

    /// The upstream has never heard of this task.
    pub fn lose(&self, id: &str) -> Result<()> {
        self.set_task(id, mcp::Mcp::lose)
    }

    /// Everything that arrived, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// What arrived for one JSON-RPC method, in order.
    pub fn seen_of(&self, method: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|one| one.method == method);
        seen
    }

    pub fn count(&self, method: &str) -> usize {
        self.seen_of(method).len()
    }

    /// Waits until that many requests of the method have arrived.
    pub async fn arrived(&self, method: &str, count: usize) -> Result<()> {
        wait::eventually(&format!("{count} {method}"), async || {
            let have = self.count(method);
            ensure!(have >= count, "{have} so far");
            Ok(())
        })
        .await
    }

    fn set_task(&self, id: &str, set: impl FnOnce(&mut mcp::Mcp, &str) -> bool) -> Result<()> {
        let known = set(&mut self.shared.lock().mcp, id);
        ensure!(known, "the upstream has no task {id}, or it has ended");
        Ok(())
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request and decides the answer.
    fn take(&self, seen: &Seen) -> Answer {
        let mut state = self.lock();
        state.seen.push(seen.clone());
        let queued = state
            .queued
            .get_mut(&seen.method)
            .and_then(VecDeque::pop_front);
        let script = state.scripts.get(&seen.method).cloned();
        drop(state);
        // A script may look at the upstream, so it runs without the lock.
        let answer = queued.or_else(|| script.map(|script| script(seen)));
        let answer = answer.unwrap_or_else(Answer::built_in);
        let mut state = self.lock();
        let framing = state.framing;
        answer.filled(framing, || state.mcp.answer(seen))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("seen", &self.seen.len())
            .finish_non_exhaustive()
    }
}
