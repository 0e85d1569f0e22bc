//! A round as text, for findings and for the regression sequences under `tests/liveness/`.
//!
//! ```text
//! # a comment
//! @server cluster aof         the servers: words of `Profile`, none for the plain one
//! 0 CLIENT TRACKING ON        a connection's number, then a request as in the wire suite's cases
//! 0+ GET a                    leaves in one write with the next one of the connection
//! 0                           closes the connection
//! ```

use super::plan::{CONNECTIONS, Plan, Profile, Step};
use crate::wire::words;

/// Formats a round.
pub fn write(plan: &Plan) -> String {
    let mut out = format!("@server {}\n", plan.profile);
    for Step { connection, words, joins } in &plan.steps {
        out.push_str(&format!("{connection}{}", if *joins { "+" } else { "" }));
        for word in words {
            out.push_str(&format!(" \"{}\"", words::escape(word)));
        }
        out.push('\n');
    }
    out
}

/// Parses a round.
///
/// # Errors
/// A malformed line, with its number.
pub fn read(text: &str) -> Result<Plan, String> {
    let mut profile = None;
    let mut steps = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |error: String| format!("line {}: {error}", number + 1);
        if let Some(words) = line.strip_prefix("@server") {
            profile = Some(Profile::parse(words).map_err(wrong)?);
            continue;
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (connection, request) = line.split_once(' ').unwrap_or((line, ""));
        let joins = connection.ends_with('+');
        let connection: usize =
            connection.trim_end_matches('+').parse().map_err(|_| wrong("no connection".into()))?;
        if connection >= CONNECTIONS {
            return Err(wrong(format!("connections are below {CONNECTIONS}")));
        }
        steps.push(Step { connection, words: words::split(request).map_err(wrong)?, joins });
    }
    Ok(Plan { profile: profile.ok_or("no @server")?, steps })
}
