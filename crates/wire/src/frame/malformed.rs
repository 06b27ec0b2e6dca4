//! Why bytes are not a frame.

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it does not begin with the magic number 03 06 09 0c")]
    Magic,
    #[error("its {section} would have {length} bytes; 0 to {limit} are allowed")]
    Length {
        section: &'static str,
        length: i32,
        limit: usize,
    },
    #[error("it has {0} bytes, which is not what its head announces")]
    Size(usize),
    #[error("header {0} reaches beyond the header section")]
    Header(i32),
    #[error("header {0} occurs twice")]
    Repeated(i32),
    #[error("it has more than {limit} headers")]
    TooManyHeaders { limit: usize },
}
