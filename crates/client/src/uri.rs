//! `redis://user:password@host:port/database`, as every tool takes it.

/// The parts of a URI; an absent part is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    /// The scheme asks for TLS.
    pub tls: bool,
    /// The user to authenticate as; without one, but with a password, it is the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// A name or an address, without brackets.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The database.
    pub database: Option<u64>,
}

impl Uri {
    /// Reads a URI whose scheme is `redis`, `valkey` or `martlet`, with an `s` appended for TLS.
    pub fn parse(text: &str) -> Result<Uri, String> {
        let (scheme, rest) = text.split_once("://").ok_or("Invalid URI scheme")?;
        let scheme = scheme.to_ascii_lowercase();
        let plain = ["redis", "valkey", "martlet"];
        let mut uri = Uri::default();
        if !plain.contains(&scheme.as_str()) {
            uri.tls = scheme.strip_suffix('s').is_some_and(|name| plain.contains(&name));
            if !uri.tls {
                return Err("Invalid URI scheme".into());
            }
        }
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        if let Some(credentials) = credentials {
            let (user, password) = credentials.split_once(':').unwrap_or(("", credentials));
            uri.user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
            uri.password = Some(percent_decode(password)?);
        }
        let (host_port, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match host_port.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (host_port, None),
        };
        uri.host = Some(host.trim_matches(['[', ']']).to_string()).filter(|host| !host.is_empty());
        uri.port = port.map(str::parse).transpose().map_err(|_| "Invalid server port.")?;
        if !path.is_empty() {
            let database = path.parse().map_err(|_| format!("'{path}' is no database number"))?;
            uri.database = Some(database);
        }
        Ok(uri)
    }
}

fn percent_decode(text: &str) -> Result<String, String> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || {
            let byte = bytes.next().ok_or("Incomplete URI encoding")?;
            char::from(byte).to_digit(16).ok_or("Illegal character in URI encoding")
        };
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).map_err(|_| format!("'{text}' is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_everything() {
        let uri = Uri::parse("rediss://me:p%40ss@example.org:7000/3").expect("valid");
        let text = |text: &str| Some(text.to_string());
        let expected = Uri {
            tls: true,
            user: text("me"),
            password: text("p@ss"),
            host: text("example.org"),
            port: Some(7000),
            database: Some(3),
        };
        assert_eq!(uri, expected);
        let uri = Uri::parse("VALKEY://[::1]").expect("valid");
        assert_eq!(uri, Uri { host: text("::1"), ..Uri::default() });
        let uri = Uri::parse("redis://secret@[::1]:7/").expect("valid");
        assert_eq!(
            (uri.user, uri.password, uri.host, uri.port),
            (None, text("secret"), text("::1"), Some(7))
        );
        assert_eq!(Uri::parse("martlet://"), Ok(Uri::default()));
        let uri = Uri::parse("redis://a/b:c@host").expect("valid");
        assert_eq!((uri.user, uri.password, uri.host), (text("a/b"), text("c"), text("host")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (uri, error) in [
            ("http://x", "Invalid URI scheme"),
            ("localhost:6379", "Invalid URI scheme"),
            ("redis://x:port", "Invalid server port."),
            ("redis://x:70000", "Invalid server port."),
            ("redis://a%4@x", "Incomplete URI encoding"),
            ("redis://a%4g@x", "Illegal character in URI encoding"),
            ("redis://a%ff@x", "'a%ff' is not UTF-8"),
            ("redis://x/one", "'one' is no database number"),
        ] {
            assert_eq!(Uri::parse(uri), Err(error.to_string()), "{uri}");
        }
    }
}
