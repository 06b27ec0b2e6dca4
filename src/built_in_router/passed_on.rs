//! The header keys that pass from one end of a circuit to the other one.
//!
//! An end trusts its router: keys that only routers send make it take a message for something else. So only known keys pass.

use super::message::key;

/// From a Connect to the Dial. The method of end-to-end encryption is not among them, because SDKs send it in different forms and refuse those
/// of the others; without it all of them use the same method.
pub(crate) const TO_HOST: [i32; 3] = [key::PUBLIC_KEY, key::APP_DATA, key::MARKER];

/// From a DialSuccess to StateConnected.
pub(crate) const TO_CLIENT: [i32; 1] = [key::PUBLIC_KEY];

/// From the router of a client to the router of a host, in the peer data of a route: also the name of the caller, the terminator that a sticky
/// service should keep, and the id and name of the identity that dials, as routers from version 2 on report them.
const IN_ROUTES: [i32; 7] = [key::PUBLIC_KEY, key::CALLER, key::APP_DATA, key::MARKER, 1114, 1115, 1116];

/// Whether peer data with this key passes from the router of a client to the router of a host.
pub(crate) fn passes_to_host(key: u32) -> bool {
    i32::try_from(key).is_ok_and(|key| IN_ROUTES.contains(&key))
}

/// Whether peer data with this key passes from the router of a host to the router of a client.
pub(crate) fn passes_to_client(key: u32) -> bool {
    i32::try_from(key).is_ok_and(|key| TO_CLIENT.contains(&key))
}
