//! Log-ins of a browser with an external signer: the browser gets a code from the issuer, and the
//! controller exchanges it.

use model::{
    entity::{ExternalJwtSigner, Id, LoginBasis, TypedLookup},
    error::{Error, Result},
};
use policy::authentication::{
    RejectedCaller, Returned,
    login::{self, ClientInfo},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    answer::{Data, NewSessionAnswer},
    api::common::{authenticate::login_answer, current_session::SessionDetail},
    call::Call,
    extractor::Body,
};

/// The method, in metrics and in the history.
const METHOD: &str = "ext-jwt";
/// The path to which the issuer sends the browser back with the code.
pub(crate) const RETURN_PATH: &str = "/page/signed-in";

/// A log-in to begin.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignerLogin {
    /// The id of an enabled external JWT signer with `externalAuthUrl` and `clientId`.
    #[schemars(length(min = 1, max = 100))]
    signer: Id<ExternalJwtSigner>,
    /// An advertised `host:port` of the controller, to which the issuer sends the browser back.
    #[schemars(length(min = 1, max = 300))]
    host: String,
}

/// A log-in that began.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignerLoginStarted {
    /// The address of the issuer for the browser. It sends the browser back to `/page/signed-in`
    /// with `code` and `state`.
    address: String,
    /// The secret that the browser keeps and gives with the code.
    secret: String,
}

/// What the issuer sent back with the browser.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignerCode {
    /// The code of the issuer.
    #[schemars(length(min = 1, max = 4096))]
    code: String,
    /// The `state` of its answer.
    #[schemars(length(min = 1, max = 100))]
    state: String,
    /// The secret of the log-in.
    #[schemars(length(min = 1, max = 100))]
    secret: String,
    /// The `iss` of its answer (RFC 9207), if it has one.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    issuer: Option<String>,
}

/// POST /authenticate/signer
pub(crate) async fn begin(
    call: Call,
    Body(SignerLogin { signer, host }): Body<SignerLogin>,
) -> Result<Data<SignerLoginStarted>> {
    let known =
        call.state.instance.addresses.iter().find(|address| {
            address.eq_ignore_ascii_case(&host) || **address == format!("{host}:443")
        });
    // The issuer must send the browser to this controller and nowhere else.
    known.ok_or_else(|| {
        Error::invalid(
            "host",
            "is not an address that the controller advertises; open the page at one that it does",
            &host,
        )
    })?;
    let found = call
        .state
        .store
        .read(|tx| tx.find(&signer))?
        .filter(|signer| signer.spec.enabled);
    let signer = found.ok_or_else(|| {
        Error::invalid(
            "signer",
            "names no enabled external JWT signer",
            signer.as_str(),
        )
    })?;
    let redirect = format!("https://{host}{RETURN_PATH}");
    let started = call
        .state
        .logins
        .signer_logins
        .begin(signer, redirect, call.peer.address, call.now)
        .await?;
    Ok(Data(SignerLoginStarted {
        address: started.address,
        secret: started.secret,
    }))
}

/// POST /authenticate/signer-code
pub(crate) async fn finish(
    call: Call,
    Body(given): Body<SignerCode>,
) -> Result<NewSessionAnswer<SessionDetail>> {
    let SignerCode {
        code,
        state,
        secret,
        issuer,
    } = given;
    let exchanged = call
        .state
        .logins
        .signer_logins
        .finish(
            Returned {
                state,
                secret,
                code,
                issuer,
            },
            call.now,
        )
        .await?;
    let address = call.peer.shown();
    let client_info = ClientInfo {
        address: address.clone().unwrap_or_default(),
        ..ClientInfo::default()
    };
    let caller = match opened(&call, exchanged, client_info).await {
        Err(Error::InvalidAuth) => {
            call.state
                .logins
                .refusals
                .note(
                    &call.state.store,
                    RejectedCaller {
                        what: METHOD,
                        address,
                        ..RejectedCaller::default()
                    },
                    call.now,
                )
                .await;
            return Err(Error::InvalidAuth);
        }
        other => other?,
    };
    login_answer(&call, caller, METHOD).await
}

/// Opens a session with a token from the issuer of a signer.
async fn opened(
    call: &Call,
    exchanged: Option<(Id<ExternalJwtSigner>, String)>,
    client_info: ClientInfo,
) -> Result<policy::authentication::Caller> {
    let (signer, token) = exchanged.ok_or(Error::InvalidAuth)?;
    let principal = call
        .state
        .logins
        .tokens
        .login(&call.state.store, call.now, &token)
        .await?;
    // A token from the issuer of one signer must not log in by another signer.
    if !matches!(&principal.basis, LoginBasis::Token(of) if *of == signer) {
        return Err(Error::InvalidAuth);
    }
    let place = call.state.logins.sessions.admit(&principal.identity)?;
    login::open(&call.changes, principal, client_info, place).await
}
