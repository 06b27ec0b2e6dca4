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
