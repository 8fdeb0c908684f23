//! Runs a command of this workspace's load programs: limits, threads, signals, exit code.

use std::io::Write;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{CannotJudge, EXIT_COULD_NOT_JUDGE, OrCannotJudge};
use crate::process;

/// The text that a command prints, and its exit code.
pub type CommandResult = Result<(String, u8), CannotJudge>;

/// Runs a command to its end and prints what it returns.
///
/// `connections` is the most connections that it opens: the limit of open files is raised for
/// them. `threads` are the worker threads of the runtime. SIGINT and SIGTERM drop the command, and with it the services and
/// servers that it has started.
pub fn run(
    connections: u32,
    threads: usize,
    command: impl Future<Output = CommandResult>,
) -> ExitCode {
    let result = process::allow_open_files(connections).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .or_cannot_judge("the runtime could not be started")?;
        runtime.block_on(async {
            tokio::select! {
                result = command => result,
                () = stop_signal() => Err(CannotJudge::new("stopped by a signal before the end")),
            }
        })
    });
    match result {
        Ok((text, exit_code)) => {
            // The verdict is the same when nobody reads it any more.
            let _ = write!(std::io::stdout(), "{text}");
            ExitCode::from(exit_code)
        }
        Err(failure) => could_not_judge(&failure),
    }
}

/// Prints why nothing could be judged; returns the exit code for it.
pub fn could_not_judge(failure: &CannotJudge) -> ExitCode {
    eprintln!("could not judge: {failure}");
    ExitCode::from(EXIT_COULD_NOT_JUDGE)
}

/// Returns at the first SIGINT or SIGTERM.
async fn stop_signal() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
