//! Subscriptions over real TLS on loopback.

use std::net::SocketAddr;
use std::time::SystemTime;

use hangar_wire::{AddressRules, Pod, SERVER_NAME, Tenant, Term};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::task::JoinHandle;

use super::*;
use crate::auth::token::{self, PodToken};
use crate::epoch::folder::FolderEpoch;
use crate::graves::Graves;
use crate::pki::{Authority, Serving};
use crate::serve::{Transport, bind, serve};
use crate::state::StateDir;

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

struct Rig {
    address: SocketAddr,
    authority: String,
    token: String,
    publisher: Arc<Publisher>,
    fleet: Arc<Fleet>,
    metrics: Metrics,
    stop: CancellationToken,
    server: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Rig {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path());
        let authority = Authority::make(SystemTime::now()).unwrap();
        let authority_pem = authority.certificate_pem().to_owned();
        let serving = Serving::new(authority, SystemTime::now()).unwrap();
        let pod_token = PodToken::load_or_make(&state).unwrap();
        let token = state.read_text(token::FILE).unwrap().unwrap();
        let epochs = FolderEpoch::new(state);
        let publisher = Arc::new(
            Publisher::start(Box::new(epochs), Graves::default())
                .await
                .unwrap(),
        );
        let (fleet, stop) = (Fleet::new(), CancellationToken::new());
        let metrics = Metrics::new().unwrap();
        let router = router(Push {
            authenticator: Authenticator::Token(Arc::new(pod_token)),
            publisher: Arc::clone(&publisher),
            fleet: Arc::clone(&fleet),
            metrics: metrics.clone(),
            stop: stop.clone(),
        });
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Transport::tls(serving).unwrap();
        let server = tokio::spawn(serve(listener, tls, router, stop.clone()));
        Self {
            address,
            authority: authority_pem,
            token,
            publisher,
            fleet,
            metrics,
            stop,
            server,
            _dir: dir,
        }
    }

    fn client(&self) -> HttpsClient {
        let mut roots = rustls::RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(SERVER_NAME).unwrap();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
            .enable_all_versions()
            .build();
        Client::builder(TokioExecutor::new()).build(connector)
    }

    fn request(&self, token: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
        Request::post(format!("https://{}{SUBSCRIBE_PATH}", self.address))
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::new(body.into()))
            .unwrap()
    }

    async fn post(&self, client: &HttpsClient, token: &str, body: Vec<u8>) -> (StatusCode, Bytes) {
        let response = client.request(self.request(token, body)).await.unwrap();
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    }

    async fn subscribe(
        &self,
        client: &HttpsClient,
        held: Option<Held>,
    ) -> Option<hangar_wire::Snapshot> {
        let (status, body) = self.post(client, &self.token, mk_body(held)).await;
        assert_eq!(status, StatusCode::OK, "{body:?}");
        hangar_wire::decode::<Update>(&body).unwrap().snapshot
    }

    async fn publish(&self, tenants: Vec<Tenant>) -> Arc<Published> {
        let rules = AddressRules::default();
        let published = self.publisher.publish(rules, vec![], tenants).await;
        published.unwrap().unwrap()
    }

    /// Waits until this many pods count as subscribed.
    async fn subscribed(&self, wanted: usize) {
        let mut changes = self.fleet.changes();
        let reached = changes.wait_for(|_| self.fleet.view().pods.len() == wanted);
        let outcome = tokio::time::timeout(Duration::from_secs(20), reached).await;
        outcome.expect("the number of pods is reached").unwrap();
    }
}

fn mk_body(held: Option<Held>) -> Vec<u8> {
    let pod = Pod {
        namespace: "hangar".into(),
        name: "gateway-0".into(),
        uid: "uid-0".into(),
    };
    let subscribe = Subscribe {
        format: FORMAT,
        pod,
        held,
        rejected: vec![],
    };
    serde_json::to_vec(&subscribe).unwrap()
}

fn mk_tenant(name: &str) -> Tenant {
    serde_json::from_value(serde_json::json!({
        "namespace": "default", "name": name, "uid": "u1", "generation": 1, "tenant": name,
        "admission": "Open", "subjects": [], "grants": [],
        "limits": {"liveTasks": 1, "requestsPerSecond": 2, "burst": 3},
    }))
    .unwrap()
}

fn reason(body: &[u8]) -> String {
    serde_json::from_slice::<Refused>(body).unwrap().reason
}

