//! What Overkeep promises, in one test binary: a module for each promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, in its helpers as well"
)]

mod access;
mod amounts;
mod architecture;
mod attack;
mod backup;
mod breakage;
mod build;
mod built_in_router;
mod certificates;
mod chains;
mod circuits;
mod configuration;
mod conflicts;
mod contract;
mod crash;
mod credentials;
mod damage;
mod documentation;
mod drive;
mod endings;
mod engine;
mod events;
mod explain;
mod factors;
mod fairness;
mod files;
mod frames;
mod front;
mod fuzz;
mod gains;
mod grounds;
mod habits;
mod harness;
mod history;
mod host;
mod hostile;
mod integrity;
mod keeping;
mod lasting;
mod lists;
mod lost_updates;
mod moving;
mod passwords;
mod pki;
mod posture;
mod power;
mod preview;
mod query;
mod recorded_frames;
mod redeeming;
mod refusals;
mod router;
mod router_names;
mod samples;
mod sealing;
mod shapes;
mod signers;
mod start;
mod store;
mod stories;
mod time;
mod tools;
mod torture;
mod traffic;
mod turns;
mod unread;
mod verbs;
mod verdicts;
mod views;
mod violations;
