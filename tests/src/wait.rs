//! Waiting on a value reached.
//!
//! A test never waits for time to pass. It states the value it waits for and the longest it may
//! take; the error then says what was not reached and what was seen last.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Long enough for a debug binary on a busy machine; a wait that succeeds ends at once.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PERIOD: Duration = Duration::from_millis(20);

/// Looks again and again until `look` gives a value.
///
/// Caveats: `look` is not cut off, so it needs a bound of its own where it can hang.
pub async fn eventually<T, F>(what: &str, look: F) -> Result<T>
where
    F: AsyncFnMut() -> Result<T>,
{
    within(PATIENCE, what, look).await
}

/// As [`eventually`], with another bound.
pub async fn within<T, F>(bound: Duration, what: &str, mut look: F) -> Result<T>
where
    F: AsyncFnMut() -> Result<T>,
{
    let started = Instant::now();
    loop {
        match look().await {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() >= bound => {
                return Err(error.context(format!("{what}: not reached in {bound:?}")));
            }
            Err(_) => tokio::time::sleep(PERIOD).await,
        }
    }
}

/// An error unless the two are equal; for use inside [`eventually`].
pub fn same<T: PartialEq + Debug>(found: &T, wanted: &T) -> Result<()> {
    if found != wanted {
        bail!("found {found:?}, wanted {wanted:?}");
    }
    Ok(())
}
