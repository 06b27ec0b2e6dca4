//! What tests, benches and examples may use of the root package, by module; the libraries they name
//! directly. Nothing else is visible outside of it, so that the compiler finds code that nobody
//! uses.
//!
//! Add a name only for a test that needs it. This module is no interface for other programs, and
//! any release may change it.

pub mod admin_socket {
    pub use crate::admin_socket::{AdminContext, Command, Outcome, request, socket};
}
pub mod cli {
    pub use crate::cli::{CommandError, act, api, run};
}
pub mod controller {
    pub use crate::controller::{Controller, NotStarted, drill, host, start};
}
pub mod logging {
    pub use crate::logging::{changeable, subscriber};
}
