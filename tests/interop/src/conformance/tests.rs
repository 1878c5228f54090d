//! What the suite's verdicts come to, without a run.

use super::{Runs, Verdicts};

fn mk_verdicts(checks: &[(&str, &str, &str)]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for (scenario, id, status) in checks {
        let check = format!(r#"[{{"id": "{id}", "status": "{status}", "name": "unread"}}]"#);
        verdicts.add(scenario, &check).unwrap();
    }
    verdicts
}

#[test]
fn only_what_differs_is_a_difference() {
    let runs = Runs {
        direct: mk_verdicts(&[
            ("one", "a", "SUCCESS"),
            ("one", "a", "SUCCESS"),
            ("one", "b", "SUCCESS"),
            ("one", "c", "SUCCESS"),
        ]),
        through: mk_verdicts(&[
            ("one", "a", "SUCCESS"),
            ("one", "a", "FAILURE"),
            ("one", "b", "SUCCESS"),
            ("two", "d", "SKIPPED"),
        ]),
    };
    let said: Vec<_> = runs.differences().iter().map(ToString::to_string).collect();
    let expected = [
        "one a: passed passed -> passed failed",
        "one c: passed -> absent",
        "two d: absent -> skipped",
    ];
    assert_eq!(said, expected);
}

#[test]
fn the_table_counts_and_puts_tasks_last() {
    let runs = Runs {
        direct: mk_verdicts(&[("tasks-x", "a", "SUCCESS"), ("zebra", "b", "SUCCESS")]),
        through: mk_verdicts(&[("zebra", "b", "SUCCESS"), ("zebra", "b", "FAILURE")]),
    };
    let rows: Vec<_> = runs.table().lines().skip(2).map(str::to_owned).collect();
    let expected = [
        "| `zebra` | 1 passed | 1 passed, 1 failed |",
        "| `tasks-x` | 1 passed | not run |",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn failures_are_named() {
    let verdicts = mk_verdicts(&[("one", "a", "FAILURE"), ("one", "b", "WARNING")]);
    assert_eq!(verdicts.failures(), ["one a"]);
}
