//! A real nginx before an instance, with its defaults but for the lines that a test adds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::{Client, TestFolder};

/// A running nginx. It ends with this value.
pub struct Nginx {
    /// Where clients connect to.
    pub addr: SocketAddr,
    _folder: TestFolder,
    _child: Child,
}

impl Nginx {
    /// Starts it before `instance`, with more lines in its `location`, and waits until it passes requests on.
    pub async fn before(instance: SocketAddr, lines: &str) -> Self {
        let port = dev_servers::free_port().expect("a port");
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let folder = TestFolder::new("nginx");
        let here = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {here}/{name};\n"))
            .collect();
        let configuration = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/log;\n\
             events {{ worker_connections 128; }}\n\
             http {{\naccess_log off;\n{temporary}server {{\nlisten {addr};\n\
             location / {{\nproxy_pass http://{instance};\n{lines}\n}}\n}}\n}}\n"
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration).expect("written");
        let program =
            if PathBuf::from("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let child = Command::new(program)
            .arg("-p")
            .arg(&*folder)
            .arg("-e")
            .arg(folder.join("log"))
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("nginx starts; scripts/install-packages proxies installs it");
        let client = Client::new(addr, None);
        client.until_answered().await;
        client.until("/healthz", |answer| answer.status == 200).await;
        Self { addr, _folder: folder, _child: child }
    }
}
