//! The data file: how it is opened and created, its backend and block checksums, recovery after a
//! disk failure, snapshots, upgrades of the format.

pub(crate) mod backend;
mod backend_state;
pub(crate) mod checksum;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod open_error;
pub(crate) mod overlay;
pub(crate) mod private_file;
pub(crate) mod recovery;
pub(crate) mod restoration;
pub(crate) mod snapshot;
pub(crate) mod upgrade;
