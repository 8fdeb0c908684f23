//! HAProxy before instances of the service, configured as in `deploy/haproxy.cfg`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::drive::Instance;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::files;
use crate::launcher::{answers, free_port};

const CONFIGURATION: &str = include_str!("../../deploy/haproxy.cfg");
/// The proxy must have found an instance within this; it looks at them every two seconds.
const START_MAX: Duration = Duration::from_secs(20);
/// After the first answer: the other instances are looked at, too.
const ALL_FOUND: Duration = Duration::from_millis(2_500);

/// A running HAProxy. It ends with this value.
pub struct Haproxy {
    /// Where clients connect to.
    pub instance: Instance,
    /// Ends the process when it is dropped.
    _child: Child,
}

/// The program, where it is installed.
pub fn program() -> Option<PathBuf> {
    dev_servers::find_program("haproxy")
}

impl Haproxy {
    /// Starts it before these instances, and waits until it has found them. Writes its configuration
    /// into `folder`, where nothing else reads it.
    ///
    /// # Errors
    /// When it does not start, or finds no instance.
    pub async fn start(
        program: &Path,
        instances: &[SocketAddr],
        connections_max: u32,
        folder: &Path,
    ) -> Result<Self, CannotJudge> {
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let file = folder.join(format!("haproxy-{}.cfg", listen.port()));
        files::write(&file, &configuration(listen, instances, connections_max))?;
        let mut child = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .or_cannot_judge("haproxy did not start")?;
        let instance = Instance::at(listen);
        if !answers(&mut child, &instance, "/api/items", START_MAX).await {
            let reason = format!("haproxy found no instance; see {}", file.display());
            return Err(CannotJudge(reason));
        }
        sleep(ALL_FOUND).await;
        Ok(Self { instance, _child: child })
    }
}

fn configuration(listen: SocketAddr, instances: &[SocketAddr], connections_max: u32) -> String {
    let lines = CONFIGURATION.lines().map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        match line.trim_start() {
            "bind :8080" => format!("{indent}bind {listen}"),
            // This machine may not have files for twenty thousand.
            "maxconn 20000" => format!("{indent}maxconn {connections_max}"),
            // What it would log costs time and is read by nobody.
            log if log.starts_with("log ") => String::new(),
            server if server.starts_with("server-template") => {
                let server = |(number, instance)| {
                    format!("{indent}server instance{number} {instance} init-addr last,libc\n")
                };
                (1..).zip(instances).map(server).collect()
            }
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}
