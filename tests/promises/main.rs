//! What Overkeep promises: all integration tests in one binary, a module per subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, in its helpers as well"
)]

mod access;
mod access_changes;
mod address_change;
mod admin_socket;
mod api_tokens;
mod architecture;
mod backup;
mod backup_script;
mod build;
mod built_in_router;
mod certificate_chains;
mod certificates;
mod circuits;
mod code_lockouts;
mod command_line;
mod configuration;
mod conflicts;
mod contexts;
mod contract;
mod control;
mod control_messages;
mod crash;
mod credentials;
mod crud;
mod current_programs;
mod damage;
mod difficult_names;
mod documentation;
mod documented_examples;
mod end_to_end;
mod engine;
mod enrollment_refusals;
mod events;
mod explain;
mod explain_verdicts;
mod external_signers;
mod fairness;
mod figures;
mod file_permissions;
mod frames;
mod fuzz;
mod harness;
mod hidden_characters;
mod history;
mod history_classes;
mod hostile;
mod hostile_load;
mod integrity;
mod key_sets;
mod kill_at_random;
mod kinds;
mod lists;
mod login_basis;
mod lost_updates;
mod mass_deletion;
mod member_limits;
mod metrics;
mod moving;
mod network_document;
mod network_files;
mod operations;
mod page;
mod passwords;
mod pki;
mod posture;
mod posture_restarts;
mod power_loss;
mod preview;
mod query;
mod recorded_frames;
mod recorded_tools;
mod refusal_order;
mod refusals;
mod repair;
mod root_page;
mod router;
mod router_configuration;
mod router_names;
mod schema_bodies;
mod sealed_keys;
mod second_factors;
mod secrets;
mod shell_pages;
mod short_commands;
mod short_lists;
mod signer_logins;
mod simulated_disk;
mod start;
mod store;
mod time;
mod token_chains;
mod traffic;
mod unread;
mod upgrades;
mod views;
mod violations;
mod wire_quirks;
