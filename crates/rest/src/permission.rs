//! Who may call an operation.

/// The permission of an operation: who may call it. Each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// No session is required.
    Open,
    /// Any session, even with an outstanding second factor.
    Partial,
    /// A fully authenticated session.
    User,
    /// A fully authenticated session of an administrator.
    Admin,
}

/// Who may call an operation, and with which authorization scheme. A row of a route table says
/// `Admin.session_only()` for the first scheme, or `Admin` for both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Security {
    pub permission: Permission,
    /// Whether the contract assigns only the first authorization scheme, the session token.
    pub(crate) session_only: bool,
}

impl Permission {
    /// This permission, without the second authorization scheme.
    pub(crate) const fn session_only(self) -> Security {
        Security {
            permission: self,
            session_only: true,
        }
    }
}

impl From<Permission> for Security {
    fn from(permission: Permission) -> Self {
        Self {
            permission,
            session_only: false,
        }
    }
}
