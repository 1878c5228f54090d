//! Credentials and origins.

use super::*;

#[test]
fn a_bearer_credential_is_read_strictly() {
    let read = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(<[u8]>::to_vec);
    assert_eq!(read("Bearer abc"), Some(b"abc".to_vec()));
    assert_eq!(read("bearer   abc "), Some(b"abc".to_vec()));
    for bad in ["", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn a_request_names_one_host() {
    let check = |version, uri: &str, hosts: &[&'static str]| {
        let request = http::Request::builder().version(version).uri(uri);
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        for host in hosts {
            let host = HeaderValue::from_static(host);
            head.headers.append(header::HOST, host);
        }
        check_host(&head).is_ok()
    };
    let (old, usual, later) = (
        http::Version::HTTP_10,
        http::Version::HTTP_11,
        http::Version::HTTP_2,
    );
    assert!(check(usual, "/mcp", &["gateway.example.com"]));
    assert!(check(usual, "http://gateway/mcp", &["gateway"]));
    assert!(check(later, "http://gateway/mcp", &[]));
    assert!(check(old, "/mcp", &[]));
    assert!(!check(usual, "/mcp", &[]));
    assert!(!check(later, "/mcp", &[]));
    for version in [old, usual, later] {
        assert!(!check(version, "http://gateway/mcp", &["a", "b"]));
    }
}

#[test]
fn only_pages_of_this_machine_may_call() {
    let check = |origin: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        check_origin(&headers).is_ok()
    };
    for good in [
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:8080",
        "http://[::1]:5173",
        "http://[::1]",
    ] {
        assert!(check(good), "{good}");
    }
    for bad in [
        "null",
        "https://evil.example.com",
        "http://localhost.evil.example.com",
        "http://evil.example.com:80",
        "http://127.0.0.1.evil.example.com",
        "evil://localhost",
        "localhost",
        "",
    ] {
        assert!(!check(bad), "{bad}");
    }
    assert!(check_origin(&HeaderMap::new()).is_ok());
}
