//! When a session ends by itself: decided at given instants, and told to a server on loopback.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::delete;
use hangar_ledger::{Principal, TenantRef};
use hangar_wire::AddressRules;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::upstream::address::Policy;

/// An upstream that is only ever told that sessions are over.
struct Server {
    http: Http,
    uri: Uri,
    ended: mpsc::UnboundedReceiver<String>,
}

/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

// === impl Server ===

impl Server {
    async fn start() -> Self {
        let (tell, ended) = mpsc::unbounded_channel();
        let end = async move |headers: HeaderMap| {
            let id = headers[SESSION_ID].to_str().unwrap_or_default().to_owned();
            let _ = tell.send(id);
        };
        let app = Router::new().route("/mcp", delete(end));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let rules = AddressRules {
            allow: vec!["127.0.0.0/8".into()],
            deny: vec![],
        };
        let policy = Policy::parse(&rules).unwrap();
        Self {
            http: Http::new(Arc::new(policy)).unwrap(),
            uri: uri.parse().unwrap(),
            ended,
        }
    }

    /// Puts a session of this owner into its slot, last used at `used`.
    async fn begin(&self, sessions: &Sessions, name: &str, used: Instant) {
        let session = Session {
            http: self.http.clone(),
            uri: self.uri.clone(),
            id: Some(HeaderValue::from_str(name).unwrap()),
            version: hangar_relay::legacy::VERSIONS[0],
            announced: String::new(),
            has_tasks: true,
            next: AtomicU64::new(1),
            is_lost: AtomicBool::new(false),
        };
        let slot = sessions.slot(owner(name), used);
        *slot.session.lock().await = Some(Arc::new(session));
    }

    /// The id of the next session that was ended.
    async fn ended(&mut self) -> String {
        let ended = tokio::time::timeout(PATIENCE, self.ended.recv()).await;
        ended.expect("no session was ended").unwrap()
    }
}

fn owner(name: &str) -> Option<Owner> {
    let tenant = TenantRef {
        namespace: "default".into(),
        tenant: "acme".into(),
    };
    Owner::new(tenant, Some(Principal::api_key(name))).into()
}

fn holds(sessions: &Sessions, name: &str) -> bool {
    sessions.lock().contains_key(&owner(name))
}

/// One session for each caller that ever came stayed open at its upstream until the process ended.
#[tokio::test]
async fn a_session_that_nobody_used_for_five_minutes_is_ended_and_no_other() {
    let mut server = Server::start().await;
    let sessions = Sessions::default();
    let begun = Instant::now();
    server.begin(&sessions, "quiet", begun).await;
    server.begin(&sessions, "used", begun).await;
    let later = begun + Duration::from_secs(1);
    sessions.slot(owner("used"), later);
    sessions.sweep(begun + IDLE.saturating_sub(Duration::from_nanos(1)));
    assert!(holds(&sessions, "quiet") && holds(&sessions, "used"));
    sessions.sweep(begun + IDLE);
    assert!(!holds(&sessions, "quiet") && holds(&sessions, "used"));
    assert_eq!(server.ended().await, "quiet");
    sessions.sweep(later + IDLE);
    assert_eq!(server.ended().await, "used");
    assert!(server.ended.try_recv().is_err(), "each is ended once");
    assert_eq!(IDLE, Duration::from_mins(5));
}

