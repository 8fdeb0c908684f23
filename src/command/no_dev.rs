//! `seckill dev` in a program without the feature `dev`, such as the image's: it says what to do instead.

use std::path::Path;

use super::ExitResult;

/// Takes any arguments, because none of them is used.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<String>,
}

/// Refuses to run.
pub async fn run(_: Option<&Path>, _: &Arguments) -> ExitResult {
    Err("this program was built without private servers: start it with `make run` in the source folder, or build it with `--features dev`".to_owned())
}
