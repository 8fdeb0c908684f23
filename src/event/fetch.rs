//! Requests to addresses of the settings, under the rules of webhooks: the address is checked after
//! its name was resolved, redirects are not followed, and answers have a limit.

use axum::body::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, StatusCode};

use super::target::Target;
use super::webhook::WebhookClient;

impl WebhookClient {
    /// Sends a request without an address of its own to `target`, and reads the answer up to
    /// `bytes_max`.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn fetch(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), String> {
        let exchange = async {
            let (mut head, body) = request.into_parts();
            head.uri = target.path.parse().map_err(|_| "path not usable".to_owned())?;
            let host = target.authority.parse().map_err(|_| "host not usable".to_owned())?;
            head.headers.insert(HOST, host);
            head.headers
                .insert(ACCEPT, hyper::header::HeaderValue::from_static("application/json"));
            let agent = concat!("seckill/", env!("CARGO_PKG_VERSION"));
            head.headers.insert(USER_AGENT, hyper::header::HeaderValue::from_static(agent));
            let mut connection = self.connect(target).await?;
            let answer = connection.sender.send_request(Request::from_parts(head, body)).await;
            let answer = answer.map_err(|error| format!("connection broken off: {error}"))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), bytes_max).collect().await;
            let body = body.map_err(|error| format!("answer not read: {error}"))?;
            Ok((status, body.to_bytes()))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} ms", self.timeout.as_millis())),
        }
    }
}
