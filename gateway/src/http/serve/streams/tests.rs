//! What a stream waits for, and when a connection is idle.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn mk_body(bytes: usize) -> Delivered<Full<Bytes>> {
    Delivered::new(Full::new(vec![b'x'; bytes].into()))
}

async fn piece(body: &mut Delivered<Full<Bytes>>) -> Option<usize> {
    let frame: Option<Result<_, Infallible>> = body.frame().await;
    frame.map(|frame| frame.unwrap().into_data().unwrap().len())
}

#[test]
fn a_large_piece_may_take_longer() {
    assert_eq!(allowed(PATIENCE, 1), PATIENCE);
    assert_eq!(allowed(PATIENCE, PACE), PATIENCE * 2);
    assert_eq!(allowed(PATIENCE, 16 * PACE), PATIENCE * 17);
    assert_eq!(allowed(Duration::MAX, 16 * PACE), Duration::MAX);
}

/// Its stream would be over while the connection still holds nearly all of it.
#[tokio::test]
async fn the_end_of_a_large_piece_is_kept_back() {
    let waiting = || HANDED.with(Cell::get).waiting;
    let told = async {
        let mut body = mk_body(SMALL + 1);
        assert_eq!(body.size_hint().exact(), Some(1025));
        assert_eq!(piece(&mut body).await, Some(1024));
        assert!(!body.is_end_stream());
        assert_eq!((body.size_hint().exact(), waiting()), (Some(1), 1024));
        assert_eq!(piece(&mut body).await, Some(1));
        assert!(body.is_end_stream());
        assert_eq!((body.size_hint().exact(), waiting()), (Some(0), 1));
        assert_eq!(piece(&mut body).await, None);
        assert_eq!((waiting(), HANDED.with(Cell::get).pieces), (0, 2));
        let mut small = mk_body(SMALL);
        assert_eq!(piece(&mut small).await, Some(1024));
        assert!(small.is_end_stream());
    };
    HANDED.scope(Cell::default(), told).await;
    assert_eq!(piece(&mut mk_body(SMALL + 1)).await, Some(1025));
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_ends() {
    let patience = Duration::from_millis(20);
    let streams = Streams::new(patience, None);
    let run = |stream| HANDED.scope(Cell::default(), streams.clone().run(stream));
    let begun = Instant::now();
    let mut body = mk_body(2 * PACE + 1);
    let stuck: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
        // As the connection does while its peer has no room.
        piece(&mut body).await;
        std::future::pending::<()>().await;
    });
    let ended = tokio::time::timeout(PATIENCE, run(stuck)).await;
    ended.expect("the stream waits for ever");
    assert!(begun.elapsed() >= patience * 3);
    // One whose answer is not there yet waits for nobody, and neither does one that was taken.
    let is_over = Cell::new(false);
    let mut body = mk_body(1);
    let answering: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
        tokio::time::sleep(patience * 5).await;
        piece(&mut body).await;
        piece(&mut body).await;
        tokio::time::sleep(patience * 5).await;
        is_over.set(true);
    });
    run(answering).await;
    assert!(is_over.get());
}

#[tokio::test]
async fn a_connection_is_idle_once_its_last_stream_is_over() {
    let streams = Streams::new(PATIENCE, None);
    let (begun, time) = (Instant::now(), Duration::from_millis(20));
    let open = Open::new(streams.clone());
    let ends = async {
        tokio::time::sleep(time * 5).await;
        drop(open);
    };
    tokio::join!(streams.idle(begun, time), ends);
    assert!(begun.elapsed() >= time * 5);
    // What was before does not count.
    let now = Instant::now();
    streams.idle(now, time).await;
    assert!(now.elapsed() >= time);
}
