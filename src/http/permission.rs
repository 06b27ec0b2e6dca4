//! Who may call an operation.

/// Who may call an operation. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Anybody.
    Open,
    /// Any session, also one whose second factor is outstanding.
    Partial,
    /// A fully authenticated session.
    User,
    /// A fully authenticated session of an administrator.
    Admin,
}
