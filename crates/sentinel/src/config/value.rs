//! Values of directives, as every part of the configuration reads them.

/// Error of a number out of its range.
pub(super) const RANGE: &str = "argument must be between the limits of the directive";

/// A value as text; bytes that are not UTF-8 are replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A switch.
///
/// # Errors
/// A value that is neither `yes` nor `no`.
pub(super) fn yes_or_no(value: &[u8]) -> Result<bool, &'static str> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'"),
    }
}
