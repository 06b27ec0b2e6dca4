//! The answer of a router to its part of a route, and why a route fails.

use policy::hosting::DialFault;

use super::request_failure::RequestFailure;

/// What one end of a circuit passes on to the other, by the header keys of SDK channels.
pub(crate) type PassedOn = Vec<(u32, Vec<u8>)>;

/// The answer of a router to a route: what the host passes on to the client, if it has one.
pub(crate) type RouteAnswer = Result<PassedOn, RouteRefusal>;

/// Why a router does not take a route.
#[derive(Debug, Clone)]
pub(crate) struct RouteRefusal {
    pub text: String,
    pub cause: RefusalCause,
}

/// What a route fails at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The router does not know a link of the route.
    Link,
    /// The router does not know the terminator.
    Terminator,
    /// The host or the router failed.
    Other(DialFault),
}

/// A route that did not succeed.
#[derive(Debug)]
pub(crate) struct RouteFailure {
    pub failure: RequestFailure,
    pub place: FailurePlace,
}

/// Where a route failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailurePlace {
    /// On the path, or the circuit itself has ended.
    Path,
    /// A router does not know a link of the path.
    Link,
    /// The host or its router reported it: another host may be reached over the same path.
    Host,
    /// The host's router does not know the terminator.
    Terminator,
}

impl FailurePlace {
    pub(crate) fn is_of_host(self) -> bool {
        matches!(self, Self::Host | Self::Terminator)
    }
}

impl RouteFailure {
    /// A failure of the path, or of the circuit itself.
    pub(crate) fn of_path(failure: RequestFailure) -> Self {
        Self {
            failure,
            place: FailurePlace::Path,
        }
    }

    /// A failure of the host.
    pub(crate) fn of_host(failure: RequestFailure) -> Self {
        Self {
            failure,
            place: FailurePlace::Host,
        }
    }

    /// A failure of the path with its text.
    pub(super) fn on_path(text: impl Into<String>, fault: DialFault) -> Self {
        Self::of_path(RequestFailure::internal(text).because(fault))
    }

    /// The refusal of a router, which has the host if `is_last`.
    pub(super) fn of_refusal(refusal: RouteRefusal, is_last: bool) -> Self {
        let (place, fault) = match refusal.cause {
            RefusalCause::Link => (FailurePlace::Link, DialFault::Path),
            _ if !is_last => (FailurePlace::Path, DialFault::Path),
            RefusalCause::Terminator => (FailurePlace::Terminator, DialFault::Left),
            RefusalCause::Other(fault) => (FailurePlace::Host, fault),
        };
        Self {
            failure: RequestFailure::internal(refusal.text).because(fault),
            place,
        }
    }
}
