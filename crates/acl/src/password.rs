//! A password as it is kept: its SHA-256.
//!
//! Invariant: comparing takes as long whatever differs, and the text of a password is never kept.

use sha2::{Digest, Sha256};

use crate::error::RuleError;

/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;

/// See the [module docs](self).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Password([u8; HASH_BYTES]);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Password {
    /// That of a text.
    pub fn of(text: &[u8]) -> Password {
        Password(Sha256::digest(text).into())
    }

    /// That of 64 lower-case hexadecimal digits.
    pub(crate) fn from_hex(text: &[u8]) -> Result<Password, RuleError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(RuleError::BadHash),
        };
        if text.len() != 2 * HASH_BYTES {
            return Err(RuleError::BadHash);
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Password(hash))
    }

    /// As [`Password::from_hex`] reads it.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares without telling by its duration where the first difference is.
    pub fn is_same(&self, other: &Password) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}
