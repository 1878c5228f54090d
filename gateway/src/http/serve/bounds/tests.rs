//! What the limits of the process leave for clients.

use super::*;

#[test]
fn connections_leave_files_for_the_rest() {
    let limits = |soft: &str| {
        format!(
            "Limit   Soft Limit  Hard Limit  Units\nMax processes  7  7  processes\nMax open files            {soft}                 4096                 files\n"
        )
    };
    assert_eq!(of_files(10_000, &limits("1024")), 512);
    assert_eq!(of_files(100, &limits("1024")), 100);
    assert_eq!(of_files(100, &limits("1")), 1);
    assert_eq!(of_files(100, &limits("unlimited")), 100);
    assert_eq!(of_files(100, ""), 100);
}
