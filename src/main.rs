//! The program. Everything is in the library, where tests and examples reach it; start with `overkeep::cli`.

use std::process::ExitCode;

/// Gives back to the system what is not used any more: work comes in bursts, and edge boxes have little memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    overkeep::cli::main(overkeep::controller::run)
}
