//! Routers in other processes, on their control channel. The routers here are simulated; unmodified
//! ones are in `tests/interop`.

mod access_ends;
mod announced_sessions;
mod built_in_links;
mod certificates;
mod circuits;
mod compared_versions;
mod connection;
mod controller_restarts;
mod extended_clients;
mod faults;
mod floods;
mod known_identities;
mod link_confirmation;
mod links;
mod mass_reconnect;
mod measurements;
pub mod mock;
mod mock_link;
mod new_links;
mod offers;
mod outage;
mod peer_data;
mod property;
mod recorded_connections;
mod recordings;
mod router_two;
mod seen;
mod session_tokens;
mod stops;
mod sync;
mod time_limits;
mod told;
mod transit;
mod tunneler;
mod two_kinds;
