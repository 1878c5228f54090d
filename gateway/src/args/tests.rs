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
