//! Command line values.

use super::*;

#[test]
fn sizes_and_stores_parse() {
    assert_eq!("4Mi".parse::<Size>(), Ok(Size(4 << 20)));
    assert_eq!("2048".parse::<Size>(), Ok(Size(2048)));
    for bad in ["", "4Gi", "-1", "10", "99999999999999999999Mi"] {
        assert!(bad.parse::<Size>().is_err(), "{bad}");
    }
    assert_eq!("sqlite:/a/b".parse(), Ok(StoreUrl("/a/b".into())));
    assert!("postgres://x".parse::<StoreUrl>().is_err());
}

/// Such a gateway refused each large body for ever, and asked to try again after a second.
#[test]
fn a_body_fits_into_what_may_be_held() {
    let check = |flags: &[&str]| {
        let given = ["hangar-gateway", "run"].iter().chain(flags);
        let files = ["--operator=https://a", "--operator-ca=b", "--token-file=c"];
        let cli = Cli::try_parse_from(given.chain(&files)).unwrap();
        let Command::Run(run) = cli.command else {
            panic!("another command");
        };
        run.edge.check()
    };
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&["--max-held=2Mi", "--max-body=2Mi"]), Ok(()));
    let error = check(&["--max-held=1Mi", "--max-body=2Mi"]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("--max-held of 1048576 bytes"), "{text}");
    assert!(text.contains("--max-body of 2097152 bytes"), "{text}");
    check(&["--max-held=1Mi"]).unwrap_err();
}

#[test]
fn times_are_whole_seconds() {
    let seconds = |text: &str| {
        text.parse::<Seconds>()
            .ok()
            .map(|Seconds(time)| time.as_secs())
    };
    assert_eq!(seconds("1"), Some(1));
    assert_eq!(seconds("3600"), Some(3600));
    for bad in ["", "0", "3601", "-1", "1s", "1.5"] {
        assert_eq!(seconds(bad), None, "{bad}");
    }
}

#[test]
fn an_upstream_is_a_namespace_and_a_name() {
    let name = "default/reports".parse::<UpstreamName>().unwrap();
    assert_eq!((&*name.namespace, &*name.name), ("default", "reports"));
    for bad in ["", "reports", "/reports", "default/", "a/b/c"] {
        assert!(bad.parse::<UpstreamName>().is_err(), "{bad}");
    }
}
