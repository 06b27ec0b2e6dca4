//! An endpoint of the network, beside any controller and any edge router that speak the protocols
//! of this program: it enrolls, logs in, dials services and hosts them.
//!
//! Not here: the commands that use it (`src/cli/`), and the router's side of a channel (`fabric`).
//! Start at [`enrollment`], which turns a token into an [`IdentityFile`]; then [`Session`], the
//! log-in with such a file; then [`Channel`], a connection to an edge router.
//!
//! Invariants: nothing here speaks to a server that is not proven by a certificate below the
//! authorities of the identity, or by the token in the first connection; whatever a controller, a
//! router or another endpoint sends is bounded in bytes, and never leads to a panic.

#![warn(unreachable_pub)]

mod api_error;
mod binding;
mod channel;
mod cipher;
mod connection;
mod controller;
mod datagrams;
mod diagnosis;
pub mod enrollment;
mod forward;
mod frames;
mod host;
mod identity_file;
mod jitter;
mod new_identity_file;
mod posture;
mod pump;
mod renewed_file;
mod routers;
mod session;
mod standard_output;
mod status;

pub use binding::{Bind, Binding, Dialer};
pub use channel::{Channel, ChannelError};
pub use cipher::CipherError;
pub use connection::{Connection, Dial, DialError, ReceiveError, Receiver, Sender};
pub use controller::RequestError;
pub use diagnosis::{StepFinding, diagnose};
pub use forward::{ForwardError, Forwarding};
pub use host::{Hosted, Protocol, Target, host};
pub use identity_file::{IdentityFile, IdentityFileError};
pub use jitter::jittered;
pub use new_identity_file::NewIdentityFile;
pub use pump::{PumpError, pump};
pub use renewed_file::pending;
pub use routers::RouterError;
pub use session::{AskCode, LogInOptions, Offer, Right, Service, Session, SessionError};
pub use status::{RouterStatus, ServiceRole, ServiceStatus, SessionStatus};

#[cfg(test)]
mod tests;
