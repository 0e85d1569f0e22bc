//! Paths and their handlers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::source::{Failure, Login, Source};
use crate::{browse, live, prometheus, search};

/// The page's frame, into which all that it needs is put.
const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = concat!(
    include_str!("page/text.js"),
    include_str!("page/plot.js"),
    include_str!("page/keys.js"),
    include_str!("page/search.js"),
    include_str!("page/page.js"),
);

/// An answer to a request.
pub(crate) struct Answer {
    pub status: StatusCode,
    /// The content type.
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    pub fn text(status: StatusCode, body: impl Into<String>) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }

    fn json(value: &Value) -> Answer {
        Answer { status: StatusCode::OK, kind: "application/json", body: value.to_string() }
    }
}

/// Answers a request; asks the server, so it may take as long as that does.
pub(crate) fn answer(source: &Source, asked: &Asked) -> Answer {
    let login = match asked.login.as_deref().map(read_login) {
        Some(None) => return Answer::text(StatusCode::BAD_REQUEST, "Only basic authentication is known.\n"),
        login => login.flatten(),
    };
    let login = login.as_ref();
    let as_json = |value: Result<Value, Failure>| value.map(|value| Answer::json(&value));
    let answered = match (asked.is_post, asked.path.as_str()) {
        (false, "/metrics") => prometheus::render(source, login).map(|text| Answer {
            status: StatusCode::OK,
            kind: "text/plain; version=0.0.4; charset=utf-8",
            body: text,
        }),
        (false, "/") => live::may_connect(source, login).map(|()| Answer {
            status: StatusCode::OK,
            kind: "text/html; charset=utf-8",
            body: page(asked.shows_writes),
        }),
        (false, "/api/live") => as_json(live::now(source, login)),
        (false, "/api/slowlog") => as_json(live::slow_log(source, login)),
        (false, "/api/clients") => as_json(live::clients(source, login)),
        (false, "/api/memory") => as_json(live::memory(source, login)),
        (false, "/api/hotkeys") => as_json(live::hot_keys(source, login)),
        (false, "/api/cluster") => as_json(live::cluster(source, login)),
        (false, "/api/keys") => as_json(browse::keys(source, login, asked)),
        (false, "/api/key") => as_json(browse::key(source, login, asked)),
        (false, "/api/indexes") => as_json(search::indexes(source, login)),
        (false, "/api/search") => as_json(search::documents(source, login, asked)),
        (true, "/api/command") if !asked.may_write => {
            let why = "Commands are not allowed here: see metrics-allow-writes.\n";
            return Answer::text(StatusCode::FORBIDDEN, why);
        }
        (true, "/api/command") => as_json(browse::command(source, login, asked)),
        _ => return Answer::text(StatusCode::NOT_FOUND, "There is nothing here; try / or /metrics.\n"),
    };
    answered.unwrap_or_else(|failure| match failure {
        Failure::Unauthorized(why) => Answer::text(StatusCode::UNAUTHORIZED, why + "\n"),
        Failure::Unreachable(why) => Answer::text(StatusCode::BAD_GATEWAY, why + "\n"),
        Failure::Refused(why) => {
            let body = json!({ "error": why }).to_string();
            Answer { status: StatusCode::UNPROCESSABLE_ENTITY, kind: "application/json", body }
        }
    })
}

fn page(shows_writes: bool) -> String {
    PAGE.replace("{{STYLE}}", STYLE)
        .replace("{{SCRIPT}}", SCRIPT)
        .replace("{{ALLOWS_WRITES}}", if shows_writes { "true" } else { "false" })
        .replace("{{TYPES}}", &browse::type_names().to_string())
}

/// The user and the password of `Basic …`.
fn read_login(header: &str) -> Option<Login> {
    let (scheme, rest) = header.split_once(' ')?;
    let decoded = STANDARD.decode(rest.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Login { user: user.into(), password: Some(password.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_read_or_refused() {
        let login = |user: &str, password: &str| Login { user: user.into(), password: Some(password.into()) };
        assert_eq!(read_login("Basic YWxpY2U6YTpi"), Some(login("alice", "a:b")));
        assert_eq!(read_login("basic OnNlY3JldA=="), Some(login("", "secret")));
        for wrong in ["", "Basic", "Basic !", "Basic YQ==", "Bearer YWxpY2U6YTpi", "Basic //79"] {
            assert_eq!(read_login(wrong), None, "{wrong}");
        }
    }
}
