//! Names and values as a scrape sees them.

use super::*;

#[test]
fn a_scrape_shows_what_was_counted() {
    let metrics = Metrics::new().unwrap();
    metrics.published(Generation(7));
    metrics.compiled(0.002);
    metrics.propagated(0.2);
    metrics.status_write(StatusWrite::Written);
    metrics.objects(
        "McpUpstream",
        ObjectCounts {
            accepted: 3,
            refused: 1,
        },
    );
    metrics.manifest_errors(&[("yaml", 2)].into());
    metrics.gateways(GatewayCounts {
        ready: 3,
        subscribed: 2,
        programmed: 1,
    });
    let text = metrics.render().unwrap();
    for line in [
        "hangar_config_generation 7",
        "hangar_operator_is_leader 1",
        "hangar_operator_compile_seconds_count 1",
        "hangar_operator_propagation_seconds_count 1",
        "hangar_operator_status_writes_total{outcome=\"written\"} 1",
        "hangar_operator_objects{accepted=\"true\",kind=\"McpUpstream\"} 3",
        "hangar_operator_manifest_errors{reason=\"yaml\"} 2",
        "hangar_operator_gateways{state=\"programmed\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    metrics.manifest_errors(&std::collections::BTreeMap::new());
    assert!(!metrics.render().unwrap().contains("reason=\"yaml\""));
}
