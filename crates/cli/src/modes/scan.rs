//! `--scan`: the names of all keys, a line each.

use super::walk::{encode_scan, quoted, scanned};
use super::{lost, open};
use crate::format::Output;
use crate::interrupt;
use crate::settings::Settings;
use std::io::{BufWriter, Write};

/// Prints the keys.
pub fn run(settings: &Settings) -> Result<i32, String> {
    let mut connection = open(settings)?;
    interrupt::catch();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut cursor = Some(settings.scan.cursor);
    while let Some(from) = cursor
        && !interrupt::take()
    {
        let mut request = Vec::new();
        encode_scan(&settings.scan, from, &mut request);
        connection.send_raw(&request).map_err(|error| lost(&error))?;
        let reply = connection.whole_reply().map_err(|error| lost(&error))?;
        let (next, keys) = scanned(reply)?;
        for key in keys {
            let written = match settings.style.output {
                Output::Standard => out.write_all(quoted(&key).as_bytes()),
                _ => out.write_all(&key),
            };
            written.and_then(|()| out.write_all(b"\n")).map_err(|error| error.to_string())?;
        }
        if !settings.interval.is_zero() {
            out.flush().map_err(|error| error.to_string())?;
            std::thread::sleep(settings.interval);
        }
        cursor = next;
    }
    out.flush().map_err(|error| error.to_string())?;
    Ok(0)
}
