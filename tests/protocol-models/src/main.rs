//! Steps through a model in a browser: `cargo run -p protocol-models -- explore lock`.

use std::process::ExitCode;

use protocol_models::batch::five_orders;
use protocol_models::lock::{three_processes, two_processes};
use stateright::Model;

/// Where the explorer listens.
const ADDRESS: &str = "127.0.0.1:3017";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["explore", model @ ("lock" | "lock3" | "batch")] = words[..] else {
        eprintln!("usage: protocol-models explore lock|lock3|batch");
        return ExitCode::from(2);
    };
    println!(
        "http://{ADDRESS}: the actions that are possible, and the states after them; Ctrl-C ends it"
    );
    // Serves until the process ends.
    match model {
        "lock" => drop(two_processes(None).checker().serve(ADDRESS)),
        "lock3" => drop(three_processes(None).checker().serve(ADDRESS)),
        _ => drop(five_orders(None).checker().serve(ADDRESS)),
    }
    ExitCode::SUCCESS
}
