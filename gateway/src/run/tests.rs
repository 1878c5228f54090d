//! What ends a gateway.

use std::future::{pending, ready};

use super::*;

fn mk_parts() -> JoinSet<()> {
    let mut parts = JoinSet::new();
    parts.spawn(pending());
    parts
}

#[tokio::test]
async fn a_signal_is_an_orderly_end() {
    let (mut serving, mut background) = (mk_parts(), mk_parts());
    watch(ready(Ok(())), &mut serving, &mut background)
        .await
        .unwrap();
}

/// A subscription that panicked left a gateway that served old configuration for ever.
#[tokio::test]
async fn a_part_that_ends_early_is_an_error() {
    for panics in [false, true] {
        let part = move || async move { assert!(!panics, "a part that panics") };
        let (mut serving, mut background) = (mk_parts(), mk_parts());
        background.spawn(part());
        let ended = watch(pending(), &mut serving, &mut background).await;
        let text = ended.unwrap_err().to_string();
        assert_eq!(text, "background part ended early");
        serving.spawn(part());
        let ended = watch(pending(), &mut serving, &mut background).await;
        assert_eq!(ended.unwrap_err().to_string(), "MCP server ended early");
        serving.abort_all();
        serving.spawn(part());
        all_ended(serving).await;
    }
}
