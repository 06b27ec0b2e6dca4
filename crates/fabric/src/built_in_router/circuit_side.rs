//! The two sides of a circuit.

/// One side of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CircuitSide {
    /// The side that dialed.
    Client,
    /// The side that was dialed.
    Host,
}

impl CircuitSide {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Host,
            Self::Host => Self::Client,
        }
    }
}