#[tokio::test]
async fn nothing_is_answered_before_the_first_configuration() {
    let rig = Rig::new().await;
    let client = rig.client();
    let (status, body) = rig.post(&client, &rig.token, mk_body(None)).await;
    assert_eq!(
        (status, &*reason(&body)),
        (StatusCode::SERVICE_UNAVAILABLE, "NotReady")
    );
    assert!(rig.fleet.view().pods.is_empty());
}

#[tokio::test]
async fn a_change_is_pushed_and_the_next_request_acknowledges_it() {
    let rig = Rig::new().await;
    let client = rig.client();
    let first = rig.publish(vec![]).await;
    let snapshot = rig.subscribe(&client, None).await.unwrap();
    snapshot.verify().unwrap();
    assert_eq!(snapshot.held(), first.held);
    assert_eq!(rig.fleet.counts(Some(first.held)).programmed, 0);

    let waiting = rig.subscribe(&client, Some(snapshot.held()));
    let edit = async {
        let counts = || rig.fleet.counts(Some(first.held));
        let mut changes = rig.fleet.changes();
        changes
            .wait_for(|_| counts().programmed == 1)
            .await
            .unwrap();
        rig.publish(vec![mk_tenant("acme")]).await
    };
    let (snapshot, second) = tokio::join!(waiting, edit);
    let snapshot = snapshot.unwrap();
    assert_eq!(snapshot.held(), second.held);
    assert_eq!(snapshot.tenants, [mk_tenant("acme")]);

    let waiting = tokio::spawn(client.request(rig.request(&rig.token, mk_body(Some(second.held)))));
    let mut changes = rig.fleet.changes();
    let acknowledged = || rig.fleet.counts(Some(second.held)).programmed == 1;
    changes.wait_for(|_| acknowledged()).await.unwrap();
    let view = rig.fleet.view();
    let (_, pod) = view.pods.first_key_value().unwrap();
    assert_eq!(pod.acknowledged, second.digests);
    let text = rig.metrics.render().unwrap();
    assert!(
        text.contains("operator_propagation_seconds_count 1"),
        "{text}"
    );

    rig.stop.cancel();
    let response = waiting.await.unwrap().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(hangar_wire::decode::<Update>(&body).unwrap().snapshot, None);
    rig.server.await.unwrap();
}

#[tokio::test]
async fn strangers_and_riddles_are_refused() {
    let rig = Rig::new().await;
    rig.publish(vec![]).await;
    let client = rig.client();
    let newer = br#"{"format":2,"pod":"in another shape"}"#.to_vec();
    let large = vec![b' '; MAX_REQUEST_BYTES + 1];
    for (token, body, status, word) in [
        (
            "wrong",
            mk_body(None),
            StatusCode::UNAUTHORIZED,
            "TokenInvalid",
        ),
        (&*rig.token, newer, StatusCode::BAD_REQUEST, "UnknownFormat"),
        (
            &rig.token,
            b"{}".to_vec(),
            StatusCode::BAD_REQUEST,
            "Malformed",
        ),
        (&rig.token, large, StatusCode::PAYLOAD_TOO_LARGE, "TooLarge"),
    ] {
        let (found, body) = rig.post(&client, token, body).await;
        assert_eq!((found, &*reason(&body)), (status, word));
    }
    let mut request = rig.request("x", mk_body(None));
    request.headers_mut().remove(AUTHORIZATION);
    let response = client.request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(rig.fleet.view().pods.is_empty());
}

#[tokio::test]
async fn a_dropped_connection_unsubscribes() {
    let rig = Rig::new().await;
    let published = rig.publish(vec![]).await;
    let client = rig.client();
    let request = rig.request(&rig.token, mk_body(Some(published.held)));
    let waiting = tokio::spawn(client.request(request));
    rig.subscribed(1).await;
    waiting.abort();
    drop(client);
    rig.subscribed(0).await;
}

#[tokio::test]
async fn a_gateway_with_a_higher_term_is_outranked_and_answered_at_once() {
    let rig = Rig::new().await;
    let published = rig.publish(vec![]).await;
    let mut held = published.held;
    held.term = Term {
        epoch: hangar_wire::Epoch(7),
        ..held.term
    };
    let snapshot = rig.subscribe(&rig.client(), Some(held)).await.unwrap();
    assert!(snapshot.term > held.term);
    snapshot.verify().unwrap();
}

#[tokio::test]
async fn another_name_than_ours_is_not_served() {
    let rig = Rig::new().await;
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(rig.authority.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    assert!(connector.connect(name, stream).await.is_err());
}
