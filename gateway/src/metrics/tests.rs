//! Series that come and go.

use super::*;

fn mk_labels(pairs: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::new();
    for (tenant, upstream) in pairs {
        let of_tenant = labels.entry((*tenant).to_owned()).or_default();
        of_tenant.insert((*upstream).to_owned());
    }
    labels
}

#[test]
fn series_go_with_what_they_name_and_no_others() {
    let metrics = Metrics::new().unwrap();
    let pairs = [
        ("acme", "tools/a"),
        ("acme", "tools/b"),
        ("zeta", "tools/a"),
        ("", ""),
    ];
    for (tenant, upstream) in pairs {
        metrics
            .tasks_relayed
            .with_label_values(&[tenant, upstream])
            .inc();
        let labels = [tenant, upstream, "evicted"];
        metrics.tasks_failed.with_label_values(&labels).inc();
        metrics.task_age.with_label_values(&[tenant]).observe(1.0);
    }
    let before = mk_labels(&pairs[..3]);
    let text = metrics.render().unwrap();
    metrics.forget(&before, &before);
    assert_eq!(metrics.render().unwrap(), text, "nothing was removed");
    metrics.forget(&before, &mk_labels(&[("acme", "tools/a")]));
    let text = metrics.render().unwrap();
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("hangar_tasks_relayed_total"), 2, "{text}");
    assert_eq!(series("hangar_tasks_failed_total"), 2, "{text}");
    assert_eq!(series("hangar_task_age_seconds_count"), 2, "{text}");
    let kept = r#"hangar_tasks_relayed_total{tenant="acme",upstream="tools/a"} 1"#;
    assert!(text.contains(kept), "{text}");
    let unnamed = r#"hangar_tasks_relayed_total{tenant="",upstream=""} 1"#;
    assert!(text.contains(unnamed), "{text}");
}
