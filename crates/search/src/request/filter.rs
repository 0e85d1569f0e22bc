//! FILTER and GEOFILTER of FT.SEARCH.

use crate::Error;
use crate::arguments::Cursor;
use crate::number;

/// An end of a range.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Bound {
    /// The number.
    pub number: f64,
    /// Whether the number itself is in the range.
    pub inclusive: bool,
}

/// FILTER
#[derive(Clone, Debug, PartialEq)]
pub struct NumericFilter {
    /// The field's name.
    pub field: Box<[u8]>,
    /// The lower end.
    pub min: Bound,
    /// The upper end.
    pub max: Bound,
}

/// A unit of distance.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `m`
    Metres,
    /// `km`
    Kilometres,
    /// `ft`
    Feet,
    /// `mi`
    Miles,
}

impl Unit {
    /// The unit of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Unit> {
        const NAMES: &[(&[u8], Unit)] =
            &[(b"m", Unit::Metres), (b"km", Unit::Kilometres), (b"ft", Unit::Feet), (b"mi", Unit::Miles)];
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, unit)| unit)
    }

    /// Metres of one.
    pub fn metres(self) -> f64 {
        match self {
            Unit::Metres => 1.0,
            Unit::Kilometres => 1000.0,
            Unit::Feet => 0.3048,
            Unit::Miles => 1609.34,
        }
    }
}

/// GEOFILTER
#[derive(Clone, Debug, PartialEq)]
pub struct GeoFilter {
    /// The field's name.
    pub field: Box<[u8]>,
    /// The centre's longitude, degrees.
    pub longitude: f64,
    /// The centre's latitude, degrees.
    pub latitude: f64,
    /// The radius, in units.
    pub radius: f64,
    /// Its unit.
    pub unit: Unit,
}

impl GeoFilter {
    /// Checks the centre and the radius; RediSearch does so after it has found the index.
    ///
    /// # Errors
    ///
    /// RediSearch's.
    pub fn check(&self) -> Result<(), Error> {
        const LATITUDE_MAX: f64 = 85.05112878;
        if !(-180.0..=180.0).contains(&self.longitude)
            || !(-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
        {
            return Err(Error::new("Invalid GeoFilter lat/lon"));
        }
        // Fails for NaN, too.
        if self.radius > 0.0 { Ok(()) } else { Err(Error::new("Invalid GeoFilter radius")) }
    }
}

pub(super) fn filter(cursor: &mut Cursor<'_>) -> Result<NumericFilter, Error> {
    let (Ok(mut words), true) = (cursor.clone().slice(3), cursor.len() >= 3) else {
        return Err(Error::new("FILTER requires 3 arguments"));
    };
    let field = words.take_next().unwrap_or_default().into();
    let min = bound(words.take_next().unwrap_or_default(), true)?;
    let max = bound(words.take_next().unwrap_or_default(), false)?;
    // There are three.
    let _ = cursor.slice(3);
    Ok(NumericFilter { field, min, max })
}

/// An end of a range; `(` excludes the number.
fn bound(text: &[u8], is_min: bool) -> Result<Bound, Error> {
    let (text, inclusive) = match text {
        [b'(', rest @ ..] => (rest, false),
        _ => (text, true),
    };
    let number = match is_min {
        true if text.eq_ignore_ascii_case(b"-inf") => f64::NEG_INFINITY,
        false if text.strip_prefix(b"+").unwrap_or(text).eq_ignore_ascii_case(b"inf") => f64::INFINITY,
        _ => number::parse_c(text).filter(|number| !number.is_infinite()).ok_or_else(|| {
            let (which, text) = (if is_min { "lower" } else { "upper" }, String::from_utf8_lossy(text));
            Error::new(format!("Bad {which} range: {text}"))
        })?,
    };
    Ok(Bound { number, inclusive })
}

pub(super) fn geo_filter(cursor: &mut Cursor<'_>) -> Result<GeoFilter, Error> {
    if cursor.len() < 5 {
        return Err(Error::new("GEOFILTER requires 5 arguments"));
    }
    let field = cursor.take_next().unwrap_or_default().into();
    let mut number = |name| cursor.f64().map_err(|refused| refused.of(name));
    let (longitude, latitude, radius) = (number("<lon>")?, number("<lat>")?, number("<radius>")?);
    let name = cursor.take_next().unwrap_or_default();
    let unit = Unit::parse(name)
        .ok_or_else(|| Error::new(format!("Unknown distance unit {}", String::from_utf8_lossy(name))))?;
    Ok(GeoFilter { field, longitude, latitude, radius, unit })
}
