//! The answer of a router to its part of a route, and why a route fails.

use super::request_failure::RequestFailure;
use crate::hosting::DialFault;

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
    /// Whether the host or its router reported it, so that another host may be reached over the
    /// same path.
    pub is_of_host: bool,
    pub is_invalid_terminator: bool,
    /// Whether a router does not know a link of the path.
    pub is_invalid_link: bool,
}

impl RouteFailure {
    /// A failure of the path, or of the circuit itself.
    pub(crate) fn of_path(failure: RequestFailure) -> Self {
        Self {
            failure,
            is_of_host: false,
            is_invalid_terminator: false,
            is_invalid_link: false,
        }
    }

    /// A failure of the host.
    pub(crate) fn of_host(failure: RequestFailure) -> Self {
        Self {
            is_of_host: true,
            ..Self::of_path(failure)
        }
    }

    /// A failure of the path with its text.
    pub(super) fn on_path(text: impl Into<String>, fault: DialFault) -> Self {
        Self::of_path(RequestFailure::internal(text).because(fault))
    }

    /// The refusal of a router, which has the host if `is_last`.
    pub(super) fn of_refusal(refusal: RouteRefusal, is_last: bool) -> Self {
        let RouteRefusal { text, cause } = refusal;
        let is_invalid_link = cause == RefusalCause::Link;
        let is_of_host = is_last && !is_invalid_link;
        let fault = match cause {
            _ if !is_of_host => DialFault::Path,
            RefusalCause::Terminator => DialFault::Left,
            RefusalCause::Other(fault) => fault,
            RefusalCause::Link => DialFault::Path,
        };
        Self {
            failure: RequestFailure::internal(text).because(fault),
            is_of_host,
            is_invalid_terminator: is_of_host && cause == RefusalCause::Terminator,
            is_invalid_link,
        }
    }
}
