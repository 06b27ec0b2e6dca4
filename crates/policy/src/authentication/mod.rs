//! Authentication: credentials become API sessions, and session tokens become callers.
//!
//! Not here: how a credential is created (`enrollment/`), what a caller may do
//! (`rest/src/permission.rs`, `access/`). Start reading at [`Caller`], then [`login`]. Invariant: a
//! rejected login does not say why.
//!
//! Partly authenticated callers have outstanding [`AuthQuery`]s. One-time codes answer them once
//! per session (`mfa.rs`, `codes.rs`); tokens of an external signer answer them with every request
//! (`tokens.rs`).

mod api_tokens;
mod code_attempt;
mod code_counts;
mod code_failures;
pub mod codes;
mod ended_sessions;
mod fair_queue;
mod issuer_error;
mod issuers;
pub mod key_sets;
pub mod login;
mod login_links;
pub mod mfa;
mod password_failures;
mod passwords;
mod proof;
mod refusals;
pub mod session_end;
mod session_quota;
pub mod session_tokens;
mod sessions;
mod signer_logins;
mod tokens;
pub mod trust;

pub use api_tokens::ApiTokens;
pub use code_attempt::Attempt;
pub use codes::Codes;
pub use fair_queue::{Requester, network};
pub use login_links::LoginLinks;
pub use password_failures::FailureCount;
pub use passwords::Passwords;
pub use proof::{channel_fingerprints, holds, holds_fingerprint};
pub use refusals::{BIND, DIAL, Refusals, RejectedCaller};
pub(crate) use session_quota::SessionSlot;
pub use sessions::Sessions;
pub use signer_logins::{Returned, SignerLogins};
pub use tokens::Tokens;

use model::{
    entity::{
        ApiSession, ApiToken, AuthPolicy, AuthQuery, Author, ExternalJwtSigner, Id, Identity,
        Lookup, Record,
    },
    error::Result,
};
use store::Read;

/// The sender of a request with a session token.
#[derive(Debug, Clone)]
pub struct Caller {
    pub session: Record<ApiSession>,
    pub identity: Record<Identity>,
    /// What the caller still has to prove; empty for a fully authenticated caller.
    pub queries: Vec<AuthQuery>,
    /// The API token of the request, if it carried one instead of a session token. Then `session`
    /// is not stored.
    pub token: Option<Record<ApiToken>>,
    /// The external signer whose token the auth policy requires with each request.
    pub second_signer: Option<Id<ExternalJwtSigner>>,
}

impl Caller {
    /// The caller of a session, with its identity and the identity's auth policy.
    ///
    /// # Errors
    /// The required signer cannot be read.
    pub(crate) fn of(
        session: Record<ApiSession>,
        identity: Record<Identity>,
        policy: &AuthPolicy,
        lookup: &dyn Lookup,
    ) -> Result<Self> {
        let queries = AuthQuery::outstanding(&session.spec, policy, lookup)?;
        Ok(Self {
            session,
            identity,
            queries,
            token: None,
            second_signer: policy.secondary.require_ext_jwt_signer.clone(),
        })
    }

    /// Whether the caller has the rights of an administrator. Callers must also check `queries`.
    pub fn is_admin(&self) -> bool {
        self.identity.is_admin()
            && self
                .token
                .as_ref()
                .is_none_or(|token| !token.spec.self_service)
    }

    /// Whether answers may name records of a kind, by its path segment: the scope of an API token
    /// may leave it out.
    pub fn may_name(&self, kind: &str) -> bool {
        self.token
            .as_ref()
            .is_none_or(|token| token.spec.covers(kind))
    }

    /// The ids of the config types that the session asked for.
    pub fn config_types(&self) -> Vec<String> {
        self.session
            .spec
            .config_types
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// The author of this caller's changes; `from` holds the source address.
    pub fn author(&self, from: Author) -> Author {
        let token = self.token.as_ref().map(|token| token.spec.name.clone());
        let is_client = !(self.is_admin() && self.queries.is_empty());
        let from = from.known_as(&self.identity.id, Some(&self.identity.spec.name));
        Author {
            session: Some(self.session.id.to_string()),
            token,
            is_client,
            ..from
        }
    }
}

/// The administrators, ordered by id. Reads every identity; unreadable ones are left out.
///
/// # Errors
/// The store cannot be read.
pub fn administrators(tx: &Read<'_>) -> Result<Vec<Record<Identity>>> {
    let mut found = Vec::new();
    tx.each_readable::<Identity>(|identity| {
        found.extend(identity.is_admin().then_some(identity));
        Ok(())
    })?;
    Ok(found)
}

/// The auth policies of identities whose passwords can be guessed (`Updb::is_guessable`), ordered
/// by id. Unreadable ones are left out.
///
/// # Errors
/// The store cannot be read.
pub fn guessable_policies(tx: &Read<'_>) -> Result<Vec<Record<AuthPolicy>>> {
    let mut found = Vec::new();
    tx.each_readable::<AuthPolicy>(|policy| {
        if policy.spec.primary.updb.is_guessable()
            && tx.any::<Identity>("authPolicyId", policy.id.as_str())?
        {
            found.push(policy);
        }
        Ok(())
    })?;
    Ok(found)
}
