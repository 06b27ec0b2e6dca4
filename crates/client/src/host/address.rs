//! Which addresses a config allows: names, addresses, and networks.

use std::net::IpAddr;

use ipnet::IpNet;

/// One entry of a list of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AddressPattern {
    /// An address, or all of a network.
    Network(IpNet),
    /// A name in lower case.
    Name(String),
    /// A name in lower case, and all below it. Empty for every name.
    Below(String),
}

impl AddressPattern {
    /// What is no address and no network is a name.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if let Ok(network) = text.parse() {
            return Self::Network(network);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Self::Network(address.into());
        }
        match text.strip_prefix('*') {
            Some(rest) => Self::Below(folded(rest.trim_start_matches('.'))),
            None => Self::Name(folded(text)),
        }
    }

    pub(super) fn allows_name(&self, name: &str) -> bool {
        let name = folded(name);
        match self {
            Self::Network(_) => false,
            Self::Name(own) => *own == name,
            Self::Below(own) if own.is_empty() => true,
            Self::Below(own) => name
                .strip_suffix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        }
    }

    pub(super) fn allows_address(&self, address: IpAddr) -> bool {
        match self {
            Self::Network(network) => network.contains(&address),
            Self::Name(_) | Self::Below(_) => false,
        }
    }
}

/// A name without regard to case, and without the dot of the root.
fn folded(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}

/// In an address whose first bits are those of one network, they become those of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Translation {
    from: IpNet,
    to: IpNet,
}

impl Translation {
    /// `None` if both are not of one family, or the length is too great.
    pub(super) fn new(from: IpAddr, to: IpAddr, length: u8) -> Option<Self> {
        if from.is_ipv4() != to.is_ipv4() {
            return None;
        }
        Some(Self {
            from: IpNet::new(from, length).ok()?,
            to: IpNet::new(to, length).ok()?,
        })
    }

    fn apply(&self, address: IpAddr) -> Option<IpAddr> {
        if !self.from.contains(&address) {
            return None;
        }
        match (address, self.to.network(), self.to.hostmask()) {
            (IpAddr::V4(address), IpAddr::V4(network), IpAddr::V4(rest)) => {
                Some(IpAddr::V4((address & rest) | network))
            }
            (IpAddr::V6(address), IpAddr::V6(network), IpAddr::V6(rest)) => {
                Some(IpAddr::V6((address & rest) | network))
            }
            _ => None,
        }
    }
}

/// An address as the translation with the longest network that holds it says.
pub(super) fn translated(address: IpAddr, translations: &[Translation]) -> IpAddr {
    let longest = translations
        .iter()
        .filter(|one| one.from.contains(&address))
        .max_by_key(|one| one.from.prefix_len());
    longest
        .and_then(|one| one.apply(address))
        .unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn names_match_without_regard_to_case() {
        for (pattern, allowed, refused) in [
            ("web.internal", "WEB.internal.", "a.web.internal"),
            ("*.Internal", "web.internal", "internal.evil"),
            ("*.internal", "internal", "notinternal"),
            ("*", "anything", ""),
        ] {
            let pattern = AddressPattern::of(pattern);
            assert!(pattern.allows_name(allowed), "{pattern:?}");
            assert!(
                refused.is_empty() || !pattern.allows_name(refused),
                "{pattern:?}"
            );
            assert!(!pattern.allows_address(ip("10.0.0.1")), "{pattern:?}");
        }
    }

    #[test]
    fn networks_hold_addresses() {
        for (pattern, allowed, refused) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
        ] {
            let pattern = AddressPattern::of(pattern);
            assert!(pattern.allows_address(ip(allowed)), "{pattern:?}");
            assert!(!pattern.allows_address(ip(refused)), "{pattern:?}");
            assert!(!pattern.allows_name(allowed), "{pattern:?}");
        }
    }

    #[test]
    fn the_longest_translation_counts() {
        let all = [
            Translation::new(ip("10.0.0.0"), ip("192.168.0.0"), 8).unwrap(),
            Translation::new(ip("10.1.0.0"), ip("172.16.0.0"), 16).unwrap(),
            Translation::new(ip("fd00::"), ip("fd01::"), 64).unwrap(),
        ];
        for (from, to) in [
            ("10.1.2.3", "172.16.2.3"),
            ("10.9.2.3", "192.9.2.3"),
            ("11.1.2.3", "11.1.2.3"),
            ("fd00::5", "fd01::5"),
        ] {
            assert_eq!(translated(ip(from), &all), ip(to));
        }
        assert!(Translation::new(ip("10.0.0.0"), ip("fd00::"), 8).is_none());
        assert!(Translation::new(ip("10.0.0.0"), ip("11.0.0.0"), 33).is_none());
    }
}
