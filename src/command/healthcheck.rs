//! `seckill healthcheck`: whether the service on this machine answers. For containers, whose image has no HTTP client.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use web::listen_address::ListenAddress;
use web::prober;

use super::ExitResult;

/// How long the answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Asks `/healthz` at `http.addr`. Exit 0 when it answers 200, else 1.
pub async fn run(file: Option<&Path>) -> ExitResult {
    let address = super::settings(file)?.http.addr.from_here();
    match tokio::time::timeout(ANSWER_MAX, ask(&address)).await {
        Ok(Ok(())) => Ok(ExitCode::SUCCESS),
        Ok(Err(sentence)) => super::refuse(format!("{address}: {sentence}")),
        Err(_) => super::refuse(format!("{address}: no answer in time")),
    }
}

async fn ask(address: &ListenAddress) -> Result<(), String> {
    let failed = |error: io::Error| format!("nobody listens: {error}");
    match address {
        ListenAddress::Tcp(address) => {
            prober::ask(TcpStream::connect(address).await.map_err(failed)?).await
        }
        ListenAddress::Unix(path) => {
            prober::ask(UnixStream::connect(path).await.map_err(failed)?).await
        }
    }
}
