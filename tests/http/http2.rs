//! HTTP/2 frame by frame: streams that are opened and reset at once.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::prelude::*;

/// Streams that the flood opens and resets.
const STREAMS: u32 = 10_000;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM and END_HEADERS: the whole request is in this frame.
const WHOLE_REQUEST: u8 = 0x5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The kinds of the frames in what was received.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        kinds.push(head[3]);
        bytes = rest.get(length..).unwrap_or_default();
    }
    kinds
}

#[tokio::test]
async fn a_flood_of_resets_is_shown_out_and_others_are_served() {
    let (_shop, instance) = Shop::open().await;
    let stream = TcpStream::connect(instance.addr).await.expect("a connection");
    let (mut from, mut to) = stream.into_split();
    let authority = instance.addr.to_string();
    // HPACK: GET, http, /, and the authority as a literal.
    let mut request = vec![0x82, 0x86, 0x84, 0x01, u8::try_from(authority.len()).expect("short")];
    request.extend(authority.bytes());
    let flood = tokio::spawn(async move {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
        for number in 0..STREAMS {
            let id = 2 * number + 1;
            bytes.extend(frame(HEADERS, WHOLE_REQUEST, id, &request));
            bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        }
        // The other side may have had enough before the end.
        let _ = to.write_all(&bytes).await;
        to
    });
    let mut received = Vec::new();
    let ended = tokio::time::timeout(BOUND, from.read_to_end(&mut received)).await;
    assert!(ended.is_ok(), "the flood keeps its connection");
    drop(flood.await.expect("no panic"));
    // A reset of the connection may swallow the farewell.
    let kinds = kinds(&received);
    assert!(ended.is_ok_and(|read| read.is_err()) || kinds.contains(&GOAWAY), "{kinds:?}");
    for _ in 0..20 {
        assert_eq!(instance.stranger().get("/api/items").await.status, 200);
    }
}
