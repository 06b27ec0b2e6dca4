//! The program. All code is in the library, where tests and examples use it; start with `overkeep::cli`.

use std::process::ExitCode;

/// jemalloc returns unused memory to the operating system: work comes in bursts, and edge boxes have little memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    overkeep::cli::main(overkeep::controller::run)
}
