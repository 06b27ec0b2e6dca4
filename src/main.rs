//! The program. All code is in the library; start with `src/lib.rs`.

use std::process::ExitCode;

/// jemalloc returns unused memory to the operating system: work comes in bursts, and edge boxes
/// have little memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    overkeep::main()
}
