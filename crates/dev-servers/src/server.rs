//! A running private server, whatever its program, and what a recipe for a program has to say.

use std::fmt::Debug;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::error::StartError;
use crate::guardian::Guardian;
use crate::home::Home;
use crate::ports;
use crate::temporary::TemporaryDirectory;

/// How long a starting server may take to answer one question.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The pause before a starting server is asked again.
const READY_POLL: Duration = Duration::from_millis(25);

/// What is particular to one program. A new kind of server is one file with a recipe, the options
/// of a start, and the addresses that its clients need.
pub trait Recipe: Debug + Send + Sync {
    /// How long a start may take until the server serves. It loads its data before, and a cluster elects a leader.
    const START_MAX: Duration = Duration::from_secs(60);

    /// Writes the configuration with this port on 127.0.0.1 for clients, and returns program and arguments.
    ///
    /// # Errors
    /// A file cannot be written, or a program is missing.
    fn command(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError>;

    /// Asks the server once whether it serves.
    fn ask(&self, port: u16) -> impl Future<Output = Result<(), NotReady>> + Send;
}

/// Why a server does not serve.
pub enum NotReady {
    /// Not yet, but perhaps later: the server's answer.
    Yet(String),
    /// Never: the server's answer.
    Ever(String),
}

/// A server that is ready to be launched.
#[derive(Debug)]
pub(crate) struct ReadyServer<R> {
    pub(crate) recipe: R,
    pub(crate) home: Home,
    /// Directories that are removed when the server is dropped.
    pub(crate) temporary: Vec<TemporaryDirectory>,
    /// What the program says about its version.
    pub(crate) version: String,
}

/// A running private server. Dropping it stops it in the background.
#[derive(Debug)]
pub struct Server<R: Recipe> {
    guardian: Guardian,
    command: Vec<String>,
    port: u16,
    pub(crate) recipe: R,
    version: String,
    // Dropped last, so that the directory is unlocked and removed after the server was told to end.
    pub(crate) home: Home,
    _temporary: Vec<TemporaryDirectory>,
}

impl<R: Recipe> Server<R> {
    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process number of the server itself.
    pub fn pid(&self) -> u32 {
        self.guardian.pid()
    }

    /// What the program says about its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Asks the server to end, kills it if it takes longer than ten seconds, and returns when it
    /// has ended. Its directory is free for another start once this value is dropped.
    pub async fn stop(&self) {
        self.guardian.stop().await;
    }

    /// Kills the server at once, as `kill -9` does, and returns when it is gone.
    pub async fn kill(&self) {
        self.guardian.kill().await;
    }

    /// Freezes the server: connections stay open and nothing is answered. `false` when it ended.
    pub fn pause(&self) -> bool {
        self.guardian.signal("STOP")
    }

    /// Lets a frozen server go on. `false` when it ended.
    pub fn resume(&self) -> bool {
        self.guardian.signal("CONT")
    }

    /// Starts the server again on the same directory, sockets and ports, after [`Self::stop`] or
    /// [`Self::kill`]; a running one is stopped first.
    ///
    /// # Errors
    /// A sentence with the end of the server's log.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.stop().await;
        self.guardian = launch(&self.recipe, &self.home, &self.command, self.port).await?;
        Ok(())
    }

    /// Waits until the server has ended, and tells how, with the end of its log.
    pub async fn ended(&self) -> StartError {
        let status = self.guardian.exited().await;
        self.home.ended(&status.to_string())
    }

    /// Starts a server, and returns when it serves: a member of a cluster on the port that its peers know, any other
    /// on a free one.
    pub(crate) async fn boot(
        ready: ReadyServer<R>,
        member_port: Option<u16>,
    ) -> Result<Self, StartError> {
        let ReadyServer { recipe, home, temporary, version } = ready;
        let started = ports::start_again(|| async {
            let port = match member_port {
                Some(port) => port,
                None => ports::choose(&home.path("port"))?,
            };
            let command = recipe.command(&home, port)?;
            let guardian = launch(&recipe, &home, &command, port).await?;
            Ok::<_, StartError>((guardian, command, port))
        });
        let (guardian, command, port) = started.await?;
        tracing::info!("{} answers on 127.0.0.1:{port}", home.server);
        Ok(Self { guardian, command, port, recipe, version, home, _temporary: temporary })
    }
}

/// Runs the server and waits until it serves. On an error it has been stopped again.
async fn launch<R: Recipe>(
    recipe: &R,
    home: &Home,
    command: &[String],
    port: u16,
) -> Result<Guardian, StartError> {
    let guardian = Guardian::spawn(command, &home.directory, &home.log)
        .map_err(StartError::io("run", Path::new(&command[0])))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = guardian.exit_status() {
            return Err(home.ended(&status.to_string()));
        }
        let (answer, is_final) = match timeout(ANSWER_MAX, recipe.ask(port)).await {
            Ok(Ok(())) => return Ok(guardian),
            Ok(Err(NotReady::Yet(answer))) => (answer, false),
            Ok(Err(NotReady::Ever(answer))) => (answer, true),
            Err(_) => (format!("no answer within {} s", ANSWER_MAX.as_secs()), false),
        };
        if is_final || begin.elapsed() >= R::START_MAX {
            guardian.stop().await;
            return Err(home.silent(begin.elapsed(), &answer));
        }
        sleep(READY_POLL).await;
    }
}

/// Says a text to a server on this machine, and reads what it answers until it ends the connection.
///
/// # Errors
/// There is no such server, or it does not answer in time.
pub(crate) async fn say(port: u16, text: &str) -> io::Result<String> {
    let talk = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(text.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(ANSWER_MAX, talk).await?
}
