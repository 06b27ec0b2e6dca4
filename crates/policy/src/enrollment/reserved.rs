//! Names that no router may have in its certificates: those under which clients reach the
//! controller. A router with one of them could impersonate the controller.

use std::net::IpAddr;

use model::{
    config::Address,
    error::{Error, Result},
};
use pki::{AlternativeNames, Csr};

/// The configuration key that allows routers to use the names of the controller.
const KEY: &str = "enrollment.routers-may-name-controller";

/// The names and addresses of the controller that routers may not have. Loopback names and
/// addresses are not reserved.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// Whether every name is allowed.
    allowed: bool,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Reserved {
    /// The hosts of the advertised addresses; if `allowed`, none of them is rejected.
    pub fn of(advertised: &[Address], allowed: bool) -> Self {
        let AlternativeNames { dns, addresses, .. } =
            AlternativeNames::of_hosts(advertised.iter().map(Address::host));
        let names = dns
            .iter()
            .map(|name| plain(name))
            .filter(|name| !is_local(name))
            .collect();
        let addresses = addresses
            .into_iter()
            .map(|address| address.to_canonical())
            .filter(|address| !address.is_loopback())
            .collect();
        Self {
            allowed,
            names,
            addresses,
        }
    }

    /// Checks the names in a request. `field` is the member of the body that holds the request.
    /// Common names of the subject count too, because clients use them if there is no alternative
    /// name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the field, the name and the configuration key that allows it.
    pub(crate) fn admits(&self, field: &str, request: &Csr) -> Result<()> {
        let (names, subject) = (request.names(), request.subject().common_names());
        let texts = names
            .dns
            .iter()
            .chain(&subject)
            .find(|name| self.covers_name(name))
            .cloned();
        let address = || {
            names
                .addresses
                .iter()
                .find(|address| self.addresses.contains(&address.to_canonical()))
                .map(ToString::to_string)
        };
        match texts.or_else(address).filter(|_| !self.allowed) {
            Some(name) => {
                let reason = format!(
                    "{name} is a name of the controller, or covers one; {KEY} in the configuration allows it"
                );
                Err(Error::invalid(field, reason, name))
            }
            None => Ok(()),
        }
    }

    /// Whether a host name, which may contain wildcards, is `*` or covers a name or an address of
    /// the controller.
    fn covers_name(&self, name: &str) -> bool {
        let name = plain(name);
        let address = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map(|address: IpAddr| address.to_canonical());
        name == "*"
            || address.is_ok_and(|address| self.addresses.contains(&address))
            || self.names.iter().any(|own| covers(&name, own))
    }
}

/// A host name for comparison (RFC 4343): in lower case, without the final dot.
fn plain(name: &str) -> String {
    name.trim().trim_end_matches('.').to_ascii_lowercase()
}

/// RFC 6761 section 6.3: such a name always means this host.
fn is_local(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a pattern covers a name. A `*` stands for any part of one label, as the most lenient
/// clients match (RFC 6125 section 6.4.3).
fn covers(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), name.split('.').collect());
    pattern.len() == name.len()
        && pattern
            .iter()
            .zip(&name)
            .all(|(pattern, label)| covers_label(pattern, label))
}

fn covers_label(pattern: &str, label: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == label;
    };
    let Some(mut left) = label.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(tail)
}
