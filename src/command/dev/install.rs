//! Installs MariaDB and Redis where they are missing, so that `seckill dev` out of a release archive needs nothing else.

use std::time::Duration;

use tokio::process::Command;

/// What `make run` calls, too. It does nothing where both servers are there.
const SCRIPT: &str = include_str!("../../../scripts/install-packages");
/// How long apt-get may take with a slow network.
const INSTALL_MAX: Duration = Duration::from_secs(15 * 60);

/// Installs what is missing with apt-get. Everything that it prints is on standard error.
///
/// # Errors
/// A sentence when the servers could not be installed; the script has printed why, and what to do.
pub async fn install_servers() -> Result<(), String> {
    let script = Command::new("sh")
        .args(["-c", SCRIPT, "install-packages", "run"])
        .kill_on_drop(true)
        .status();
    match tokio::time::timeout(INSTALL_MAX, script).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(_)) => Err("MariaDB and Redis are not both installed; see above".to_owned()),
        Ok(Err(error)) => Err(format!("sh cannot be started: {error}")),
        Err(_) => Err(format!("apt-get has not ended within {} s", INSTALL_MAX.as_secs())),
    }
}
