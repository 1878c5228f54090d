//! Steps: order, first failure, missing tools.

use std::path::PathBuf;

use super::{Runner, Step, Tool, missing};

fn shell(script: &str) -> Step {
    Step::command("script", &["sh", "-c", script])
}

#[test]
fn stops_at_the_first_failure() {
    let folder = std::env::temp_dir().join(format!("hangar-verify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let runner = Runner::new(folder.clone());
    assert!(runner.run(&[shell("true"), shell("touch one")]));
    assert!(!runner.run(&[shell("exit 3"), shell("touch two")]));
    let exists = ["one", "two"].map(|name| folder.join(name).exists());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(exists, [true, false]);
}

#[test]
fn a_program_that_is_not_there_is_a_failure() {
    let runner = Runner::new(PathBuf::from("."));
    assert!(!runner.run(&[Step::command("none", &["hangar-no-such-program"])]));
}

#[test]
fn names_each_missing_tool_and_the_remedy() {
    let tool = |program, remedy| Tool {
        program,
        version: &["-c", "true"],
        remedy,
    };
    let tools = [
        tool("sh", "a"),
        tool("hangar-no-such-1", "take b"),
        tool("hangar-no-such-2", "take c"),
    ];
    let why = missing(&tools).unwrap_err();
    assert!(why.contains("hangar-no-such-1 is missing: take b"), "{why}");
    assert!(why.contains("hangar-no-such-2 is missing: take c"), "{why}");
    assert!(!why.contains("sh is missing"), "{why}");
}
