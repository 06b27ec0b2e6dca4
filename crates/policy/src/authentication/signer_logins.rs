//! Log-ins in which a browser gets a code from the issuer of an external signer, and the controller
//! exchanges it for a token (OpenID Connect, authorization code flow with PKCE).
//!
//! Here: log-ins that wait for their code, and the exchange. Not here: the requests to issuers, and
//! what an issuer publishes about itself (`issuers.rs`); whether the token logs anybody in
//! (`tokens.rs`). Start at [`SignerLogins::begin`].
//! Invariants: a log-in is bound to the browser that began it by a secret that is in no URL; a
//! log-in is spent by its first use, whether or not that succeeds; the PKCE verifier leaves the
//! controller only for the token endpoint of the issuer, which is not on this host unless the
//! issuer is; an id token has the nonce of its log-in, so that none of another log-in is accepted.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use data_encoding::BASE64URL_NOPAD;
use model::{
    clock::Timestamp,
    config,
    entity::{ExternalJwtSigner, Id, Record, external_jwt_signer::TargetToken},
    error::{Error, Result},
};
use pki::{self, jwt::claimed_nonce};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::{
    ApiTokens,
    fair_queue::network,
    issuer_error::{IssuerError, shortened},
    issuers::{Issuers, MAX_ANSWER, Metadata},
};

/// At most this many log-ins wait for their code.
const LIMIT: usize = 1024;
/// How long a person may take at the issuer.
const LASTS: Duration = Duration::from_secs(600);
const FORM: &str = "application/x-www-form-urlencoded";
/// The member of a request that names the signer.
const SIGNER: &str = "signer";

/// Log-ins with external signers. Cheap to clone.
#[derive(Clone)]
pub struct SignerLogins {
    issuers: Issuers,
    /// The oldest first.
    waiting: Arc<Mutex<VecDeque<Waiting>>>,
}

/// A log-in that waits for its code.
struct Waiting {
    state: String,
    /// The hash of the secret of the browser.
    secret: String,
    verifier: String,
    /// Names the log-in in its id token.
    nonce: String,
    redirect: String,
    signer: Id<ExternalJwtSigner>,
    client_id: String,
    target: TargetToken,
    metadata: Arc<Metadata>,
    /// The URL of the issuer.
    origin: String,
    network: Option<IpAddr>,
    ends: Timestamp,
}

/// A log-in that began.
pub struct Started {
    /// Where the browser gets its code.
    pub address: String,
    /// The secret with which the browser proves that it began the log-in.
    pub secret: String,
}

/// What came back from the issuer through the browser.
pub struct Returned {
    pub state: String,
    pub secret: String,
    pub code: String,
    /// The `iss` of the answer (RFC 9207), if it has one.
    pub issuer: Option<String>,
}

impl SignerLogins {
    /// Starts with no log-ins. Requests to issuers have the limits of fetched key sets.
    pub fn new(settings: config::KeySetConfig) -> Self {
        Self {
            issuers: Issuers::new(settings),
            waiting: Arc::default(),
        }
    }

    /// Begins a log-in of a browser at `peer`, which the issuer sends back to `redirect`.
    ///
    /// # Errors
    /// The signer does not log in browsers, or its issuer does not say how; [`Error::Busy`] if too
    /// many requests to issuers wait.
    pub async fn begin(
        &self,
        signer: Record<ExternalJwtSigner>,
        redirect: String,
        peer: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Started> {
        let spec = &signer.spec;
        let (Some(url), Some(client_id)) = (&spec.external_auth_url, &spec.client_id) else {
            return Err(Error::invalid(
                SIGNER,
                "needs externalAuthUrl and clientId for log-ins with a browser",
                &spec.name,
            ));
        };
        let refused = |_: IssuerError| {
            Error::invalid(
                SIGNER,
                "its issuer does not say how to log in; the log of the controller has the reason",
                &spec.name,
            )
        };
        let metadata = self
            .issuers
            .metadata(&signer, url, now)
            .await?
            .map_err(refused)?;
        let [state, verifier, nonce, secret] = [random()?, random()?, random()?, random()?];
        let challenge = BASE64URL_NOPAD.encode(digest(&SHA256, verifier.as_bytes()).as_ref());
        let mut scopes = spec.scopes.clone();
        if !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".into());
        }
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .finish();
        let endpoint = &metadata.authorization_endpoint;
        let address = format!(
            "{endpoint}{}{query}",
            if endpoint.contains('?') { "&" } else { "?" }
        );
        let (hash, network) = (ApiTokens::hash(&secret), peer.map(network));
        let (client_id, target) = (client_id.clone(), spec.target_token);
        let (origin, signer, ends) = (url.clone(), signer.id.clone(), now.plus(LASTS));
        let login = Waiting {
            state,
            secret: hash,
            verifier,
            nonce,
            redirect,
            signer,
            client_id,
            target,
            metadata,
            origin,
            network,
            ends,
        };
        self.keep(login, now);
        Ok(Started { address, secret })
    }

