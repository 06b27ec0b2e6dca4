//! What an operator meets in the first hour: passwords of the default auth policy, a terminal that
//! is closed, a drill, a full disk.

mod passwords;
mod program;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use figment::{
    Figment,
    providers::{Format, Serialized, Toml},
};

use model::{
    clock::{Clock, Timestamp},
    config::{Config, PasswordConfig, Span},
};
use overkeep::testing::controller;

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::command_line::{isolated, on_host, program};

use crate::harness::{Caller, Program, TestServer, fresh};
