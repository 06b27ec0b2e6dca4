//! The commands of the host's owner, as they are sent over the socket, and what they result in. A
//! command that is logged shows no password.

use std::{fmt, net::IpAddr, path::PathBuf};

use policy::access::Right;
use serde::{Deserialize, Serialize};
use store::HistoryAnchor;
use zeroize::Zeroizing;

/// A command of the host's owner.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    ListAdministrators,
    /// Sets the password of a user name, ends the sessions that were opened with the old one, and
    /// enables the identity.
    ResetPassword {
        username: String,
        password: String,
        /// Whether to change the identity's auth policy to allow passwords, if it does not.
        #[serde(default)]
        allow_passwords: bool,
    },
    /// Enables the identity of a user name.
    Unlock {
        username: String,
    },
    /// Makes a link that logs an administrator in once.
    Link {
        /// The administrator, by id or name; the default administrator if none is named.
        identity: Option<String>,
        /// The address of the only machine that may use the link; this host if none is named.
        from: Option<IpAddr>,
        /// How long the link can be used.
        minutes: u32,
    },
    ListCertificates,
    /// Replaces the server's key and certificate.
    RenewKey,
    /// Issues certificates with the authority of another controller from now on. All texts are PEM.
    AdoptAuthority {
        certificate: String,
        key: Zeroizing<String>,
        bundle: String,
    },
    /// Explains why an identity may or may not dial or bind a service; each is given by id or name.
    Explain {
        right: Right,
        identity: String,
        service: String,
        /// JSON instead of sentences.
        json: bool,
    },
    /// Copies the data file to a new file; the path is absolute.
    Snapshot {
        to: PathBuf,
    },
    Check,
    Repair,
    /// Verifies the hash chain of the history, and compares a row noted elsewhere.
    VerifyHistory {
        noted: Option<HistoryAnchor>,
    },
}

impl Command {
    /// Whether the command leaves the file unchanged.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::ListAdministrators | Self::ListCertificates | Self::Explain { .. } => true,
            Self::Snapshot { .. } | Self::Check | Self::VerifyHistory { .. } => true,
            Self::ResetPassword { .. }
            | Self::Unlock { .. }
            | Self::Link { .. }
            | Self::RenewKey
            | Self::AdoptAuthority { .. }
            | Self::Repair => false,
        }
    }
}

/// The result of a command, in lines for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Done(Vec<String>),
    /// The command ran, and the file has problems.
    Problems(Vec<String>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListAdministrators => f.write_str("list administrators"),
            Self::ResetPassword { username, .. } => write!(f, "reset the password of {username:?}"),
            Self::Unlock { username } => write!(f, "unlock {username:?}"),
            Self::Link {
                identity,
                from,
                minutes,
            } => {
                write!(
                    f,
                    "make a link for {:?} from {from:?} for {minutes} min",
                    identity.as_deref().unwrap_or("the default administrator")
                )
            }
            Self::ListCertificates => f.write_str("list certificates"),
            Self::RenewKey => f.write_str("renew the server's key"),
            Self::AdoptAuthority { .. } => f.write_str("adopt an authority"),
            Self::Explain {
                right,
                identity,
                service,
                ..
            } => write!(f, "explain {} {identity:?} {service:?}", right.verb()),
            Self::Snapshot { to } => write!(f, "snapshot to {to:?}"),
            Self::Check => f.write_str("check the file"),
            Self::Repair => f.write_str("repair the file"),
            Self::VerifyHistory { .. } => f.write_str("verify the history"),
        }
    }
}