    /// Exchanges the code of a log-in for a token of its signer. `None` if no such log-in waits,
    /// another browser began it, or the issuer gives no token.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many requests to issuers wait.
    pub async fn finish(
        &self,
        returned: Returned,
        now: Timestamp,
    ) -> Result<Option<(Id<ExternalJwtSigner>, String)>> {
        let Some(login) = self.spend(&returned.state) else {
            return Ok(None);
        };
        let is_same_browser = login.secret == ApiTokens::hash(&returned.secret);
        let is_same_issuer = returned
            .issuer
            .is_none_or(|issuer| issuer == login.metadata.issuer);
        if !is_same_browser || !is_same_issuer || login.ends <= now {
            return Ok(None);
        }
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", &returned.code)
            .append_pair("redirect_uri", &login.redirect)
            .append_pair("client_id", &login.client_id)
            .append_pair("code_verifier", &login.verifier)
            .finish();
        let (endpoint, origin) = (login.metadata.token_endpoint.clone(), login.origin.clone());
        let asked = self
            .issuers
            .ask(move |client| {
                client
                    .chosen_by(&origin)?
                    .post(&endpoint, FORM, form.as_bytes(), MAX_ANSWER)
            })
            .await?;
        match asked.and_then(|body| token(&body, &login)) {
            Ok(token) => Ok(Some((login.signer, token))),
            Err(error) => {
                tracing::debug!(signer = %login.signer, reason = shortened(&error), "the issuer gave no token for a code");
                Ok(None)
            }
        }
    }

    /// Keeps a log-in. If too many wait, the oldest one of the network with the most is dropped, so
    /// that one network cannot displace others.
    fn keep(&self, login: Waiting, now: Timestamp) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|waiting| waiting.ends > now);
        if waiting.len() >= LIMIT {
            let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
            waiting
                .iter()
                .for_each(|waiting| *counts.entry(waiting.network).or_default() += 1);
            let most = counts
                .into_iter()
                .max_by_key(|(_, count)| *count)
                .and_then(|(network, _)| network);
            let place = waiting
                .iter()
                .position(|waiting| waiting.network == most)
                .unwrap_or_default();
            drop(waiting.remove(place));
        }
        waiting.push_back(login);
    }

    fn spend(&self, state: &str) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|waiting| waiting.state == state)?;
        waiting.remove(place)
    }
}

/// The token in the answer of a token endpoint (RFC 6749, section 5.1). An id token is checked for
/// the nonce of the log-in, whichever token is used (OpenID Connect Core 1.0, section 3.1.3.7).
fn token(body: &[u8], login: &Waiting) -> Result<String, IssuerError> {
    let Tokens {
        access_token,
        id_token,
    } = tokens(body)?;
    if id_token
        .as_ref()
        .is_some_and(|token| claimed_nonce(token).as_ref() != Some(&login.nonce))
    {
        return Err(IssuerError::Nonce);
    }
    let (member, token) = match login.target {
        TargetToken::Access => ("access_token", access_token),
        TargetToken::Id => ("id_token", id_token),
    };
    token
        .filter(|token| !token.is_empty())
        .ok_or(IssuerError::NoToken(member))
}

#[derive(Deserialize)]
struct Tokens {
    access_token: Option<String>,
    id_token: Option<String>,
}

/// [`IssuerError::TokenAnswer`] tells nothing of the text, which may hold a token.
fn tokens(body: &[u8]) -> Result<Tokens, IssuerError> {
    serde_json::from_slice(body).map_err(|error| IssuerError::TokenAnswer {
        column: error.column(),
        line: error.line(),
    })
}

/// 256 random bits.
fn random() -> Result<String> {
    let bytes = pki::random::<32>().map_err(|error| Error::Internal(error.to_string()))?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn unreadable_answers_are_not_told() {
        for body in [
            r#""eyJzZWNyZXQ""#,
            r#"{"access_token":{"eyJzZWNyZXQ":1}}"#,
            r#"{"id_token":["eyJzZWNyZXQ"]}"#,
            "eyJzZWNyZXQ",
        ] {
            let told = tokens(body.as_bytes()).err().unwrap().to_string();
            assert!(!told.is_empty() && !told.contains("eyJ"), "{told}");
        }
    }
}
