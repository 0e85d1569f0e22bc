//! All parameters in one order, and look-up by name.
//!
//! Invariant: no name or alias is in the table twice.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::table::Parameter;

/// Every parameter, in the table's order.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    super::parameters::ENTRIES.iter().chain(super::search::ENTRIES).chain(super::accepted::ENTRIES)
}

/// The parameter of that name or alias; letter case does not matter.
pub fn find(name: &[u8]) -> Option<&'static Parameter> {
    static INDEX: OnceLock<HashMap<&'static [u8], &'static Parameter>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        parameters()
            .flat_map(|p| std::iter::once(&p.name).chain(p.aliases).map(move |name| (name.as_bytes(), p)))
            .collect()
    });
    index.get(name.to_ascii_lowercase().as_slice()).copied()
}
