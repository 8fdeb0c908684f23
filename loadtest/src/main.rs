//! The command line of the load test.

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use loadtest::environment::Environment;
use loadtest::failure::{self, CannotJudge};
use loadtest::options::{Cli, Command};
use loadtest::{Ended, bench, compare, failures, process, report, run, sources};

/// The service's allocator, so that the bare handler of the bench has it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Connections of the widest experiment of `sources` and `break`.
const EXPERIMENT_CONNECTIONS_MAX: u32 = 2_000;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli.command.unwrap_or(Command::Run(cli.run))) {
        Ok((text, exit_code)) => {
            print!("{text}");
            ExitCode::from(exit_code)
        }
        Err(failure) => {
            eprintln!("loadtest could not judge: {failure}");
            ExitCode::from(failure::EXIT_COULD_NOT_JUDGE)
        }
    }
}

fn start(command: Command) -> Ended {
    let (connections, threads) = match &command {
        Command::Run(options) => {
            options.check()?;
            (options.concurrency, options.threads)
        }
        Command::Compare(options) => (options.concurrency.max(800), options.ground.threads),
        Command::Sources(options) => (EXPERIMENT_CONNECTIONS_MAX, options.ground.threads),
        Command::Break(options) => (EXPERIMENT_CONNECTIONS_MAX, options.ground.threads),
        Command::Bench(options) => (options.connections_max(), None),
        Command::BareHttp => (bench::CLIENTS_MAX, Some(process::cores())),
    };
    process::allow_open_files(connections)?;
    // Half of the cores by default: the service and its databases usually share this machine.
    let threads = threads.unwrap_or_else(|| (process::cores() / 2).max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| CannotJudge(format!("no runtime: {error}")))?;
    // A signal drops what runs, and with it the services and servers that were started.
    runtime.block_on(async {
        tokio::select! {
            ended = Box::pin(walk(command)) => ended,
            () = stopped() => Err(CannotJudge("stopped before the end".to_owned())),
        }
    })
}

/// Waits for Ctrl-C or a polite kill.
async fn stopped() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

async fn walk(command: Command) -> Ended {
    match command {
        Command::Run(options) => {
            let report = Box::pin(run::execute(&options, &Environment::load())).await?.report;
            Ok((report::text::render(&report), report.verdict.exit_code))
        }
        Command::Compare(options) => {
            let comparison = Box::pin(compare::run(&options)).await?;
            let out = options.out.display();
            let text = compare::text::render(&comparison);
            let files =
                format!("\nthe report: {out}/report.html, {out}/report.md, {out}/report.json\n");
            Ok((text + &files, comparison.exit_code))
        }
        Command::Sources(options) => Box::pin(sources::run(&options)).await,
        Command::Break(options) => Box::pin(failures::run(&options)).await,
        Command::Bench(options) => Box::pin(bench::execute(&options, &Environment::load())).await,
        Command::BareHttp => {
            Box::pin(bench::bare_http::serve()).await?;
            Ok((String::new(), failure::EXIT_CLEAN))
        }
    }
}
