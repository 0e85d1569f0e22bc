//! The functions of time, in UTC.
//!
//! Texts are made and read by C's `strftime` and `strptime`, whose formats a user knows; the days are counted
//! here, without the lock of C's `gmtime`.

use super::call::{Arguments, check_count, text_argument};
use crate::Error;
use crate::aggregate::value::Value;
use crate::number::to_integer;
use std::ffi::CString;
use std::mem::MaybeUninit;

const DAY_S: i64 = 86_400;
/// The format of a time without one.
const ISO_8601: &[u8] = b"%FT%TZ";
/// Longest text of a time, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// A point in time, as a calendar has it.
pub(super) struct Time {
    timestamp_s: i64,
    year: i64,
    /// 0 for January.
    month: i64,
    /// 1 for the first.
    day: i64,
    /// 0 for the first.
    day_of_year: i64,
}

impl Time {
    /// None: the year does not fit C's 32 bits.
    fn new(timestamp_s: i64) -> Option<Time> {
        // Days and years of eras of 400 years that begin on the first of March.
        let days = timestamp_s.div_euclid(DAY_S) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_from_march + 2) / 153;
        let month = (month_from_march + 2) % 12;
        let year = era * 400 + year_of_era + i64::from(month < 2);
        i32::try_from(year - 1900).ok()?;
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = match month {
            0 | 1 => day_from_march - 306,
            _ => day_from_march + 59 + i64::from(is_leap),
        };
        let day = day_from_march - (153 * month_from_march + 2) / 5 + 1;
        Some(Time { timestamp_s, year, month, day, day_of_year })
    }

    pub(super) fn hour_start(&self) -> i64 {
        self.timestamp_s - self.timestamp_s.rem_euclid(3600)
    }

    pub(super) fn day_start(&self) -> i64 {
        self.timestamp_s - self.timestamp_s.rem_euclid(DAY_S)
    }

    pub(super) fn month_start(&self) -> i64 {
        self.day_start() - (self.day - 1) * DAY_S
    }

    pub(super) fn month(&self) -> i64 {
        self.month
    }

    pub(super) fn year(&self) -> i64 {
        self.year
    }

    pub(super) fn day_of_month(&self) -> i64 {
        self.day
    }

    pub(super) fn day_of_week(&self) -> i64 {
        (self.timestamp_s.div_euclid(DAY_S) + 4).rem_euclid(7)
    }

    pub(super) fn day_of_year(&self) -> i64 {
        self.day_of_year
    }

    fn to_c(&self) -> libc::tm {
        let second_of_day = self.timestamp_s.rem_euclid(DAY_S);
        // SAFETY: all of its fields are integers, and a pointer that may be null.
        let mut tm: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
        tm.tm_sec = (second_of_day % 60) as i32;
        tm.tm_min = (second_of_day / 60 % 60) as i32;
        tm.tm_hour = (second_of_day / 3600) as i32;
        tm.tm_mday = self.day as i32;
        tm.tm_mon = self.month as i32;
        tm.tm_year = (self.year - 1900) as i32;
        tm.tm_wday = self.day_of_week() as i32;
        tm.tm_yday = self.day_of_year as i32;
        tm.tm_zone = c"GMT".as_ptr();
        tm
    }
}

/// A part of a time since 1970; null for other values.
pub(super) fn part(
    name: &str,
    arguments: &Arguments<'_, '_>,
    part: fn(&Time) -> i64,
) -> Result<Value, Error> {
    check_count(name, arguments, 1, 1)?;
    let number = arguments.get(0).to_number().filter(|number| *number >= 0.0);
    let time = number.and_then(|number| Time::new(to_integer(number)));
    Ok(time.map_or(Value::Null, |time| Value::Number(part(&time) as f64)))
}

/// `minute(timestamp)`: its minute's first second.
pub(super) fn minute(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("minute", arguments, 1, 1)?;
    Ok(match arguments.get(0).to_number() {
        Some(number) if number < 0.0 => Value::Null,
        Some(number) => Value::Number((number - number % 60.0).floor()),
        None => Value::Null,
    })
}

