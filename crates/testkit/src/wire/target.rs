//! The server that a case runs against.

/// The product that the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Redis itself.
    Redis,
    /// Valkey.
    Valkey,
    /// This project's.
    Martlet,
}

/// The server under test, from its INFO.
#[derive(Clone, Debug)]
pub struct Target {
    /// The product.
    pub kind: TargetKind,
    /// Major and minor version of that product.
    pub version: (u32, u32),
    /// The names of the modules that it has.
    pub modules: Vec<String>,
}
