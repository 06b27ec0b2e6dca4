//! An identity in one line: `invite`.

mod invite;

use serde_json::{Value as Json, json};

use crate::{
    command_line::{Ran, on_host},
    harness::{TestServer, fresh},
    short_commands::LoggedIn,
};
