//! Values as keys of tables: two values are one key if they are of one type and equal. Of a path the first
//! value counts, as in RediSearch.

use super::value::Value;
use martlet_base::hash::hash_bytes;

/// The hash of a value, keyed by the process: clients cannot choose values that collide.
pub(super) fn hash_value(value: &Value) -> u64 {
    match value {
        Value::Null => 1,
        Value::Number(number) => hash_bytes(&canonical(*number).to_le_bytes()),
        Value::Text(text) => hash_bytes(text),
        Value::Path(path) => hash_value(&path.first),
        Value::Array(values) => values.iter().fold(2, |hash, value| mix(hash, hash_value(value))),
    }
}

/// Adds a hash to another.
pub(super) fn mix(hash: u64, next: u64) -> u64 {
    (hash.rotate_left(29) ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bits of a number; zero and NaN have one form each.
fn canonical(number: f64) -> u64 {
    if number.is_nan() { f64::NAN.to_bits() } else { (number + 0.0).to_bits() }
}

/// Whether two values are one group: of one type, and equal.
pub(super) fn is_same(one: &Value, two: &Value) -> bool {
    match (one.single(), two.single()) {
        (Value::Null, Value::Null) => true,
        (Value::Number(one), Value::Number(two)) => canonical(*one) == canonical(*two),
        (Value::Text(one), Value::Text(two)) => one == two,
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| is_same(one, two))
        }
        _ => false,
    }
}
