//! Requests of the host's owner: the same rows, called over the admin socket as the default
//! administrator.
//!
//! No session is opened and no password is checked: only the owner of the data file can open the
//! socket. Permission, parameters, schema and limits of a row apply as for any other request.
//! Changes have the author `local` in the history.

use std::sync::Arc;

use actix_web::{
    http::header::{HeaderMap, HeaderName, HeaderValue},
    rt::Runtime,
};
use futures_util::StreamExt;
use model::{
    entity::{ApiSession, Author, Id, Identity, Record, TypedLookup},
    error::{Error, Refusal, Result},
};
use policy::authentication::{Caller, administrators};
use serde::{Deserialize, Serialize};

use super::{
    answer::{Content, Reply},
    call::{Call, Peer},
    change_mode,
    dispatcher::{Dispatcher, Route},
    error,
    header::Header,
    route::normal_path,
    serve::run,
};

/// A request over the admin socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRequest {
    pub method: String,
    /// The full path, percent-encoded, such as `/edge/management/v1/identities`.
    pub path: String,
    /// The query string without the question mark; may be empty.
    #[serde(default)]
    pub query: String,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// JSON or PEM; may be empty.
    #[serde(default)]
    pub body: String,
}

/// A part of an answer: the head, then pieces of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalPart {
    Head {
        status: u16,
        media: String,
        /// The entity tag, for `If-Match` of a later write.
        tag: Option<String>,
        /// The warnings in the headers, a line for each.
        warnings: Vec<String>,
    },
    Piece(Vec<u8>),
}

/// Answers a request on this thread. `on_part` receives the parts and returns whether the client
/// still listens.
///
/// # Errors
/// The runtime cannot start, or the body of the answer ends with an error.
pub fn answer_locally(
    dispatcher: &Dispatcher,
    request: LocalRequest,
    on_part: &mut dyn FnMut(LocalPart) -> bool,
) -> Result<()> {
    let runtime = Runtime::new().map_err(|e| {
        Error::Internal(format!(
            "cannot start a runtime for an admin socket request: {e}"
        ))
    })?;
    runtime.block_on(async {
        let reply = match respond(dispatcher, request).await {
            Ok(reply) => reply,
            Err(fault) => error::reply(&fault, &dispatcher.request_id()),
        };
        write_reply(reply, on_part).await
    })
}

async fn write_reply(reply: Reply, on_part: &mut dyn FnMut(LocalPart) -> bool) -> Result<()> {
    let header = |wanted: &str| {
        reply
            .headers
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value.clone())
    };
    let (tag, warnings) = (header(Header::Tag.name()), Header::warnings(header));
    if !on_part(LocalPart::Head {
        status: reply.status,
        media: reply.media.into(),
        tag,
        warnings,
    }) {
        return Ok(());
    }
    match reply.body {
        Content::Whole(body) => drop(on_part(LocalPart::Piece(body.into()))),
        Content::Constant(text) => drop(on_part(LocalPart::Piece(text.plain().into()))),
        Content::Pieces(mut pieces, _) => {
            while let Some(piece) = pieces.next().await {
                if !on_part(LocalPart::Piece(piece?)) {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn respond(dispatcher: &Dispatcher, request: LocalRequest) -> Result<Reply> {
    let state = &dispatcher.state;
    let Route { row, segments, .. } =
        dispatcher.find(&request.method, &normal_path(&request.path))?;
    change_mode::refuse_unsupported_preview(row, &request.query)?;
    if request.body.len() > state.limits.load().body_of(row.permission) {
        return Err(Error::Refused(Refusal::TooLarge));
    }
    let headers = headers(&request)?;
    let body = if row.operation.body.is_some() {
        request.body.into_bytes()
    } else {
        Vec::new()
    };
    let call = Call {
        state: state.clone(),
        caller: Some(Arc::new(owner(dispatcher)?)),
        peer: Peer {
            address: None,
            certificates: Arc::new([]),
        },
        bearer: None,
        changes: state.changes.by(Author::local()),
        now: state.clock.now(),
        local: true,
    };
    run(row, segments, &request.query, &headers, body.into(), call).await
}

fn headers(request: &LocalRequest) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let refused = || {
            Error::invalid(
                name,
                "is not a valid header name, or its value is invalid",
                value,
            )
        };
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        headers.append(known, HeaderValue::from_str(value).map_err(|_| refused())?);
    }
    Ok(headers)
}

/// The default administrator, whom no request can delete, with a session that is not stored and has
/// no token.
fn owner(dispatcher: &Dispatcher) -> Result<Caller> {
    let state = &dispatcher.state;
    let known = dispatcher.administrator.get().cloned();
    let found = state.store.read(|tx| {
        if let Some(identity) = known.map_or(Ok(None), |id: Id<Identity>| tx.find(&id))? {
            return Ok(Some(identity));
        }
        let mut administrators = administrators(tx)?;
        administrators.sort_by_key(|identity| !identity.state.is_default_admin);
        Ok(administrators.into_iter().next())
    })?;
    let identity = found.ok_or_else(|| {
        Error::invalid(
            "identity",
            "is missing: no identity is an administrator",
            "",
        )
    })?;
    drop(dispatcher.administrator.set(identity.id.clone()));
    let session = ApiSession {
        token: String::new(),
        identity_id: identity.id.clone(),
        authenticator_id: String::new(),
        config_types: Vec::new(),
        ip_address: String::new(),
        is_mfa_required: false,
        is_mfa_complete: false,
        last_activity_at: state.clock.now(),
    };
    let session = Record::new(Id::from_text("local"), state.clock.now(), session);
    Ok(Caller {
        session,
        identity,
        queries: Vec::new(),
        token: None,
        second_signer: None,
    })
}
