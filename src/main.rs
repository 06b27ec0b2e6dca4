//! The program. Everything is in the library, where tests and examples reach it; start with `overkeep::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    overkeep::cli::main(overkeep::controller::run)
}
