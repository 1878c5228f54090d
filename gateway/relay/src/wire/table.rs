//! The table of errors. `docs/errors.md` documents it; a test compares the two.
//!
//! Private codes lie outside -32768..-32000, which JSON-RPC and MCP reserve.

use http::StatusCode;

/// Every error that the gateway makes; errors of upstreams pass as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Parse,
    InvalidRequest,
    UnknownMethod,
    MissingMeta,
    InvalidParams,
    UnknownTool,
    UnknownPrompt,
    ResourceNotFound,
    /// The one answer for a task that is unknown, expired or somebody else's.
    TaskNotFound,
    Internal,
    HeaderMismatch,
    MissingCapability,
    UnsupportedVersion,
    Unavailable,
    Withheld,
    DigestDrift,
    Denied,
    RateLimited,
    QuotaExceeded,
    AdmissionClosed,
    UpstreamProtocol,
    Unauthenticated,
    BodyTooLarge,
    HeadersTooLarge,
    NotReady,
    Overloaded,
    OriginForbidden,
    UnsupportedMediaType,
    EndpointNotFound,
}

/// Why the gateway ended a task; the `error` of a `FailedTask` that no upstream made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    DigestDrift,
    ConsentDenied,
    ConsentExpired,
    ConsentUnavailable,
    UpstreamLost,
    UpstreamProtocol,
    UpstreamRemoved,
    UpstreamChanged,
    Evicted,
}

struct Row {
    kind: Kind,
    code: i64,
    status: StatusCode,
    reason: &'static str,
    message: &'static str,
}

struct FailureRow {
    failure: Failure,
    code: i64,
    reason: &'static str,
    message: &'static str,
}

/// In the order of [`Kind`].
const KINDS: [Row; 29] = {
    use StatusCode as S;
    [
        row(
            Kind::Parse,
            -32700,
            S::BAD_REQUEST,
            "parse_error",
            "Parse error",
        ),
        row(
            Kind::InvalidRequest,
            -32600,
            S::BAD_REQUEST,
            "invalid_request",
            "Invalid request",
        ),
        row(
            Kind::UnknownMethod,
            -32601,
            S::NOT_FOUND,
            "unknown_method",
            "Method not found",
        ),
        row(
            Kind::MissingMeta,
            -32602,
            S::BAD_REQUEST,
            "missing_meta",
            "Missing request metadata",
        ),
        row(
            Kind::InvalidParams,
            -32602,
            S::BAD_REQUEST,
            "invalid_params",
            "Invalid params",
        ),
        row(
            Kind::UnknownTool,
            -32602,
            S::OK,
            "unknown_tool",
            "Unknown tool",
        ),
        row(
            Kind::UnknownPrompt,
            -32602,
            S::OK,
            "unknown_prompt",
            "Unknown prompt",
        ),
        row(
            Kind::ResourceNotFound,
            -32602,
            S::OK,
            "resource_not_found",
            "Resource not found",
        ),
        row(
            Kind::TaskNotFound,
            -32602,
            S::OK,
            "task_not_found",
            "Task not found",
        ),
        row(Kind::Internal, -32603, S::OK, "internal", "Internal error"),
        row(
            Kind::HeaderMismatch,
            -32020,
            S::BAD_REQUEST,
            "header_mismatch",
            "Header mismatch",
        ),
        row(
            Kind::MissingCapability,
            -32021,
            S::BAD_REQUEST,
            "missing_capability",
            "Missing required client capability",
        ),
        row(
            Kind::UnsupportedVersion,
            -32022,
            S::BAD_REQUEST,
            "unsupported_version",
            "Unsupported protocol version",
        ),
        row(
            Kind::Unavailable,
            -31001,
            S::OK,
            "unavailable",
            "Upstream unavailable",
        ),
        row(
            Kind::Withheld,
            -31002,
            S::OK,
            "withheld",
            "Withheld by policy",
        ),
        row(
            Kind::DigestDrift,
            -31003,
            S::OK,
            "digest_drift",
            "Tool contract is not the approved one",
        ),
        row(Kind::Denied, -31004, S::OK, "denied", "Denied by policy"),
        row(
            Kind::RateLimited,
            -31005,
            S::TOO_MANY_REQUESTS,
            "rate_limited",
            "Too many requests",
        ),
        row(
            Kind::QuotaExceeded,
            -31006,
            S::OK,
            "quota_exceeded",
            "Too many live tasks",
        ),
        row(
            Kind::AdmissionClosed,
            -31007,
            S::OK,
            "admission_closed",
            "Not admitted at this time",
        ),
        row(
            Kind::UpstreamProtocol,
            -31008,
            S::OK,
            "upstream_protocol",
            "Upstream broke the protocol",
        ),
        row(
            Kind::Unauthenticated,
            -31009,
            S::UNAUTHORIZED,
            "unauthenticated",
            "Unauthenticated",
        ),
        row(
            Kind::BodyTooLarge,
            -31010,
            S::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "Body too large",
        ),
        row(
            Kind::HeadersTooLarge,
            -31011,
            S::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "headers_too_large",
            "Headers too large",
        ),
        row(
            Kind::NotReady,
            -31012,
            S::SERVICE_UNAVAILABLE,
            "not_ready",
            "No configuration yet",
        ),
        row(
            Kind::Overloaded,
            -31013,
            S::SERVICE_UNAVAILABLE,
            "overloaded",
            "Overloaded",
        ),
        row(
            Kind::OriginForbidden,
            -31014,
            S::FORBIDDEN,
            "origin_forbidden",
            "Origin not allowed",
        ),
        row(
            Kind::UnsupportedMediaType,
            -31015,
            S::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Content type must be application/json",
        ),
        row(
            Kind::EndpointNotFound,
            -31016,
            S::NOT_FOUND,
            "endpoint_not_found",
            "No such endpoint",
        ),
    ]
};

