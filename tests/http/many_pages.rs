//! Many pages look at one item at once. `SECKILL_TEST_STREAMS` says how many; the figures that
//! docs/browser.md states come from 2,000.

use std::fs;
use std::time::Instant;

use loadtest::process::name_and_seconds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::prelude::*;

/// Streams in the normal run.
const STREAMS: usize = 200;
/// What the service may keep for a page that watches, in kilobytes.
const KB_PER_STREAM_MAX: u64 = 150;
/// How long all may take to hear of a change: generous, a test machine may be busy.
const HEARD_MAX: Duration = Duration::from_secs(30);
/// Over how long the processor's time is taken.
const WATCHED: Duration = Duration::from_secs(2);

/// A page that reads its events and tells how many it has of the stock.
async fn watch_item(addr: String, item: i64, heard: watch::Sender<i64>) {
    let mut stream = TcpStream::connect(&addr).await.expect("connected");
    let request = format!("GET /api/items/{item}/events HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let (mut text, mut bytes) = (String::new(), [0_u8; 4_096]);
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if let Some((_, last)) = text.rsplit_once("\"available\":") {
            let figure: String = last.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(available) = figure.parse() {
                heard.send_replace(available);
            }
        }
        text.drain(..text.ceil_char_boundary(text.len().saturating_sub(300)));
    }
}

/// Resident memory of a process, in kilobytes.
pub fn memory_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Processor time that a process has used, in seconds.
fn processor_seconds(pid: u32) -> f64 {
    name_and_seconds(Path::new(&format!("/proc/{pid}"))).expect("it runs").1
}

/// Waits until every page has heard of `available`; answers how long it took.
async fn all_hear(pages: &mut [watch::Receiver<i64>], available: i64) -> Duration {
    let began = Instant::now();
    for page in pages {
        let heard = page.wait_for(|seen| *seen == available);
        tokio::time::timeout(HEARD_MAX, heard).await.expect("in time").expect("it still reads");
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pages_watch_one_item() {
    let wanted = std::env::var("SECKILL_TEST_STREAMS").ok().and_then(|text| text.parse().ok());
    let count = wanted.unwrap_or(STREAMS);
    let (shop, instance) = Shop::open().await;
    let item = json!({ "strategy": "mysql-atomic", "per_buyer_limit": 10 });
    let item = instance.make_item(item).await;
    let addr = free_addr();
    let service = serve(&shop, &addr, &[]).await;
    let pid = service.id().expect("it runs");
    let token = instance.token(1, Role::Buyer);
    let buyer = Client::new(addr.parse().expect("an address"), Some(token));
    buyer.get(&format!("/api/items/{item}")).await;

    let memory_before = memory_kb(pid);
    let mut readers = JoinSet::new();
    let mut pages = Vec::new();
    for _ in 0..count {
        let (sender, receiver) = watch::channel(-1);
        readers.spawn(watch_item(addr.clone(), item, sender));
        pages.push(receiver);
    }
    let opened = all_hear(&mut pages, 10).await;
    let used_before = processor_seconds(pid);
    tokio::time::sleep(WATCHED).await;
    let idle = (processor_seconds(pid) - used_before) * 100.0 / WATCHED.as_secs_f64();
    let memory = memory_kb(pid).saturating_sub(memory_before);

    let (mut heard, used_before, began) = (Duration::ZERO, processor_seconds(pid), Instant::now());
    for left in (0..10).rev() {
        buyer.buy("default", item).await.expect_status(201);
        heard = heard.max(all_hear(&mut pages, left).await);
    }
    let busy = (processor_seconds(pid) - used_before) * 100.0 / began.elapsed().as_secs_f64();
    println!(
        "{count} pages on one item: opened in {opened:?}, {memory} kB more ({} kB each), \
         {idle:.1} % of a core while nothing changes and {busy:.1} % while the stock falls at every \
         look, a change reached all within {heard:?}",
        memory / count as u64
    );
    assert!(memory / (count as u64) < KB_PER_STREAM_MAX, "{memory} kB for {count} pages");
    drop(readers);
    drop(service);
}
