//! HTTP/1.1 messages as bytes: requests rendered, and how much of an answer is there.
//!
//! It reads what a client of this service needs, and no more: the status, `Retry-After`, and where the
//! body ends.

use std::time::Duration;

use hyper::body::Bytes;

/// An answer with more headers is none of this service.
const HEADERS_MAX: usize = 64;
/// A longer head, or a longer body, is no answer of this service.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Renders a request. Every method but `GET` has a length.
pub fn render(
    method: &str,
    path: &str,
    headers: &[(&str, impl AsRef<[u8]>)],
    body: &[u8],
) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    for (name, value) in headers {
        text.extend(name.as_bytes());
        text.extend(b": ");
        text.extend(value.as_ref());
        text.extend(b"\r\n");
    }
    if method != "GET" {
        text.extend(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    text.extend(b"\r\n");
    text.extend(body);
    text
}

/// What was read of an answer.
#[derive(Debug)]
pub enum Read {
    /// All of it.
    Whole(Reply),
    /// Not all of it yet.
    Part,
    /// What is no answer.
    Wrong,
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// How long the service asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Bytes,
    /// Whether the connection can be used again.
    pub keeps_connection: bool,
}

/// Where the body of an answer ends.
enum End {
    After(usize),
    LastChunk,
    Closing,
}

/// Reads an answer. `is_closed`: nothing will follow `input`.
pub fn read(input: &[u8], is_closed: bool) -> Read {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let start = match head.parse(input) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) if input.len() <= HEAD_BYTES_MAX => return Read::Part,
        _ => return Read::Wrong,
    };
    let status = head.code.unwrap_or_default();
    // HTTP/1.0 closes unless it says otherwise, and no answer of ours is HTTP/1.0.
    let mut keeps_connection = head.version == Some(1);
    let mut retry_after = None;
    let mut end = if status == 204 || status == 304 { End::After(0) } else { End::Closing };
    for header in &*head.headers {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            match value.parse() {
                Ok(length) => end = End::After(length),
                Err(_) => return Read::Wrong,
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            end = End::LastChunk;
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            retry_after = value.parse().ok().map(Duration::from_secs);
        } else if header.name.eq_ignore_ascii_case("connection") {
            keeps_connection &= !value.eq_ignore_ascii_case("close");
        }
    }
    let rest = &input[start..];
    let body = match end {
        End::After(length) if length > BODY_BYTES_MAX => return Read::Wrong,
        // More than the answer was not asked for.
        End::After(length) if rest.len() > length => return Read::Wrong,
        End::After(length) if rest.len() < length => return Read::Part,
        _ if rest.len() > 2 * BODY_BYTES_MAX => return Read::Wrong,
        End::After(_) => Bytes::copy_from_slice(rest),
        End::Closing if is_closed => Bytes::copy_from_slice(rest),
        End::Closing => return Read::Part,
        End::LastChunk => match unchunked(rest) {
            Some(Ok(body)) => body.into(),
            Some(Err(_)) => return Read::Wrong,
            None => return Read::Part,
        },
    };
    Read::Whole(Reply { status, retry_after, body, keeps_connection })
}

/// The body that is sent in chunks; `None` when the last one has not come.
fn unchunked(mut input: &[u8]) -> Option<Result<Vec<u8>, httparse::InvalidChunkSize>> {
    let mut body = Vec::new();
    loop {
        let (start, length) = match httparse::parse_chunk_size(input) {
            Ok(httparse::Status::Complete(size)) => size,
            Ok(httparse::Status::Partial) => return None,
            Err(error) => return Some(Err(error)),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= BODY_BYTES_MAX);
        let Some(length) = length else { return Some(Err(httparse::InvalidChunkSize)) };
        // Each chunk ends with a line break. We read no trailers, so the last one ends there, too.
        let rest = input.get(start..)?;
        let chunk = rest.get(..length)?;
        input = rest.get(length..)?.strip_prefix(b"\r\n")?;
        if length == 0 {
            return Some(Ok(body));
        }
        body.extend(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Reply {
        for end in 0..text.len() {
            let part = &text.as_bytes()[..end];
            assert!(matches!(read(part, false), Read::Part), "whole after {end} bytes: {text}");
        }
        match read(text.as_bytes(), false) {
            Read::Whole(reply) => reply,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let reply = whole("HTTP/1.1 409 Conflict\r\nRetry-After: 2\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!((reply.status, &*reply.body), (409, b"{}".as_slice()));
        assert_eq!(reply.retry_after, Some(Duration::from_secs(2)));
        assert!(reply.keeps_connection);
        let reply = whole("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
        assert!(reply.body.is_empty() && !reply.keeps_connection);
    }

    #[test]
    fn chunks_are_put_together() {
        let reply = whole(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        );
        assert_eq!(&*reply.body, b"abcde");
    }

    #[test]
    fn a_body_without_a_length_ends_with_the_connection() {
        let text = b"HTTP/1.0 503 Service Unavailable\r\n\r\n<html>";
        assert!(matches!(read(text, false), Read::Part));
        let Read::Whole(reply) = read(text, true) else { panic!("no answer") };
        assert_eq!(&*reply.body, b"<html>");
        assert!(!reply.keeps_connection);
    }

    #[test]
    fn what_is_no_answer_is_not_waited_for() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(matches!(read(text.as_bytes(), false), Read::Wrong), "{text}");
        }
    }
}
