//! Transports to a controller: the admin socket beside its data file, or HTTPS after a login.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
};

use model::config::Config;
use rest::{LocalPart, LocalRequest};
use ureq::Agent;

use super::{
    context::LoginContext,
    https::{self, Patience},
    request::{ApiAnswer, ApiRequest, JSON},
};
use crate::{
    admin_socket::{request, socket},
    cli::{
        admin::ControllerFlags, failure::CommandError, run::one_line, starting::await_controller,
    },
};

/// The maximum bytes of an answer that is held in memory.
const MAX_LENGTH: usize = 256 << 20;
/// The same for a request about a login.
const MAX_LENGTH_OF_LOGIN: usize = 1 << 20;

/// How a controller is reached.
pub enum Transport {
    /// Over the admin socket beside this data file.
    Host(PathBuf),
    /// Over HTTPS with the session of a login.
    Remote(Box<(Agent, LoginContext, Patience)>),
}

impl Transport {
    /// The transport to the controller of a login.
    ///
    /// # Errors
    /// The login's certificate authorities cannot be parsed.
    pub fn remote(context: LoginContext) -> Result<Self, CommandError> {
        Self::within(context, Patience::Command)
    }

    /// The same for requests about the login itself.
    ///
    /// # Errors
    /// As [`Transport::remote`].
    pub(crate) fn of_login(context: LoginContext) -> Result<Self, CommandError> {
        Self::within(context, Patience::Login)
    }

    fn within(context: LoginContext, patience: Patience) -> Result<Self, CommandError> {
        Ok(Self::Remote(Box::new((
            https::agent(Some(&context.ca), patience)?,
            context,
            patience,
        ))))
    }

    /// The maximum bytes of an answer.
    fn max_length(&self) -> usize {
        match self {
            Self::Remote(remote) if remote.2 == Patience::Login => MAX_LENGTH_OF_LOGIN,
            Self::Remote(_) | Self::Host(_) => MAX_LENGTH,
        }
    }

    /// Sends a request. The body of a successful answer that is not JSON is streamed to `out`, if
    /// given.
    ///
    /// # Errors
    /// One line: the controller does not answer, or the answer is interrupted.
    pub fn ask(
        &self,
        request: ApiRequest,
        mut out: Option<&mut dyn Write>,
    ) -> Result<ApiAnswer, CommandError> {
        let mut answer = ApiAnswer {
            status: 0,
            media: String::new(),
            tag: None,
            warnings: Vec::new(),
            body: Vec::new(),
        };
        let max_length = self.max_length();
        let mut take = |part: LocalPart| match part {
            LocalPart::Head {
                status,
                media,
                tag,
                warnings,
            } => {
                (answer.status, answer.media, answer.tag, answer.warnings) =
                    (status, media, tag, warnings);
                Ok(())
            }
            LocalPart::Piece(piece) => match &mut out {
                Some(out) if !answer.media.starts_with(JSON) && answer.status < 300 => {
                    out.write_all(&piece).and_then(|()| out.flush())
                }
                _ if answer.body.len() + piece.len() > max_length => Err(std::io::Error::other(
                    format!("the answer is longer than {max_length} bytes"),
                )),
                _ => {
                    answer.body.extend(piece);
                    Ok(())
                }
            },
        };
        match self {
            Self::Remote(remote) => {
                let (agent, context, _) = remote.as_ref();
                let result = https::ask(agent, &context.url, &context.token, request, &mut take);
                result.map_err(|error| {
                    CommandError::of(one_line(&format!("{}: {error}", context.url)))
                })?;
                Ok(answer)
            }
            Self::Host(data) => match request::ask(&awaited(data), local(request), &mut take) {
                Some(Ok(())) => Ok(answer),
                // The program that reads stdout has closed it, which is not an error.
                Some(Err(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe && answer.status != 0 =>
                {
                    Ok(answer)
                }
                Some(Err(error)) => Err(CommandError::of(format!(
                    "the controller does not answer: {error}"
                ))),
                None => {
                    let path = socket::beside(data);
                    Err(CommandError::of(format!(
                        "no controller answers on {}: is it running, and is this its data file?",
                        path.display()
                    )))
                }
            },
        }
    }
}

/// The transport to the controller of this host if flags name its data file or configuration, else
/// to that of the variables or the current login, else to that of the default data file.
///
/// # Errors
/// One line: the configuration or the login cannot be read.
pub(crate) fn reach(
    which: ControllerFlags,
    environment: &[(OsString, OsString)],
) -> Result<Transport, CommandError> {
    match login(&which, environment)? {
        Some(context) => Transport::remote(context),
        None => Ok(Transport::Host(which.config(environment)?.data)),
    }
}

/// The login that commands use; `None` if a data file or configuration of this host is named, or if
/// there is no login.
///
/// # Errors
/// One line: the login cannot be read.
pub(crate) fn login(
    which: &ControllerFlags,
    environment: &[(OsString, OsString)],
) -> Result<Option<LoginContext>, CommandError> {
    let is_set = |name: &OsString| name == "OVERKEEP_DATA" || name == "OVERKEEP_CONFIG";
    let is_named = which.is_named() || environment.iter().any(|(name, _)| is_set(name));
    if is_named {
        Ok(None)
    } else {
        LoginContext::in_environment(environment)
    }
}

/// The login, for a command that works on a data file of this host if there is one.
///
/// # Errors
/// As [`login`].
pub(crate) fn login_without_file(
    which: &ControllerFlags,
    config: &Config,
    environment: &[(OsString, OsString)],
) -> Result<Option<LoginContext>, CommandError> {
    if config.data.exists() {
        Ok(None)
    } else {
        login(which, environment)
    }
}

/// The socket beside a data file. If a controller is starting there, it answers on it afterwards.
fn awaited(data: &Path) -> PathBuf {
    let socket = socket::beside(data);
    if !socket::answers(&socket) {
        await_controller(data);
    }
    socket
}

fn local(request: ApiRequest) -> LocalRequest {
    let ApiRequest {
        method,
        path,
        query,
        mut headers,
        body,
    } = request;
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    let body = body.map(|(media, text)| {
        headers.push(("content-type".into(), media));
        text
    });
    LocalRequest {
        method,
        path,
        query,
        headers,
        body: body.unwrap_or_default(),
    }
}
