//! POST /authenticate: opens a session for a credential.

use std::sync::Arc;

use model::{
    entity::{Amount, Authenticator, EnvInfo, SdkInfo},
    error::{Error, Result},
};
use policy::authentication::{
    Caller, RejectedCaller, Requester,
    login::{self, ClientInfo, Principal},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::current_session::{SessionDetail, current};
use crate::{
    answer::NewSessionAnswer,
    call::Call,
    extractor::{OptionalBody, Query},
};

/// The authentication method: user name and password in the body, the client certificate of the
/// connection, or the bearer token of an external signer.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AuthMethod {
    Password,
    Cert,
    ExtJwt,
}

impl AuthMethod {
    /// The word on the wire.
    fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Cert => "cert",
            Self::ExtJwt => "ext-jwt",
        }
    }
}

/// The parameter of a login.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AuthenticateQuery {
    pub method: AuthMethod,
}

/// The body of a login.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Authenticate {
    #[schemars(length(min = 4, max = 100))]
    pub username: Option<String>,
    #[schemars(length(min = 5, max = 100))]
    pub password: Option<String>,
    /// The config types that the session shows, by id or name; `all` for every type.
    #[schemars(with = "Vec<String>")]
    pub config_types: Vec<String>,
    #[schemars(with = "EnvInfo")]
    pub env_info: Option<EnvInfo>,
    #[schemars(with = "SdkInfo")]
    pub sdk_info: Option<SdkInfo>,
}

/// POST /authenticate
pub(crate) async fn authenticate(
    call: Call,
    Query(AuthenticateQuery { method }): Query<AuthenticateQuery>,
    OptionalBody(body): OptionalBody<Authenticate>,
) -> Result<NewSessionAnswer<SessionDetail>> {
    let mut body = body.unwrap_or_default();
    Amount::of_texts(&body.config_types).check(
        "configTypes",
        Amount::default(),
        call.changes.most_of_clients(),
    )?;
    let client_info = ClientInfo {
        env_info: body.env_info.take(),
        sdk_info: body.sdk_info.take(),
        config_types: std::mem::take(&mut body.config_types),
        address: call.peer.shown().unwrap_or_default(),
    };
    let caller = match open_session(&call, method, &body, client_info).await {
        Err(Error::InvalidAuth) => {
            let (identity, address) = (claimed(&call, method, &body)?, call.peer.shown());
            let refused = RejectedCaller {
                what: method.as_str(),
                identity,
                address,
                ..RejectedCaller::default()
            };
            call.state
                .logins
                .refusals
                .note(&call.state.store, refused, call.now)
                .await;
            return Err(Error::InvalidAuth);
        }
        other => other?,
    };
    login_answer(&call, caller, method.as_str()).await
}

/// The answer to a login by a method that opened a session.
///
/// # Errors
/// The bearer token cannot be verified now, or the store fails.
pub(crate) async fn login_answer(
    call: &Call,
    caller: Caller,
    method: &'static str,
) -> Result<NewSessionAnswer<SessionDetail>> {
    call.state.metrics.logins.count(method);
    let (token, mut caller) = (caller.session.spec.token.clone(), Arc::new(caller));
    call.state
        .logins
        .tokens
        .satisfy(
            &call.state.store,
            call.now,
            call.bearer.as_deref(),
            &mut caller,
        )
        .await?;
    let timeout = call.state.logins.sessions.timeout();
    Ok(NewSessionAnswer {
        data: current(call, &caller)?,
        token,
        timeout: timeout.as_secs(),
        ends: call.now.plus(timeout),
    })
}

/// Checks the credential and opens a session.
async fn open_session(
    call: &Call,
    method: AuthMethod,
    body: &Authenticate,
    client_info: ClientInfo,
) -> Result<Caller> {
    let principal = check_credential(call, method, body).await?;
    let place = call.state.logins.sessions.admit(&principal.identity)?;
    let has_certificate = principal.certificate.is_some();
    let caller = login::open(&call.changes, principal, client_info, place).await?;
    if has_certificate && caller.session.spec.is_mfa_required {
        call.state
            .logins
            .codes
            .know(&caller.identity.id, call.peer.address, call.now);
    }
    Ok(caller)
}

/// Checks the credential.
async fn check_credential(
    call: &Call,
    method: AuthMethod,
    body: &Authenticate,
) -> Result<Principal> {
    match method {
        AuthMethod::Password => {
            let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            let (Some(username), Some(password)) = (given(&body.username), given(&body.password))
            else {
                return Err(Error::Incomplete(
                    "user name and password are required".into(),
                ));
            };
            let asker = Requester {
                address: call.peer.address,
                name: username,
            };
            login::password(
                &call.state.store,
                &call.changes,
                &call.state.logins.passwords,
                call.now,
                &asker,
                password,
            )
            .await
        }
        AuthMethod::Cert => login::certificate(
            &call.state.store,
            &call.state.keystore,
            call.now,
            &call.peer.certificates,
        ),
        AuthMethod::ExtJwt => {
            let bearer = call.bearer.as_deref().ok_or(Error::InvalidAuth)?;
            call.state
                .logins
                .tokens
                .login(&call.state.store, call.now, bearer)
                .await
        }
    }
}

/// The identity that a rejected caller claimed to be, if its user name or certificate belongs to
/// one.
fn claimed(call: &Call, method: AuthMethod, body: &Authenticate) -> Result<Option<String>> {
    call.state.store.read(|tx| {
        let found = match (method, &body.username, call.chain().first()) {
            (AuthMethod::Password, Some(username), _) => {
                tx.find_by::<Authenticator>("updbUsername", username)?
            }
            (AuthMethod::Cert, _, Some(leaf)) => {
                tx.find_by::<Authenticator>("certFingerprint", &leaf.fingerprint())?
            }
            _ => None,
        };
        Ok(found.map(|authenticator| authenticator.spec.identity_id.into_text()))
    })
}
