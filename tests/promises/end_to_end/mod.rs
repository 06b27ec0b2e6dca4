//! End-to-end scenarios, as an external client runs them.

mod access;
mod enrollment;
mod http;
mod log_in;

use std::{collections::BTreeSet, thread, time::Duration};

use model::{clock::Clock, config::Span};

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};

use serde_json::json;

use pki::Certificate;
use uuid::Uuid;

use crate::harness::{Answer, Authority, Base, Caller, Key, PASSWORD, TestServer, fresh, shared};
