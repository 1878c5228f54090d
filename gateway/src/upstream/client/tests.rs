//! The client by itself, on sockets of the loopback interface.

use std::net::TcpListener;

use hangar_wire::AddressRules;
use http_body_util::BodyExt as _;

use super::*;

fn mk_client(allow: &[&str]) -> Http {
    let rules = AddressRules {
        allow: allow.iter().map(|text| (*text).to_owned()).collect(),
        deny: vec![],
    };
    Http::new(Arc::new(Policy::parse(&rules).unwrap())).unwrap()
}

fn mk_request(uri: &str) -> Request<Full<Bytes>> {
    Request::post(uri).body(Full::default()).unwrap()
}

/// A literal address never comes to a resolver, so that a resolver alone does not refuse it.
#[tokio::test]
async fn a_literal_address_is_judged_by_the_client_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let strict = mk_client(&[]);
    for host in [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[64:ff9b::7f00:1]",
    ] {
        let refused = strict
            .send(mk_request(&format!("http://{host}:{port}/mcp")))
            .await
            .unwrap_err();
        assert!(matches!(refused, Error::Denied(_)), "{host}: {refused:?}");
    }
    let refused = strict
        .send(mk_request(&format!("http://localhost:{port}/mcp")))
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Connect(_)), "{refused:?}");
    let untouched = listener.accept().unwrap_err();
    assert_eq!(untouched.kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_literal_address_that_is_allowed_is_reached() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        tokio::io::AsyncReadExt::read(&mut socket, &mut head)
            .await
            .unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        tokio::io::AsyncWriteExt::write_all(&mut socket, answer)
            .await
            .unwrap();
    });
    let response = mk_client(&["127.0.0.1"])
        .send(mk_request(&format!("http://127.0.0.1:{port}/mcp")))
        .await
        .unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "ok");
    served.await.unwrap();
}
