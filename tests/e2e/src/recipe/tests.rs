//! Dockerfiles that are understood, and those that are not.

use super::*;

const GOOD: &str = r#"# a comment
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
RUN FLAGS="-x" cargo build --locked --package one --target "$(uname -m)-unknown-linux-gnu"

FROM scratch
LABEL org.opencontainers.image.title="one"
LABEL org.opencontainers.image.version="0.1.0"
COPY --from=build /src/target/*/release/one /bin/one
USER 65532:65531
ENTRYPOINT ["/bin/one", "run"]
"#;

/// The error of [`GOOD`] with one line replaced.
fn error_with(line: &str, instead: &str) -> String {
    assert!(GOOD.contains(line));
    let error = Recipe::parse(&GOOD.replace(line, instead)).unwrap_err();
    format!("{error:#}")
}

#[test]
fn both_stages_are_read() {
    let recipe = Recipe::parse(GOOD).unwrap();
    assert_eq!(
        recipe.build,
        "FLAGS=\"-x\" cargo build --locked --package one --target \"$(uname -m)-unknown-linux-gnu\""
    );
    let one = Copied {
        program: "one".to_owned(),
        to: "/bin/one".to_owned(),
    };
    assert_eq!(recipe.files, [one]);
    assert_eq!(
        recipe.config(),
        json!({
            "User": "65532:65531",
            "Entrypoint": ["/bin/one", "run"],
            "Labels": {
                "org.opencontainers.image.title": "one",
                "org.opencontainers.image.version": "0.1.0",
            },
        })
    );
}

#[test]
fn another_package_is_built_by_the_same_command() {
    let recipe = Recipe::parse(GOOD).unwrap().of_package("two").unwrap();
    assert!(
        recipe
            .build
            .starts_with("FLAGS=\"-x\" cargo build --locked --package two ")
    );
    assert_eq!(recipe.entrypoint, ["/two"]);
    assert_eq!(recipe.user, "65532:65531");
}

#[test]
fn what_is_not_understood_is_named_with_its_line() {
    for (line, instead, said) in [
        (
            "USER 65532:65531",
            "ENV A=b",
            "line 11: ENV A=b: not understood in the final stage",
        ),
        (
            "USER 65532:65531",
            "RUN chmod +x /bin/one",
            "line 11: RUN chmod +x /bin/one: not under",
        ),
        (
            "COPY . .",
            "COPY . .\nRUN apt-get update",
            "line 5: RUN apt-get update: not understood",
        ),
        (
            "COPY . .",
            "COPY gateway .",
            "line 4: COPY gateway .: not understood in the builder",
        ),
        (
            "FROM scratch",
            "FROM debian",
            "line 7: FROM debian: expected",
        ),
        (
            "LABEL org.opencontainers.image.title=\"one\"",
            "LABEL a=\"b\" c=\"d\"",
            "line 8: LABEL",
        ),
        ("# a comment", "ARG X", "line 1: ARG before FROM"),
    ] {
        let error = error_with(line, instead);
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn files_come_from_the_release_folder_of_the_builder() {
    let line = "COPY --from=build /src/target/*/release/one /bin/one";
    for instead in [
        "COPY one /bin/one",
        "COPY --from=other /src/target/*/release/one /bin/one",
        "COPY --from=build /src/target/*/debug/one /bin/one",
        "COPY --from=build /src/target/*/release/* /bin/one",
        "COPY --from=build /src/target/*/release/one /bin/",
        "COPY --chmod=755 --from=build /src/target/*/release/one /bin/one",
    ] {
        let error = error_with(line, instead);
        assert!(
            error.contains("expected `--from=build"),
            "{instead}: {error}"
        );
    }
}

#[test]
fn users_are_numbers_other_than_root() {
    for instead in ["USER 0:0", "USER nobody", "USER 65532", "USER 65532:nobody"] {
        let error = error_with("USER 65532:65531", instead);
        assert!(
            error.contains("not `UID:GID` in numbers"),
            "{instead}: {error}"
        );
    }
}

#[test]
fn every_part_is_needed_and_said_once() {
    for (line, said) in [
        (
            "RUN FLAGS=\"-x\" cargo build --locked --package one --target \"$(uname -m)-unknown-linux-gnu\"",
            "runs no build",
        ),
        ("COPY . .", "no `WORKDIR /src` and `COPY . .`"),
        (
            "COPY --from=build /src/target/*/release/one /bin/one",
            "no program",
        ),
        ("USER 65532:65531", "no USER"),
        ("ENTRYPOINT [\"/bin/one\", \"run\"]", "no ENTRYPOINT"),
    ] {
        let error = error_with(line, "");
        assert!(error.contains(said), "{line}: {error}");
    }
    let twice = "USER 65532:65531\nUSER 65532:65531";
    let error = error_with("USER 65532:65531", twice);
    assert!(
        error.contains("line 12") && error.contains("said before"),
        "{error}"
    );
    let shell = error_with(
        "ENTRYPOINT [\"/bin/one\", \"run\"]",
        "ENTRYPOINT /bin/one run",
    );
    assert!(shell.contains("needs no shell"), "{shell}");
}

#[test]
fn the_dockerfiles_that_ship_are_understood_and_carry_the_version() {
    for binary in ["operator", "gateway"] {
        let path = hangar_tests::repository().join(binary).join("Dockerfile");
        let text = std::fs::read_to_string(path).unwrap();
        let recipe = Recipe::parse(&text).unwrap();
        let name = format!("hangar-{binary}");
        assert_eq!(recipe.entrypoint, [format!("/{name}")]);
        assert!(recipe.build.contains("--locked") && recipe.build.contains("+crt-static"));
        let label =
            |name: &str| recipe.labels[&format!("org.opencontainers.image.{name}")].as_str();
        assert_eq!(label("title"), name);
        assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(label("licenses"), "Apache-2.0");
    }
}

/// The file that says which Rust is not part of the build in Docker, so that the tag must say it.
#[test]
fn docker_builds_with_the_toolchain_of_the_repository() {
    let root = hangar_tests::repository();
    let toolchain = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let channel = toolchain.split('"').nth(1).unwrap();
    for binary in ["operator", "gateway"] {
        let text = std::fs::read_to_string(root.join(binary).join("Dockerfile")).unwrap();
        assert!(
            text.contains(&format!("FROM rust:{channel}-")),
            "{binary}: not Rust {channel}"
        );
    }
}
