//! The `seckill` program: the command line of the library.

use std::process::ExitCode;

/// The allocator: purchases allocate and free memory thousands of times a second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    seckill::command::run()
}
