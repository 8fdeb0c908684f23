//! A page that does not read its events is dropped, and little is kept for it until then.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::crowd::metric;
use crate::support::prelude::*;

/// Bytes of a 16 KiB reserve in the kernel, a small window of the client, and what the service
/// itself keeps, twice over.
const KEPT_BYTES_MAX: usize = 96 * 1024;

/// Opens the stream of an item with a receive window of a few kilobytes.
async fn open(addr: SocketAddr, item: i64) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(2_048).expect("a small window");
    let mut stream = socket.connect(addr).await.expect("connected");
    let request = format!("GET /api/items/{item}/events HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

#[tokio::test]
async fn a_slow_reader_is_dropped_and_not_buffered() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 1_000_000 }), |config| {
        config.live.poll_ms = 2;
        config.http.write_timeout_ms = 500;
    })
    .await;
    let stream_of_item = format!("/api/items/{item}/events");
    let mut slow = open(instance.addr, item).await;
    let mut reading = instance.stranger().events(&stream_of_item).await;
    let streams = async || {
        let open = metric(&instance, "seckill_live_streams").await;
        (open, metric(&instance, "seckill_http_slow_readers_dropped_total").await)
    };
    until(BOUND, || async { streams().await }, |seen| *seen == (2.0, 0.0)).await;

    // The stock changes without end; one of the two reads.
    let pool = shop.pool.clone();
    let changing = tokio::spawn(async move {
        loop {
            let change = "UPDATE stock SET available = available - 1 WHERE item_id = ?";
            sqlx::query(change).bind(item).execute(&pool).await.expect("changed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let counting = tokio::spawn(async move {
        let mut count = 0_u32;
        while reading.next().await.is_some() {
            count += 1;
        }
        count
    });
    until(BOUND, || async { streams().await }, |seen| *seen == (1.0, 1.0)).await;
    changing.abort();

    let mut kept = Vec::new();
    // Ends with the connection, reset or not.
    let _ = tokio::time::timeout(BOUND, slow.read_to_end(&mut kept)).await.expect("it was dropped");
    assert!(kept.len() < KEPT_BYTES_MAX, "{} bytes were kept for it", kept.len());
    instance.stop().await;
    let heard = counting.await.expect("no panic");
    assert!(heard > 20, "who reads hears on: {heard} events");
}
