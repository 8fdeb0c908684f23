//! Extractors for JSON bodies, with a size limit, a time limit and strict parsing.
//!
//! A number is an [`Integer`], which tells a missing field, a wrong type and a number out of range
//! apart; serde has one error for all three.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::problem::Problem;
use crate::problems;

/// The deepest nesting of JSON that is parsed.
const DEPTH_MAX: usize = 32;
/// The largest table in CSV, in bytes.
pub const CSV_BYTES_MAX: usize = 1 << 20;
/// The largest batch of reservations, in bytes.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// The media type of most bodies.
const JSON: &str = "application/json";
/// The media type of tables, and what else programs and browsers call them.
const CSV: &str = "text/csv";
const CSV_ELSEWHERE: [&str; 3] =
    ["application/csv", "text/tab-separated-values", "application/vnd.ms-excel"];

/// The limits of a request body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// The largest body in bytes.
    pub bytes_max: usize,
    /// The longest time until the last byte of a body.
    pub timeout: Duration,
}

/// A JSON body of type `T`, which must deny unknown fields. It may have `BYTES` bytes, even if the limit of bodies is
/// lower.
pub struct JsonBody<T, const BYTES: usize = 0>(pub T);

impl<T, S, const BYTES: usize> FromRequest<S> for JsonBody<T, BYTES>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let mut limits = BodyLimits::from_ref(state);
        limits.bytes_max = limits.bytes_max.max(BYTES);
        let bytes = read(request, limits).await?;
        parse(&bytes).map(Self)
    }
}

/// The bytes of a JSON body, for a signature that is made over them.
pub struct RawJson(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for RawJson
where
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        read(request, BodyLimits::from_ref(state)).await.map(Self)
    }
}

/// The bytes of a table in CSV, with a limit of its own.
pub struct CsvBody {
    pub bytes: Bytes,
    /// The parameter `charset` of its media type.
    pub charset: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for CsvBody
where
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let limits = BodyLimits { bytes_max: CSV_BYTES_MAX, ..BodyLimits::from_ref(state) };
        let charset = charset_of(request.headers());
        let is_sent = |kind: &&str| is_typed(kind, request.headers());
        let kind = CSV_ELSEWHERE.into_iter().find(is_sent).unwrap_or(CSV);
        let bytes = read_as(kind, request, limits).await?;
        Ok(Self { bytes, charset })
    }
}

/// The bytes of lines of JSON, with a limit of its own.
pub struct JsonLines(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonLines
where
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let limits = BodyLimits { bytes_max: BATCH_BYTES_MAX, ..BodyLimits::from_ref(state) };
        read_as("application/x-ndjson", request, limits).await.map(Self)
    }
}

/// A JSON body of type `T`. A request without a body counts as `{}`, whatever its Content-Type is: many tools name that of
/// a form, of a page or of plain text. Only one that says to have JSON must have some.
///
/// The body itself shows whether there is one: HTTP/2 needs no header that announces it.
pub struct OptionalJsonBody<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequest<S> for OptionalJsonBody<T>
where
    BodyLimits: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let limits = BodyLimits::from_ref(state);
        let bytes = if is_typed(JSON, request.headers()) {
            read(request, limits).await?
        } else {
            expect_nothing(request, limits).await?;
            Bytes::from_static(b"{}")
        };
        parse(&bytes).map(Self)
    }
}

/// Refuses a body of another type than JSON, unless it is empty.
async fn expect_nothing(request: Request, limits: BodyLimits) -> Result<(), Problem> {
    let (head, mut body) = request.into_parts();
    // Before the body is read: a client with `Expect: 100-continue` has not sent it yet.
    if head.headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0") {
        return check_headers(JSON, &head.headers, limits);
    }
    let is_empty = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| broken_off())?;
            if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                return Ok::<_, Problem>(false);
            }
        }
        Ok(true)
    };
    let is_empty =
        tokio::time::timeout(limits.timeout, is_empty).await.map_err(|_| too_slow())??;
    if is_empty { Ok(()) } else { check_headers(JSON, &head.headers, limits) }
}

