//! Routers in other processes, on their control channel. The routers here are simulated; unmodified ones are in `tests/interop`.

mod access_ends;
mod announced_sessions;
mod built_in_links;
mod certificates;
mod circuits;
mod connection;
mod controller_restarts;
mod faults;
mod links;
mod mass_reconnect;
mod measurements;
mod mock;
mod mock_link;
mod new_links;
mod offers;
mod property;
mod seen;
mod session_tokens;
mod sync;
mod time_limits;
mod told;
mod transit;
mod tunneler;