/// Some upstreams tie a task to the session that it was born in: a client that polled it seldom found
/// it gone.
#[tokio::test]
async fn a_session_in_which_a_task_may_live_is_kept_for_it() {
    let mut server = Server::start().await;
    let sessions = Sessions::default();
    let begun = Instant::now();
    server.begin(&sessions, "tasked", begun).await;
    server.begin(&sessions, "quiet", begun).await;
    let until = begun + Duration::from_hours(1);
    sessions.keep(owner("tasked").as_ref(), until);
    // A later use does not bring its end forward.
    sessions.slot(owner("tasked"), begun + Duration::from_secs(1));
    sessions.sweep(begun + IDLE);
    assert_eq!(server.ended().await, "quiet");
    sessions.sweep(until + IDLE.saturating_sub(Duration::from_nanos(1)));
    assert!(holds(&sessions, "tasked"));
    sessions.sweep(until + IDLE);
    assert_eq!(server.ended().await, "tasked");
    // Whose session is gone already has nothing to keep.
    sessions.keep(owner("nobody").as_ref(), until);
    assert!(!holds(&sessions, "nobody"));
}

/// A session that is in use while it is swept away ends after its last request, not in the middle.
#[tokio::test]
async fn a_session_in_use_is_ended_after_its_last_request() {
    let mut server = Server::start().await;
    let sessions = Sessions::default();
    let begun = Instant::now();
    server.begin(&sessions, "busy", begun).await;
    let slot = sessions.slot(owner("busy"), begun);
    let session = slot.session.lock().await.clone();
    drop(slot);
    sessions.sweep(begun + IDLE);
    assert!(!holds(&sessions, "busy"));
    assert!(server.ended.try_recv().is_err());
    drop(session);
    assert_eq!(server.ended().await, "busy");
}

#[tokio::test]
async fn of_more_sessions_than_the_bound_the_one_that_was_idle_longest_is_ended() {
    let mut server = Server::start().await;
    let sessions = Sessions::default();
    let begun = Instant::now();
    let used = |number: usize| begun + Duration::from_millis(u64::try_from(number).unwrap());
    for number in 0..MAX_SESSIONS {
        server
            .begin(&sessions, &format!("s-{number}"), used(number))
            .await;
    }
    assert_eq!(MAX_SESSIONS, 1024);
    // The first to come is not the one that was idle longest.
    let now = used(MAX_SESSIONS);
    sessions.slot(owner("s-0"), now);
    sessions.slot(owner("one-more"), now);
    assert_eq!(server.ended().await, "s-1");
    assert_eq!(sessions.lock().len(), MAX_SESSIONS);
    assert!(holds(&sessions, "s-0") && holds(&sessions, "one-more"));
    // One that is there already makes nobody go.
    sessions.slot(owner("s-2"), now);
    assert_eq!(sessions.lock().len(), MAX_SESSIONS);
    assert!(server.ended.try_recv().is_err());
}

#[test]
fn an_id_that_is_empty_or_longer_than_any_server_makes_is_none() {
    let id = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_ID, HeaderValue::from_str(text).unwrap());
        id_of(&headers)
    };
    assert_eq!(id("s-1").unwrap(), "s-1");
    assert!(id(&"s".repeat(MAX_ID_BYTES)).is_some());
    assert!(id(&"s".repeat(MAX_ID_BYTES + 1)).is_none());
    assert!(id("").is_none());
    assert!(id_of(&HeaderMap::new()).is_none());
}

/// Each caller of one tenant has a session; enough of them took those of all others.
#[tokio::test]
async fn the_tenant_that_has_most_makes_room() {
    let sessions = Sessions::default();
    let begun = Instant::now();
    let other = |name: &str| {
        let tenant = TenantRef {
            namespace: "default".into(),
            tenant: "globex".into(),
        };
        Some(Owner::new(tenant, Some(Principal::api_key(name))))
    };
    sessions.slot(other("oldest"), begun);
    let later = begun + Duration::from_secs(1);
    for number in 1..MAX_SESSIONS {
        sessions.slot(owner(&format!("s-{number}")), later);
    }
    sessions.slot(owner("one-more"), later + Duration::from_secs(1));
    sessions.slot(other("new"), later + Duration::from_secs(1));
    let held = sessions.lock();
    assert_eq!(held.len(), MAX_SESSIONS);
    assert!(held.contains_key(&other("oldest")) && held.contains_key(&other("new")));
}