async fn read(request: Request, limits: BodyLimits) -> Result<Bytes, Problem> {
    read_as(JSON, request, limits).await
}

async fn read_as(
    media_type: &'static str,
    request: Request,
    limits: BodyLimits,
) -> Result<Bytes, Problem> {
    check_headers(media_type, request.headers(), limits)?;
    let limited = Limited::new(request.into_body(), limits.bytes_max);
    match tokio::time::timeout(limits.timeout, limited.collect()).await {
        Err(_) => Err(too_slow()),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limits)),
        Ok(Err(_)) => Err(broken_off()),
    }
}

fn too_slow() -> Problem {
    problems::REQUEST_TIMEOUT.problem().close()
}

fn broken_off() -> Problem {
    malformed("The connection ended within the body; send the whole body.").close()
}

fn check_headers(
    wanted: &'static str,
    headers: &HeaderMap,
    limits: BodyLimits,
) -> Result<(), Problem> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(problems::UNSUPPORTED_ENCODING.problem().close());
    }
    if !is_typed(wanted, headers) {
        let detail = format!("Send the body as {wanted}.");
        return Err(problems::UNSUPPORTED_MEDIA_TYPE.detail(detail).close());
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.and_then(|value| value.parse::<usize>().ok());
    // Before the body is read: a client with `Expect: 100-continue` has not sent it yet.
    if length.is_some_and(|length| length > limits.bytes_max) {
        return Err(too_large(limits));
    }
    Ok(())
}

/// Whether the Content-Type is `wanted`, whatever its parameters are.
fn is_typed(wanted: &str, headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case(wanted)
}

/// The charset that the Content-Type names.
fn charset_of(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let parameters = content_type.split(';').skip(1).filter_map(|part| part.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.next().map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

fn too_large(limits: BodyLimits) -> Problem {
    let detail = format!("Send a body of at most {} bytes.", limits.bytes_max);
    problems::PAYLOAD_TOO_LARGE.detail(detail).close()
}

fn malformed(detail: &'static str) -> Problem {
    problems::MALFORMED_JSON.detail(detail)
}

/// Parses a body: first whether it is JSON at all, then whether it is a `T`.
///
/// # Errors
/// The problem that names the fault.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if depth(bytes) > DEPTH_MAX {
        return Err(malformed("Send JSON that is nested less deeply."));
    }
    if serde_json::from_slice::<&RawValue>(bytes).is_err() {
        return Err(problems::MALFORMED_JSON.problem());
    }
    // serde would also accept an array of the fields' values.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(problems::INVALID_TYPE.detail("Send a JSON object."));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        // serde_json has one category for these errors; only the message tells them apart.
        let words = error.into_inner().to_string();
        let fault = words.split(" at line ").next().unwrap_or_default();
        // An unknown field and one that comes twice are in the message; the object itself is no field.
        let (kind, is_named) = if words.starts_with("unknown field") {
            (&problems::UNKNOWN_FIELD, true)
        } else if words.starts_with("duplicate field") {
            (&problems::DUPLICATE_FIELD, true)
        } else if words.starts_with("missing field") {
            (&problems::MISSING_FIELD, false)
        } else {
            (&problems::INVALID_TYPE, false)
        };
        let is_named = is_named || field == ".";
        kind.detail(if is_named { fault.to_owned() } else { format!("{field}: {fault}") })
    })
}

/// The nesting depth of arrays and objects, counted without recursion.
fn depth(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut escaped = false;
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An integer field of a body, which may be missing. With `deserialize_with = "Integer::deserialize"` it may not, and the
/// problem names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integer {
    /// The field is missing, or `null`.
    #[default]
    Absent,
    /// A whole number.
    Number(i128),
    /// A number out of every range.
    Huge,
    /// Not a number, in a table. A body with such a value is refused while it is read.
    Other,
}

