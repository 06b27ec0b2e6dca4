//! Routers elsewhere, on their control channel. The routers here are ours and do as a test says; unmodified ones are in `tests/interop`.

mod access_ends;
mod circuits;
mod connection;
mod mock;
mod offers;
mod sync;
