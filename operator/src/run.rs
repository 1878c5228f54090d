//! `hangar-operator run`: wires the parts and waits for them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use hangar_operator_core::Settings;
use hangar_wire::AddressRules;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::args::Run;
use crate::auth::Authenticator;
use crate::auth::review::Reviewer;
use crate::auth::token::{self, PodToken};
use crate::control::{Control, Verdicts};
use crate::epoch::EpochStore;
use crate::epoch::cluster::ClusterEpoch;
use crate::epoch::folder::FolderEpoch;
use crate::fleet::Fleet;
use crate::graves::Graves;
use crate::http;
use crate::metrics::Metrics;
use crate::owner::Owner;
use crate::pki::{self, Serving};
use crate::publish::{self, Publisher};
use crate::push::{self, Push};
use crate::serve::{Transport, bind, serve};
use crate::source::Source;
use crate::source::folder::Folder;
use crate::source::kubernetes::Kubernetes;
use crate::source::trouble::Troubles;
use crate::state::{self, StateDir};
use crate::status::cluster::ClusterWriter;
use crate::status::folder::{self as folder_status, FolderWriter};
use crate::status::{Book, Reporter, Writer};

/// Sockets, bound before anything else so that a wrong address is found at once.
#[derive(Debug)]
pub struct Listeners {
    pub push: TcpListener,
    pub metrics: TcpListener,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot listen where {0} says")]
    Listen(&'static str, #[source] io::Error),
    #[error("cannot register metrics")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot prepare the certificate authority")]
    Pki(#[from] pki::Error),
    #[error("cannot prepare the pod token")]
    Token(#[from] token::Error),
    #[error("cannot prepare TLS")]
    Tls(#[from] rustls::Error),
    #[error("cannot use the state folder")]
    State(#[from] state::Error),
    #[error("cannot take an epoch")]
    Publish(#[from] publish::Error),
    #[error("cannot reach a cluster; give --manifests DIR to run without one")]
    Cluster(#[source] Box<kube::Error>),
    #[error("cannot ask the cluster who the operator is, with a SelfSubjectReview")]
    Owner(#[source] Box<kube::Error>),
    #[error("`{0}` ended by itself")]
    Ended(&'static str),
}

/// What differs between folder and cluster mode.
struct Mode {
    source: Box<dyn Source>,
    writer: Box<dyn Writer>,
    epochs: Box<dyn EpochStore>,
    graves: Graves,
    authority: pki::Authority,
    /// What others can take away of the authority.
    published: Option<pki::cluster::Published>,
    authenticator: Authenticator,
    policy_namespaces: Option<BTreeSet<String>>,
    /// Keeps other operators out of the state folder.
    lock: Option<File>,
}

/// What both modes are built upon.
struct Shared {
    fleet: Arc<Fleet>,
    book: Arc<Book>,
    metrics: Metrics,
    troubles: Troubles,
}

/// Changes on their way to the control loop; a full channel slows the source down.
const CHANGES: usize = 1024;
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The whole process: logs, runtime, signals.
pub fn main(args: Run) -> ExitCode {
    init_logs();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(stop_on_signal(stop.clone()));
        let listeners = Listeners::bind(args.push_address, args.metrics_address).await?;
        run(args, listeners, stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs until stopped, or until a part fails.
pub async fn run(args: Run, listeners: Listeners, stop: CancellationToken) -> Result<(), Error> {
    let addresses = address_rules(&args);
    let class = args.class.clone();
    let metrics = Metrics::new()?;
    let (mode, shared) = Mode::new(args, metrics.clone()).await?;
    let Mode {
        source,
        writer,
        epochs,
        graves,
        authority,
        published,
        authenticator,
        policy_namespaces,
        lock: _lock,
    } = mode;
    let Shared {
        fleet,
        book,
        metrics: _,
        troubles,
    } = shared;
    let serving = Serving::new(authority, SystemTime::now())?;
    let publisher = Arc::new(Publisher::start(epochs, graves).await?);
    let (verdicts, judged) = watch::channel(Verdicts::default());
    let (sender, changes) = mpsc::channel(CHANGES);
    let settings = Settings {
        class,
        policy_namespaces,
        addresses,
    };
    let control = Control::new(settings, Arc::clone(&publisher), verdicts, metrics.clone());
    let reporter = Reporter {
        verdicts: judged,
        fleet: Arc::clone(&fleet),
        publisher: Arc::clone(&publisher),
        book,
        writer,
        metrics: metrics.clone(),
        since: OnceLock::new(),
    };
    let push = push::router(Push {
        authenticator,
        publisher: Arc::clone(&publisher),
        fleet,
        metrics: metrics.clone(),
        stop: stop.clone(),
    });
    let probes = http::router(metrics, publisher, troubles);
    let tls = Transport::tls(Arc::clone(&serving))?;
    listeners.announce()?;

    let mut parts = Parts::new(stop.clone());
    parts.spawn("source", source.run(sender, stop.clone()));
    parts.spawn("control loop", control.run(changes, stop.clone()));
    parts.spawn("status", reporter.run(stop.clone()));
    parts.spawn("certificate renewal", serving.keep_fresh(stop.clone()));
    if let Some(published) = published {
        parts.spawn("authority", published.keep(stop.clone()));
    }
    parts.spawn(
        "push endpoint",
        serve(listeners.push, tls, push, stop.clone()),
    );
    parts.spawn(
        "metrics endpoint",
        serve(listeners.metrics, Transport::Plain, probes, stop),
    );
    parts.join().await
}

fn address_rules(args: &Run) -> AddressRules {
    AddressRules {
        allow: args.allow_addresses.clone(),
        deny: args.deny_addresses.clone(),
    }
}

/// Tasks that all run as long as the process.
struct Parts {
    stop: CancellationToken,
    tasks: JoinSet<&'static str>,
}

fn init_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().json().flatten_event(true))
        .init();
}

fn failed(error: &Error) -> ExitCode {
    tracing::error!(
        reason = error.reason(),
        error = crate::chain(error),
        "stopped"
    );
    ExitCode::from(error.exit_code())
}

async fn stop_on_signal(stop: CancellationToken) {
    let mut terminated = match signal(SignalKind::terminate()) {
        Ok(terminated) => terminated,
        Err(error) => {
            tracing::warn!(%error, "SIGTERM cannot be watched");
            return;
        }
    };
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping");
    stop.cancel();
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Runtime(_) => "runtime",
            Self::Listen(..) => "listen",
            Self::Metrics(_) => "metrics",
            Self::Pki(_) => "pki",
            Self::Token(_) => "token",
            Self::Tls(_) => "tls",
            Self::State(_) => "state",
            Self::Publish(_) => "publish",
            Self::Cluster(_) => "cluster",
            Self::Owner(_) => "owner",
            Self::Ended(_) => "ended",
        }
    }

    /// 2 where the configuration is to blame.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(..)
            | Self::Pki(_)
            | Self::Token(_)
            | Self::State(_)
            | Self::Publish(_)
            | Self::Cluster(_)
            | Self::Owner(_) => 2,
            Self::Runtime(_) | Self::Metrics(_) | Self::Tls(_) | Self::Ended(_) => 1,
        }
    }
}

fn listen(flag: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Listen(flag, error)
}

// === impl Listeners ===

impl Listeners {
    pub async fn bind(push: SocketAddr, metrics: SocketAddr) -> Result<Self, Error> {
        Ok(Self {
            push: bind(push).await.map_err(listen("--push-address"))?,
            metrics: bind(metrics).await.map_err(listen("--metrics-address"))?,
        })
    }

    fn announce(&self) -> Result<(), Error> {
        let push = self.push.local_addr().map_err(listen("--push-address"))?;
        let metrics = self
            .metrics
            .local_addr()
            .map_err(listen("--metrics-address"))?;
        tracing::info!(%push, %metrics, "listening");
        Ok(())
    }
}

/// An API server that accepts and never answers must not hold anybody for ever; a watch ends within
/// this time by itself.
const READ_TIMEOUT: Duration = Duration::from_mins(5);

// === impl Mode ===

impl Mode {
    async fn new(args: Run, metrics: Metrics) -> Result<(Self, Shared), Error> {
        let Run {
            manifests,
            namespaces,
            policy_namespaces,
            state_dir,
            class: _,
            push_address: _,
            metrics_address: _,
            allow_addresses: _,
            deny_addresses: _,
        } = args;
        let policy_namespaces: BTreeSet<String> = policy_namespaces.into_iter().collect();
        let given = (!policy_namespaces.is_empty()).then_some(policy_namespaces);
        match manifests {
            Some(root) => {
                let state = StateDir::new(state_dir);
                Self::folder(root, namespaces, state, given, metrics)
            }
            None => Self::cluster(namespaces, given, metrics).await,
        }
    }

    fn folder(
        root: PathBuf,
        namespaces: Vec<String>,
        state: StateDir,
        policy_namespaces: Option<BTreeSet<String>>,
        metrics: Metrics,
    ) -> Result<(Self, Shared), Error> {
        let lock = state.lock()?;
        let shared = Shared {
            fleet: Fleet::new(),
            book: Arc::new(folder_status::load(&state)),
            metrics,
            troubles: Troubles::default(),
        };
        let graves = Graves::load(state.clone(), &namespaces);
        let folder = Folder::new(root, namespaces, state.clone(), shared.metrics.clone());
        let mode = Self {
            source: Box::new(folder),
            authority: pki::folder::authority(&state, SystemTime::now())?,
            published: None,
            authenticator: Authenticator::Token(Arc::new(PodToken::load_or_make(&state)?)),
            epochs: Box::new(FolderEpoch::new(state.clone())),
            graves,
            writer: Box::new(FolderWriter::new(state, shared.metrics.clone())),
            policy_namespaces,
            lock: Some(lock),
        };
        Ok((mode, shared))
    }

    async fn cluster(
        namespaces: Vec<String>,
        policy_namespaces: Option<BTreeSet<String>>,
        metrics: Metrics,
    ) -> Result<(Self, Shared), Error> {
        let client = connect()
            .await
            .map_err(|error| Error::Cluster(Box::new(error)))?;
        let own = client.default_namespace().to_owned();
        let shared = Shared {
            fleet: Fleet::new(),
            book: Arc::default(),
            metrics,
            troubles: Troubles::default(),
        };
        let owner = Owner::of_this_process(client.clone(), &own)
            .await
            .map_err(|error| Error::Owner(Box::new(error)))?;
        let reviewer = Reviewer::new(client.clone(), &own, Arc::clone(&shared.fleet));
        let source = Kubernetes {
            client: client.clone(),
            own_namespace: own.clone(),
            namespaces,
            fleet: Arc::clone(&shared.fleet),
            book: Arc::clone(&shared.book),
            metrics: shared.metrics.clone(),
            troubles: shared.troubles.clone(),
        };
        let now = SystemTime::now();
        let (authority, published) =
            pki::cluster::authority(client.clone(), &own, &owner, now).await?;
        let mode = Self {
            source: Box::new(source),
            authority,
            published: Some(published),
            authenticator: Authenticator::Review(Arc::new(reviewer)),
            epochs: Box::new(ClusterEpoch::new(client.clone(), &own, owner)),
            graves: Graves::default(),
            writer: Box::new(ClusterWriter::new(client, shared.metrics.clone())),
            policy_namespaces: policy_namespaces.or_else(|| Some([own].into())),
            lock: None,
        };
        Ok((mode, shared))
    }
}

// === impl Parts ===

impl Parts {
    fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            tasks: JoinSet::new(),
        }
    }

    fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            part.await;
            name
        });
    }

    /// Ends when all ended. A part that ends before it was told to takes the others with it.
    async fn join(mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            if self.stop.is_cancelled() && ended.is_ok() {
                continue;
            }
            let name = ended.unwrap_or("a part that crashed");
            if result.is_ok() {
                result = Err(Error::Ended(name));
            }
            self.stop.cancel();
        }
        result
    }
}

async fn connect() -> kube::Result<kube::Client> {
    let mut config = kube::Config::infer()
        .await
        .map_err(kube::Error::InferConfig)?;
    config.read_timeout = Some(READ_TIMEOUT);
    kube::Client::try_from(config)
}
