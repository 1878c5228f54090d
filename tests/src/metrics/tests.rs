//! What the strict reader takes and what it refuses.

use super::Scrape;

const GOOD: &str = "\
# HELP hangar_tasks_total Tasks.
# TYPE hangar_tasks_total counter
hangar_tasks_total{tenant=\"acme\",upstream=\"a \\\"b\\\"\"} 3
hangar_tasks_total{tenant=\"globex\",upstream=\"c\"} 4
# HELP hangar_seconds Time.
# TYPE hangar_seconds histogram
hangar_seconds_bucket{le=\"+Inf\"} 2
hangar_seconds_sum 0.5
hangar_seconds_count 2
";

#[test]
fn finds_series_by_some_of_their_labels() {
    let scrape = Scrape::parse(GOOD).unwrap();
    let count = |name, labels: &[_]| scrape.count(name, labels).unwrap();
    assert_eq!(count("hangar_tasks_total", &[("upstream", "a \"b\"")]), 3);
    assert_eq!(count("hangar_tasks_total", &[]), 7);
    assert_eq!(count("hangar_tasks_total", &[("tenant", "none")]), 0);
    assert_eq!(count("hangar_seconds_count", &[]), 2);
    assert_eq!(scrape.families().count(), 2);
    assert!(
        scrape.count("hangar_seconds_sum", &[]).is_err(),
        "no whole number"
    );
    assert!(
        scrape.value("hangar_tasks_total", &[]).is_err(),
        "ambiguous"
    );
    assert!(
        scrape
            .value("hangar_tasks_total", &[("tenant", "none")])
            .is_err()
    );
}

#[test]
fn refuses_what_a_strict_scraper_refuses() {
    let head = "# HELP a A.\n# TYPE a gauge\n";
    let bad = [
        ("no line feed", format!("{head}a 1")),
        ("no type", "a 1\n".to_owned()),
        ("type without help", "# TYPE a gauge\na 1\n".to_owned()),
        ("second type", format!("{head}# TYPE a gauge\n")),
        ("second sample", format!("{head}a 1\na 2\n")),
        ("no value", format!("{head}a{{b=\"c\"}}\n")),
        ("open quote", format!("{head}a{{b=\"c}} 1\n")),
        ("label twice", format!("{head}a{{b=\"c\",b=\"d\"}} 1\n")),
        ("empty line", format!("{head}\n")),
    ];
    for (case, text) in bad {
        assert!(Scrape::parse(&text).is_err(), "{case}");
    }
}