/// `timefmt(timestamp [, format])`
pub(super) fn format(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("time", arguments, 1, 2)?;
    let format = match arguments.len() {
        1 => ISO_8601,
        _ => match arguments.get(1).as_text() {
            Some(format) => format,
            None => {
                let type_number = arguments.get(1).type_number();
                return Err(Error::new(format!(
                    "Invalid type ({type_number}) for argument 1 in function 'time'. \
                     VALIDATE_ARG__TYPE(v, RSValue_String) was false."
                )));
            }
        },
    };
    let time = arguments.get(0).to_number().and_then(|number| Time::new(to_integer(number)));
    Ok(time.and_then(|time| formatted(&time, format)).unwrap_or_default())
}

fn formatted(time: &Time, format: &[u8]) -> Option<Value> {
    let format = c_text(format)?;
    let tm = time.to_c();
    let mut text = [0u8; TEXT_MAX_BYTES];
    // SAFETY: the length is the buffer's, the format ends with a zero, and every field of the time is in its
    // range.
    let len = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &tm) };
    text.get(..len).filter(|text| !text.is_empty()).map(Value::from)
}

/// `parsetime(text, format)`
pub(super) fn parse(arguments: &Arguments<'_, '_>) -> Result<Value, Error> {
    check_count("parsetime", arguments, 2, 2)?;
    let text = text_argument("parsetime", arguments, 0)?;
    let format = text_argument("parsetime", arguments, 1)?;
    Ok(parsed(text, format).unwrap_or_default())
}

fn parsed(text: &[u8], format: &[u8]) -> Option<Value> {
    let (text, format) = (c_text(text)?, c_text(format)?);
    // SAFETY: all of its fields are integers, and a pointer that may be null.
    let mut tm: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: both texts end with a zero, and the time is ours.
    let end = unsafe { libc::strptime(text.as_ptr(), format.as_ptr(), &mut tm) };
    if end.is_null() {
        return None;
    }
    // SAFETY: the time is ours; `timegm` takes any values of its fields.
    let timestamp_s = unsafe { libc::timegm(&mut tm) };
    Some(Value::Number(timestamp_s as f64))
}

/// A text up to its first zero, as C takes it.
fn c_text(text: &[u8]) -> Option<CString> {
    CString::new(text.split(|byte| *byte == 0).next().unwrap_or_default()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::Time;

    #[test]
    fn times_are_rounded_down() {
        check(&[
            ("hour(1e9)", "999997200"),
            ("day(1e9)", "999993600"),
            ("minute(61.5)", "60"),
            ("minute(-1)", "null"),
            ("month(1517417144)", "1514764800"),
            ("month(4107542400)", "4107542400"),
            ("day(4200000000)", "4199990400"),
            ("year(4107542400)", "2100"),
            ("monthofyear(1517417144)", "0"),
            ("dayofmonth(1517417144)", "31"),
            ("dayofyear(1517417144)", "30"),
            ("dayofweek(1517417144)", "3"),
            ("year(1e18)", "null"),
            ("day('abc')", "null"),
            ("day()", "ERR Invalid arguments for function 'day'"),
        ]);
    }

    #[test]
    fn times_are_written_and_read() {
        check(&[
            ("timefmt(0)", "1970-01-01T00:00:00Z"),
            ("timefmt(1517417144, '%H %Z %c %e %k %s')", "16 GMT Wed Jan 31 16:45:44 2018 31 16 1517417144"),
            ("timefmt(1e20)", "null"),
            ("timefmt('abc')", "null"),
            ("timefmt(1, '')", "null"),
            ("parsetime('2018-01-01','%Y-%m-%d')", "1514764800"),
            ("parsetime('Jan 2 2020','%b %d %Y')", "1577923200"),
            ("parsetime('xx','%Y')", "null"),
        ]);
    }

    #[test]
    fn days_are_counted_as_c_counts_them() {
        for timestamp_s in (-70_000_000_000i64..200_000_000_000).step_by(86_399 * 97) {
            let time = Time::new(timestamp_s).expect("a year of 32 bits");
            let ours = time.to_c();
            let mut copy = ours;
            // SAFETY: the time is ours.
            assert_eq!(unsafe { libc::timegm(&mut copy) }, timestamp_s);
            assert_eq!((copy.tm_wday, copy.tm_yday), (ours.tm_wday, ours.tm_yday), "{timestamp_s}");
        }
    }
}
