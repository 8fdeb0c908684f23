//! An etcd that demands a password, and one that speaks TLS.

use std::os::unix::fs::PermissionsExt;

use dev_servers::{EtcdOptions, EtcdServer};
use leaselock::etcd::{Certificates, Client, mutex};
use leaselock::{AcquireError, Guard, ReleaseOutcome};
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::testbed::name;
use super::{LONG_LEASE, waiting};

async fn lock_by(client: Client) -> Result<Guard, AcquireError> {
    let lock = mutex::mutex(client, "access:", &TaskTracker::new()).expect("a prefix");
    lock.acquire(&name(), waiting(LONG_LEASE)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_demands_a_password_gets_it() {
    let server = EtcdServer::start(EtcdOptions::temporary()).await.expect("it starts");
    let http = reqwest::Client::new();
    for (path, body) in [
        ("user/add", json!({ "name": "root", "password": "secret" })),
        ("user/grant", json!({ "user": "root", "role": "root" })),
        ("enable", json!({})),
    ] {
        let url = format!("{}/v3/auth/{path}", server.url());
        let answer = http.post(url).json(&body).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {answer:?}");
    }
    let client = || Client::new(&server.url()).expect("an address");
    let refused = lock_by(client()).await.expect_err("no password");
    assert!(refused.to_string().contains("user name is empty"), "{refused}");
    let refused = lock_by(client().with_password("root", "wrong")).await.expect_err("a wrong one");
    assert!(refused.to_string().contains("authentication failed"), "{refused}");
    let guard = lock_by(client().with_password("root", "secret")).await.expect("granted");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// The server's certificate and its key, which are their own root.
struct ServerFiles {
    folder: std::path::PathBuf,
    root: Vec<u8>,
}

impl Drop for ServerFiles {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Writes a certificate for 127.0.0.1, and a program that starts etcd with it on one more port.
fn files(tls_port: u16) -> ServerFiles {
    let folder = std::env::temp_dir().join(crate::support::unique("etcd-tls"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let path = |file: &str| folder.join(file).display().to_string();
    std::fs::write(path("cert"), own.cert.pem()).expect("written");
    std::fs::write(path("key"), own.signing_key.serialize_pem()).expect("written");
    let etcd = std::env::var("SECKILL_ETCD").ok().filter(|path| !path.is_empty());
    let etcd = etcd.unwrap_or_else(|| {
        "$(command -v etcd || echo \"${XDG_CACHE_HOME:-$HOME/.cache}/seckill/etcd\")".to_owned()
    });
    let script = format!(
        "#!/bin/sh\netcd={etcd}\ncase $1 in --version) exec \"$etcd\" --version;; esac\n\
         for flag in \"$@\"; do case $flag in --listen-client-urls=*) url=${{flag#*=}};; esac; done\n\
         exec \"$etcd\" \"$@\" --cert-file={} --key-file={} \
         \"--listen-client-urls=$url,https://127.0.0.1:{tls_port}\"\n",
        path("cert"),
        path("key"),
    );
    std::fs::write(path("etcd"), script).expect("written");
    let runs = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(path("etcd"), runs).expect("it may run");
    ServerFiles { root: own.cert.pem().into_bytes(), folder }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_tls_is_trusted_by_its_root_alone() {
    let port = dev_servers::free_port().expect("a port");
    let files = files(port);
    let program = Some(files.folder.join("etcd"));
    let options = EtcdOptions { program, ..EtcdOptions::temporary() };
    let _server = EtcdServer::start(options).await.expect("it starts");
    let url = format!("https://127.0.0.1:{port}");
    let stranger = Client::new(&url).expect("an address");
    let refused = lock_by(stranger.clone()).await.expect_err("an unknown root");
    assert!(matches!(refused, AcquireError::Unavailable(_)), "{refused}");
    let mut certificates = Certificates::default();
    certificates.roots = Some(files.root.clone());
    let trusted = stranger.with_certificates(&certificates).expect("certificates");
    let guard = lock_by(trusted).await.expect("granted");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}