/// In the order of [`Failure`].
const FAILURES: [FailureRow; 9] = [
    failure(
        Failure::DigestDrift,
        -31003,
        "digest_drift",
        "Tool contract changed while the task ran",
    ),
    failure(
        Failure::ConsentDenied,
        -31101,
        "consent_denied",
        "Consent was denied",
    ),
    failure(
        Failure::ConsentExpired,
        -31102,
        "consent_expired",
        "Question expired without an answer",
    ),
    failure(
        Failure::ConsentUnavailable,
        -31103,
        "consent_unavailable",
        "Question cannot be answered",
    ),
    failure(
        Failure::UpstreamLost,
        -31104,
        "upstream_lost",
        "Upstream no longer knows the task",
    ),
    failure(
        Failure::UpstreamProtocol,
        -31008,
        "upstream_protocol",
        "Upstream broke the protocol",
    ),
    failure(
        Failure::UpstreamRemoved,
        -31105,
        "upstream_removed",
        "Upstream was removed",
    ),
    failure(
        Failure::UpstreamChanged,
        -31106,
        "upstream_changed",
        "Upstream moved to another origin",
    ),
    failure(
        Failure::Evicted,
        -31107,
        "evicted",
        "Retention of the task ended",
    ),
];

// === impl Kind ===

impl Kind {
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.kind)
    }

    pub fn code(self) -> i64 {
        self.row().code
    }

    /// HTTP status of the answer.
    pub fn status(self) -> StatusCode {
        self.row().status
    }

    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        self.row().reason
    }

    pub fn message(self) -> &'static str {
        self.row().message
    }

    fn row(self) -> &'static Row {
        &KINDS[self as usize]
    }
}

// === impl Failure ===

impl Failure {
    pub fn all() -> impl Iterator<Item = Self> {
        FAILURES.iter().map(|row| row.failure)
    }

    /// The failure of this reason, when the gateway makes it.
    pub fn parse(reason: &str) -> Option<Self> {
        Self::all().find(|failure| failure.reason() == reason)
    }

    pub fn code(self) -> i64 {
        self.row().code
    }

    /// Closed word, as the ledger and its events write it.
    pub fn reason(self) -> &'static str {
        self.row().reason
    }

    pub fn message(self) -> &'static str {
        self.row().message
    }

    fn row(self) -> &'static FailureRow {
        &FAILURES[self as usize]
    }
}

const fn row(
    kind: Kind,
    code: i64,
    status: StatusCode,
    reason: &'static str,
    message: &'static str,
) -> Row {
    Row {
        kind,
        code,
        status,
        reason,
        message,
    }
}

const fn failure(
    failure: Failure,
    code: i64,
    reason: &'static str,
    message: &'static str,
) -> FailureRow {
    FailureRow {
        failure,
        code,
        reason,
        message,
    }
}
