//! `geodistance`: two points, each as text of two coordinates or as two numbers.

use super::call::{Arguments, check_count};
use crate::Error;
use crate::aggregate::value::Value;
use crate::number;
use martlet_types::geo::Point;

/// Longest text of a point, in bytes.
const POINT_MAX_BYTES: usize = 128;

/// The distance of two points in metres, to a hundredth.
pub(super) fn distance(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("geodistance", arguments, 2, 4)?;
    let mut at = 0;
    let mut points = [Point { longitude: 0.0, latitude: 0.0 }; 2];
    for point in &mut points {
        let (first, second) = (arguments.get(at), arguments.get(at + 1));
        let found = match (first, first.to_number()) {
            (_, Some(longitude)) => {
                at += 2;
                second.to_number().map(|latitude| Point { longitude, latitude })
            }
            (Value::Text(text), None) => {
                at += 1;
                Some(parse_point(text)?)
            }
            _ => None,
        };
        match found {
            Some(found) => *point = found,
            None => return Ok(Value::Number(f64::NAN)),
        }
    }
    let [from, to] = points;
    Ok(Value::Number((from.distance_m(to) * 100.0).round() / 100.0))
}

/// Longitude and latitude, with a comma or a blank between them.
pub fn parse_point(text: &[u8]) -> Result<Point, Error> {
    if text.len() > POINT_MAX_BYTES {
        return Err(Error::new("Geo string cannot be longer than 128 bytes"));
    }
    let separator = text.iter().position(|byte| matches!(byte, b' ' | b','));
    let coordinates = separator.and_then(|at| {
        let coordinate = |text: &[u8]| number::parse_c(text);
        Some(Point { longitude: coordinate(text.get(..at)?)?, latitude: coordinate(text.get(at + 1..)?)? })
    });
    coordinates.ok_or_else(|| Error::new("Invalid geo string"))
}
