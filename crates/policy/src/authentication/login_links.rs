//! One-time links with which the owner of the host logs an administrator in. They are made over the
//! admin socket and kept in memory only.
//!
//! A link holds a secret of 256 bits, of which only the hash is kept. It is bound to one machine,
//! ends soon, and is spent by its first use, whether or not that use succeeds.

use std::{
    net::{IpAddr, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    entity::{Id, Identity},
    error::Result,
};

use super::ApiTokens;

/// At most this many links wait for their use; a further one replaces the oldest.
const LIMIT: usize = 16;

/// A link that was not used yet.
struct UnusedLink {
    hash: String,
    identity: Id<Identity>,
    /// The machine that may use it; `None` is the host of the controller.
    from: Option<IpAddr>,
    ends: Timestamp,
}

/// The links that were not used yet. Cheap to clone.
#[derive(Clone, Default)]
pub struct LoginLinks {
    waiting: Arc<Mutex<Vec<UnusedLink>>>,
}

impl LoginLinks {
    /// Makes a link for an identity and returns its secret.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn make(
        &self,
        identity: Id<Identity>,
        from: Option<IpAddr>,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<String> {
        let secret = ApiTokens::secret()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|link| link.ends > now);
        if waiting.len() >= LIMIT {
            waiting.remove(0);
        }
        waiting.push(UnusedLink {
            hash: ApiTokens::hash(&secret),
            identity,
            from,
            ends: now.plus(lasts),
        });
        Ok(secret.to_string())
    }

    /// Redeems the link with a secret, which then no longer works. `None` if there is none, it has
    /// ended, or `peer` is not the machine that may use it.
    pub fn redeem(
        &self,
        secret: &str,
        peer: Option<IpAddr>,
        now: Timestamp,
    ) -> Option<Id<Identity>> {
        let hash = ApiTokens::hash(secret);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().position(|link| link.hash == hash)?;
        let link = waiting.remove(at);
        let peer = peer?.to_canonical();
        let is_there = link
            .from
            .map_or_else(|| is_of_host(peer), |from| from.to_canonical() == peer);
        (link.ends > now && is_there).then_some(link.identity)
    }
}

/// Whether an address is one of this host: only to those can a socket be bound.
fn is_of_host(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}
