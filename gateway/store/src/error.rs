//! What the store could not do.

/// Why nothing was kept or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The entry moved since it was read: read and decide again.
    #[error("entry moved since it was read")]
    Conflict,
    /// The tenant has as many live tasks as it may have.
    #[error("tenant has {live} live tasks")]
    Quota { live: u64 },
    /// Nothing of the decision is durable; the store recovers by itself.
    #[error("store cannot commit: {reason}")]
    Unavailable { reason: &'static str },
    /// Too much waits for the writer; nothing of the decision is durable.
    #[error("store has too many commits waiting")]
    Overloaded,
    /// The store is shutting down.
    #[error("store is closed")]
    Closed,
    #[error("store schema {found} is newer than this binary's {known}")]
    Newer { found: i64, known: i64 },
    #[error(
        "store schema {found} is older than this binary's {known}: start the gateway of this version once"
    )]
    Older { found: i64, known: i64 },
    #[error("store file is damaged")]
    Damaged,
    #[error("stored record cannot be read")]
    Record(#[source] hangar_ledger::Error),
    #[error("store failed")]
    Sqlite(#[source] rusqlite::Error),
    #[error("store thread cannot be started")]
    Thread(#[source] std::io::Error),
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Quota { .. } => "quota",
            Self::Unavailable { .. } => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Closed => "closed",
            Self::Newer { .. } => "newer",
            Self::Older { .. } => "older",
            Self::Damaged => "damaged",
            Self::Record(_) => "record",
            Self::Sqlite(error) => cause(error),
            Self::Thread(_) => "thread",
        }
    }
}

/// Closed word for what SQLite says.
pub(crate) fn cause(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "disk_full",
        Some(ErrorCode::SystemIoFailure) => "io",
        Some(ErrorCode::CannotOpen) => "cannot_open",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "read_only",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "damaged",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "busy",
        Some(_) => "sqlite",
        None => "other",
    }
}