impl Integer {
    /// The number as `valid` converts it, or `default` if the field is missing.
    ///
    /// # Errors
    /// `missing_field` without a default, `invalid_type` for a value that is not an integer, and
    /// the problem of `out_of_range` for a number that `valid` refuses.
    pub fn or<T>(
        self,
        default: Option<T>,
        valid: impl FnOnce(i128) -> Option<T>,
        out_of_range: impl FnOnce() -> Problem,
    ) -> Result<T, Problem> {
        match self {
            Self::Absent => default.ok_or_else(|| problems::MISSING_FIELD.problem()),
            Self::Number(number) => valid(number).ok_or_else(out_of_range),
            Self::Huge => Err(out_of_range()),
            Self::Other => Err(problems::INVALID_TYPE.detail("Send a whole number.")),
        }
    }

    /// Reads a text; an empty one counts as a missing field.
    pub fn of_text(text: &str) -> Self {
        if text.is_empty() { Self::Absent } else { Self::read(text) }
    }

    fn read(text: &str) -> Self {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.starts_with(|first: char| first.is_ascii_digit()) {
            return Self::Other;
        }
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map_or(Self::Huge, Self::Number);
        }
        // A fraction or an exponent: not an integer, and with an exponent perhaps out of range.
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number.abs() < 1e15 => Self::Other,
            _ => Self::Huge,
        }
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(value) = <Option<&RawValue>>::deserialize(deserializer)? else {
            return Ok(Self::Absent);
        };
        match Self::read(value.get()) {
            Self::Other => Err(D::Error::custom("expected a whole number")),
            number => Ok(number),
        }
    }
}

/// Reads an RFC 3339 time with a zone.
///
/// # Errors
/// 422 `invalid_schedule`.
pub fn instant(text: &str) -> Result<OffsetDateTime, Problem> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| &problems::INVALID_SCHEDULE)?;
    // At both ends of the calendar a time may have a year in its own zone that MySQL has not in UTC.
    let in_utc = parsed.checked_to_offset(time::UtcOffset::UTC).filter(|time| time.year() >= 0);
    in_utc.ok_or_else(|| problems::INVALID_SCHEDULE.problem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        quantity: Integer,
    }

    fn code(text: &str) -> &'static str {
        parse::<Body>(text.as_bytes()).map_or_else(|problem| problem.code(), |_| "fine")
    }

    #[test]
    fn an_integer_tells_its_faults_apart() {
        let read = |text: &str| parse::<Body>(text.as_bytes()).expect("JSON").quantity;
        assert_eq!(read("{}"), Integer::Absent);
        assert_eq!(read(r#"{"quantity":-1}"#), Integer::Number(-1));
        assert_eq!(read(r#"{"quantity":9223372036854775808}"#), Integer::Number(1 << 63));
        assert_eq!(read(r#"{"quantity":1e309}"#), Integer::Huge);
        // Typed clients send `null` for a field that they leave out.
        assert_eq!(read(r#"{"quantity":null}"#), Integer::Absent);
        for other in ["1.5", "\"1\"", "true", "[1]", "1e2"] {
            assert_eq!(code(&format!(r#"{{"quantity":{other}}}"#)), "invalid_type", "{other}");
        }
    }

    #[test]
    fn the_detail_names_the_field() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only the error counts")]
        struct Cart {
            lines: Vec<Line>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only the error counts")]
        struct Line {
            #[serde(deserialize_with = "Integer::deserialize")]
            item_id: Integer,
        }
        for (text, expected) in [
            ("{}", "missing field `lines`"),
            (r#"{"lines":[{}]}"#, "lines[0]: missing field `item_id`"),
            (
                r#"{"lines":[{"item_id":1},{"item_id":"2"}]}"#,
                "lines[1].item_id: expected a whole number",
            ),
            (r#"{"lines":[{"item_id":1,"price":2}]}"#, "unknown field `price`, expected `item_id`"),
        ] {
            let problem = parse::<Cart>(text.as_bytes()).expect_err(text);
            assert_eq!(problem.detail_text(), expected, "{text}");
        }
    }
}
