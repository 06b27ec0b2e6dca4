//! Routers in other processes, on their control channel. The routers here are simulated; unmodified ones are in `tests/interop`.

mod access_ends;
mod circuits;
mod connection;
mod links;
mod mock;
mod offers;
mod session_tokens;
mod sync;
