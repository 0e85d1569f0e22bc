//! A connection's statements about itself to a server or a Sentinel: the arguments of AUTH and HELLO, its
//! name.

use martlet_base::number::parse_i64;
use martlet_protocol::request::Args;

use crate::cursor::Cursor;
use crate::error::Error;

/// The newest release of Redis whose commands and fields are all here, but for those of its modules: INFO,
/// HELLO and messages name it, and clients decide by it. Redis 8.8 and later have more than is here.
pub const REDIS_VERSION: &str = "8.6.2";
/// [`REDIS_VERSION`] as a number: a byte for each part.
pub const REDIS_VERSION_NUMBER: u32 = 0x0008_0602;
/// The error for a wrong password.
pub const WRONG_PASSWORD: Error =
    Error::Fixed("WRONGPASS invalid username-password pair or user is disabled.");
/// The answer to HELLO of a client that must authenticate first.
pub const NOT_AUTHENTICATED: Error = Error::Fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
);
/// The error for a name that [`is_valid_name`] refuses.
pub const INVALID_NAME: Error =
    Error::Fixed("ERR Client names cannot contain spaces, newlines or special characters.");

/// Whether a client may have this name: printable ASCII without spaces.
pub fn is_valid_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// AUTH's user, if it is named, and the password.
///
/// # Errors
/// Too many words, or a password alone although the default user needs none.
pub fn credentials<'a>(
    args: &Args<'a>,
    default_needs_none: bool,
) -> Result<(Option<&'a [u8]>, &'a [u8]), Error> {
    match args.len() {
        2 if default_needs_none => Err(Error::Fixed(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        )),
        2 => Ok((None, args.at(1))),
        3 => Ok((Some(args.at(1)), args.at(2))),
        _ => Err(Error::Syntax),
    }
}

/// HELLO's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Whether the client speaks RESP3 from here on, if it says so.
    pub is_resp3: Option<bool>,
    /// User and password.
    pub credentials: Option<(&'a [u8], &'a [u8])>,
    /// Its name.
    pub name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// Reads them.
    ///
    /// # Errors
    /// An unknown version, an unknown word, an invalid name.
    pub fn parse(args: &Args<'a>) -> Result<Hello<'a>, Error> {
        let mut hello = Hello::default();
        let Some(version) = args.get(1) else { return Ok(hello) };
        let version = parse_i64(version)
            .ok_or(Error::Fixed("ERR Protocol version is not an integer or out of range"))?;
        if !(2..=3).contains(&version) {
            return Err(Error::Fixed("NOPROTO unsupported protocol version"));
        }
        hello.is_resp3 = Some(version == 3);
        let mut rest = Cursor::new(*args, 2);
        while let Some(word) = rest.peek() {
            if rest.option("auth", 2) {
                hello.credentials = Some((rest.value()?, rest.value()?));
            } else if rest.option("setname", 1) {
                let name = rest.value()?;
                hello.name = Some(name).filter(|name| is_valid_name(name));
                hello.name.ok_or(INVALID_NAME)?;
            } else {
                return Err(Error::quoting("ERR Syntax error in HELLO option '", word, "'"));
            }
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use martlet_protocol::request::OwnedArgs;

    use super::*;

    fn parse(words: &[&str]) -> Result<String, String> {
        let args = OwnedArgs::from_slices(words.iter().map(|word| word.as_bytes()));
        let parsed = Hello::parse(&args.view()).map(|hello| format!("{hello:?}"));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn options_come_in_any_order_and_what_is_wrong_is_named() {
        let of = |hello: Hello<'_>| Ok(format!("{hello:?}"));
        assert_eq!(parse(&["HELLO"]), of(Hello::default()));
        let all = Hello { is_resp3: Some(true), credentials: Some((b"u", b"p")), name: Some(b"me") };
        assert_eq!(parse(&["HELLO", "3", "setname", "me", "AUTH", "u", "p"]), of(all));
        assert_eq!(parse(&["HELLO", "3", "AUTH", "u", "p", "SETNAME", "me"]), of(all));
        for (words, error) in [
            (&["HELLO", "x"][..], "ERR Protocol version is not an integer or out of range"),
            (&["HELLO", "4"], "NOPROTO unsupported protocol version"),
            (&["HELLO", "2", "AUTH", "u"], "ERR Syntax error in HELLO option 'AUTH'"),
            (&["HELLO", "2", "name"], "ERR Syntax error in HELLO option 'name'"),
            (&["HELLO", "2", "SETNAME", "a b"], &INVALID_NAME.to_string()),
        ] {
            assert_eq!(parse(words), Err(error.to_owned()), "{words:?}");
        }
    }
}
