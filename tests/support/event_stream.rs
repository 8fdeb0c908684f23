//! A reader of server-sent events.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;

/// One open stream.
pub struct Events {
    response: reqwest::Response,
    text: String,
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: String,
    pub data: Value,
}

impl Events {
    /// Opens a stream; it must be granted.
    pub async fn open(request: RequestBuilder) -> Self {
        let response =
            request.header("accept", "text/event-stream").send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().expect("text");
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Self { response, text: String::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = parse(block);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
                // It tells that the stream arrives.
                continue;
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("the events are ASCII here"));
        }
    }

    /// Skips events until one is `wanted`, at most for `bound`.
    pub async fn seek(
        &mut self,
        bound: Duration,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, String> {
        let mut skipped = Vec::new();
        let found = tokio::time::timeout(bound, async {
            while let Some(event) = self.next().await {
                if wanted(&event) {
                    return Some(event);
                }
                skipped.push(event);
            }
            None
        });
        match found.await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(format!("the stream ended after {skipped:?}")),
            Err(_) => Err(format!("nothing but {skipped:?} within {bound:?}")),
        }
    }

    /// Reads until the stream ends, at most for `bound`; answers whether it did.
    pub async fn ends(&mut self, bound: Duration) -> bool {
        tokio::time::timeout(bound, async { while self.next().await.is_some() {} }).await.is_ok()
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("event:") == Some("alive") {
        return None;
    }
    let data = serde_json::from_str(field("data:")?).expect("JSON");
    Some(Event { name: field("event:").unwrap_or_default().to_owned(), data })
}
