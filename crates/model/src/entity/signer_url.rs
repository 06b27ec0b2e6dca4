//! URLs of the key sets of external signers, and whether keys may be fetched from them.

use std::net::IpAddr;

use ureq::http::{Uri, uri::Scheme};

/// Why a URL with a user name or a password is rejected.
pub const USER_INFO: &str =
    "must not contain a user name or a password, because addresses are shown and logged";
const PLAIN: &str =
    "must be an https address; key-sets.allow-http in the configuration allows http";

/// An http or https URL of a key set (RFC 9110 section 4.2).
#[derive(Debug)]
pub struct SignerUrl(Uri);

impl SignerUrl {
    /// Parses a URL. `None` unless it is absolute, has a host, and the scheme is http or https.
    pub fn read(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme()?;
        let known = [Scheme::HTTP, Scheme::HTTPS]
            .iter()
            .any(|known| is_scheme(scheme, known));
        (known && uri.host().is_some_and(|host| !host.is_empty())).then_some(Self(uri))
    }

    /// Checks that keys may be fetched from it: by https, by http from this host, or by http from
    /// any host if `plain` is set.
    ///
    /// # Errors
    /// The reason, which does not repeat the URL.
    pub fn admit(&self, plain: bool) -> Result<(), &'static str> {
        if self
            .0
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(USER_INFO);
        }
        let is_https = self
            .0
            .scheme()
            .is_some_and(|scheme| is_scheme(scheme, &Scheme::HTTPS));
        if is_https || plain || self.is_loopback() {
            Ok(())
        } else {
            Err(PLAIN)
        }
    }

    fn is_loopback(&self) -> bool {
        let host = self
            .0
            .host()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        let address: Result<IpAddr, _> = host.parse();
        address.map_or(
            host == "localhost" || host.ends_with(".localhost"),
            |address| address.to_canonical().is_loopback(),
        )
    }
}

/// Whether a scheme is this one, in any case (RFC 3986 section 3.1).
fn is_scheme(scheme: &Scheme, known: &Scheme) -> bool {
    scheme.as_str().eq_ignore_ascii_case(known.as_str())
}

/// Whether a URL of any scheme holds a user name or a password (RFC 3986 section 3.2.1).
pub fn holds_user_info(url: &str) -> bool {
    let authority = url
        .split_once("//")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    authority.is_some_and(|authority| authority.contains('@'))
}
