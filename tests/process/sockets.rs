//! The service on a unix socket: its file, its permissions, and whose address a client there has.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use hyper::client::conn::http2::Builder;
use hyper_util::rt::TokioExecutor;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::process::program::{signal, stop};
use crate::support::h2::{Carried, Http2};
use crate::support::prelude::*;

/// A folder with a path for a socket in it. It goes with this value.
pub struct Folder {
    folder: TestFolder,
    pub socket: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        let folder = TestFolder::new("socket");
        Self { socket: folder.join("http.sock"), folder }
    }

    /// The socket as a setting.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

/// A client whose connections are to a socket. Its requests name `localhost`.
pub fn client_of(socket: &Path, builder: reqwest::ClientBuilder) -> Client {
    Client::of(builder.unix_socket(socket), "http://localhost".to_owned(), None)
}

fn command(shop: &Shop, folder: &Folder, subcommand: &str) -> Command {
    let mut command = program(shop, &[subcommand]);
    command.env("SECKILL_HTTP_ADDR", folder.address());
    command
}

/// Serves on the socket; returns when it answers.
async fn serve(shop: &Shop, folder: &Folder, settings: &[(&str, &str)]) -> (Child, Client) {
    let child = command(shop, folder, "serve").envs(settings.iter().copied()).spawn();
    let client = client_of(&folder.socket, reqwest::Client::builder());
    client.until_answered().await;
    (child.expect("started"), client)
}

/// A file that a killed process left behind is replaced, one that is used is not, and a stop removes it.
#[tokio::test]
async fn a_socket_belongs_to_one_process_at_a_time() {
    let shop = Shop::new().await;
    let folder = Folder::new();
    // As a killed process leaves it.
    drop(UnixListener::bind(&folder.socket).expect("a socket"));
    let (mut child, client) = serve(&shop, &folder, &[]).await;
    let found = fs::metadata(&folder.socket).expect("a file");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o660, "http.socket_mode, whatever the umask");
    let second = told(&command(&shop, &folder, "serve").output().await.expect("runs"));
    let sentence = format!("another program listens on {}", folder.address());
    assert!(second.0 == 2 && second.1.contains(&sentence), "{second:?}");
    assert_eq!(client.get("/healthz").await.status, 200, "the first goes on");
    child.kill().await.expect("killed");
    assert!(folder.socket.exists(), "nobody removed it");
    let (child, client) = serve(&shop, &folder, &[("SECKILL_HTTP_SOCKET_MODE", "600")]).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let mode = fs::metadata(&folder.socket).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    stop(child).await;
    assert!(!folder.socket.exists(), "a stop removes it");
}

#[tokio::test]
async fn a_path_that_cannot_be_a_socket_is_left_alone() {
    let shop = Shop::new().await;
    let folder = Folder::new();
    let refused = async |folder: &Folder, sentence: &str| {
        let output = told(&command(&shop, folder, "serve").output().await.expect("runs"));
        assert!(output.0 == 2 && output.1.contains(sentence), "{sentence}: {output:?}");
    };
    fs::write(&folder.socket, "a letter").expect("written");
    refused(&folder, "there is a file that is no socket").await;
    assert_eq!(fs::read_to_string(&folder.socket).expect("a file"), "a letter");
    // Another program's, which knows nothing of our lock.
    fs::remove_file(&folder.socket).expect("removed");
    let other = UnixListener::bind(&folder.socket).expect("a socket");
    refused(&folder, "another program listens on").await;
    drop(other);
    let mut nowhere = Folder::new();
    nowhere.socket = nowhere.folder.join("nowhere/http.sock");
    refused(&nowhere, "cannot listen on unix:").await;
}

/// A proxy on the socket is 127.0.0.1: what it says of its clients is believed if that is trusted.
#[tokio::test]
async fn behind_a_proxy_on_the_socket_the_address_is_the_clients() {
    let shop = Shop::new().await;
    let folder = Folder::new();
    let settings = [
        ("SECKILL_LIMITS_LOOPBACK_EXEMPT", "false"),
        ("SECKILL_LIMITS_ADDRESS_PER_SECOND", "1"),
        ("SECKILL_LIMITS_ADDRESS_BURST", "1"),
    ];
    let sign_in = async |client: &Client, number: u32| {
        let request = client.request(Method::POST, "/api/session");
        let request = request.header("x-forwarded-for", format!("10.0.0.9, 203.0.113.{number}"));
        let body = json!({ "username": "nobody", "password": "long enough" });
        Client::send(request.json(&body)).await.status
    };
    let trusted = [&settings[..], &[("SECKILL_HTTP_TRUSTED_PROXIES", "127.0.0.1")]].concat();
    let (child, client) = serve(&shop, &folder, &trusted).await;
    for number in 0..20 {
        assert_eq!(sign_in(&client, number).await, 401, "each is a client of its own");
    }
    stop(child).await;
    let (child, client) = serve(&shop, &folder, &settings).await;
    let mut refused = 0;
    for number in 0..20 {
        refused += u32::from(sign_in(&client, number).await == 429);
    }
    assert!(refused > 0, "all are the one client on the socket");
    stop(child).await;
}

#[tokio::test]
async fn http_2_and_the_health_check_use_the_socket_too() {
    let shop = Shop::new().await;
    let folder = Folder::new();
    let health = async || command(&shop, &folder, "healthcheck").output().await.expect("runs");
    let before = told(&health().await);
    assert!(before.0 == 1 && before.1.contains("nobody listens"), "{before:?}");
    let (child, _) = serve(&shop, &folder, &[]).await;
    assert_eq!(told(&health().await).0, 0);
    let stream = UnixStream::connect(&folder.socket).await.expect("a connection");
    let builder = Builder::new(TokioExecutor::new());
    let client = Http2::over(stream, "localhost".to_owned(), &builder).await;
    let answer = client.ask(client.request(Method::GET, "/api/items"), Carried::Nothing).await;
    assert_eq!(answer.status, 200);
    // It stands still, and does not answer.
    signal(child.id().expect("running"), "STOP").await;
    let still = told(&health().await);
    assert!(still.0 == 1 && still.1.contains("no answer in time"), "{still:?}");
    signal(child.id().expect("running"), "CONT").await;
    stop(child).await;
}
