//! The groups in which two ends agree on a key, by OpenSSL's names (`tls-groups`).

use rustls::NamedGroup;
use rustls::crypto::SupportedKxGroup;

/// Those of the groups that OpenSSL's list names, in its order; all without a list.
///
/// # Errors
/// None of them is there.
pub(crate) fn choose_groups(
    known: Vec<&'static dyn SupportedKxGroup>,
    names: Option<&str>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, String> {
    let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(known) };
    let is = |group: &&'static dyn SupportedKxGroup, name: &str| {
        let names: &[&str] = match group.name() {
            NamedGroup::X25519 => &["X25519"],
            NamedGroup::secp256r1 => &["P-256", "prime256v1", "secp256r1"],
            NamedGroup::secp384r1 => &["P-384", "secp384r1"],
            _ => &[],
        };
        names.iter().any(|known| known.eq_ignore_ascii_case(name.trim()))
    };
    let chosen: Vec<_> =
        names.split(':').filter_map(|name| known.iter().copied().find(|group| is(group, name))).collect();
    if chosen.is_empty() { Err(format!("Failed to configure groups: {names}")) } else { Ok(chosen) }
}
