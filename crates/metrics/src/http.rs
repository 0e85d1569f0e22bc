//! HTTP/1.1, one request a connection.
//!
//! Invariant: no number of peers that are slow to send or to read keeps an honest one waiting. Connections
//! have a limit; beyond it the oldest one goes for which no answer is being made.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::asked::Asked;
use crate::connections::{Connections, Place};
use crate::routes::{self, Answer};
use crate::source::Source;

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take from beginning to end.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
/// How long a request's head may take.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// Bytes of a request's head, and of its body.
const HEAD_MAX_BYTES: usize = 16 * 1024;
const BODY_MAX_BYTES: usize = 64 * 1024;
/// Threads that ask the server.
const ASKING_THREADS: usize = 4;
/// Header of a request that changes something: a page of another origin cannot add it.
const OWN_PAGE: &str = "x-martlet";
/// The page has its script and style in it, and loads nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Rules that may change while the server runs.
pub trait Rules: Send + Sync + 'static {
    /// Whether a client at this address is answered.
    fn admits(&self, peer: IpAddr) -> bool;
    /// Whether the page may send commands that change something.
    fn allows_writes(&self) -> bool;
}

/// What all requests share.
struct Shared {
    source: Arc<Source>,
    rules: Box<dyn Rules>,
}

/// Serves what connects to `listeners`, without end.
///
/// # Errors
/// When there is no thread or socket to begin with.
pub fn serve(listeners: Vec<TcpListener>, source: Source, rules: impl Rules) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(ASKING_THREADS)
        .build()?;
    let shared = Arc::new(Shared { source: Arc::new(source), rules: Box::new(rules) });
    runtime.block_on(async {
        let connections = Arc::new(Connections::new(CONNECTIONS_MAX));
        let mut tasks = tokio::task::JoinSet::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tasks.spawn(accept(listener, Arc::clone(&connections), Arc::clone(&shared)));
        }
        while tasks.join_next().await.is_some() {}
        Ok(())
    })
}

async fn accept(listener: tokio::net::TcpListener, connections: Arc<Connections>, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example without free descriptors: other connections may close in this time.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let place = connections.enter().await;
        let (id, shared) = (place.id(), Arc::clone(&shared));
        let conversation = tokio::time::timeout(CONNECTION_MAX, converse(stream, place, shared));
        let task = tokio::spawn(async move { drop(conversation.await) });
        id.end_with(move || task.abort());
    }
}

async fn converse(stream: TcpStream, place: Place, shared: Arc<Shared>) {
    let place = Arc::new(place);
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let service = service_fn(move |request| {
        let (place, shared) = (Arc::clone(&place), Arc::clone(&shared));
        async move { Ok::<_, Infallible>(answer(request, local, peer.ip(), &place, shared).await) }
    });
    // An error here concerns the client only, which notices.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    local: SocketAddr,
    peer: IpAddr,
    place: &Place,
    shared: Arc<Shared>,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    if !shared.rules.admits(peer) {
        let why =
            "Protected mode is on and the default user has no password: only this machine is answered.\n";
        return respond(Answer::text(StatusCode::FORBIDDEN, why));
    }
    if local.ip().is_loopback() && !names_this_machine(&head.headers) {
        return respond(Answer::text(
            StatusCode::MISDIRECTED_REQUEST,
            "This address is not called by that name.\n",
        ));
    }
    let may_write = match head.method {
        Method::GET | Method::HEAD => false,
        Method::POST if !head.headers.contains_key(OWN_PAGE) => {
            return respond(Answer::text(StatusCode::FORBIDDEN, "Only the page itself may send that.\n"));
        }
        Method::POST => shared.rules.allows_writes(),
        _ => return respond(Answer::text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and POST are known.\n")),
    };
    let body = match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return respond(Answer::text(StatusCode::PAYLOAD_TOO_LARGE, "The request is too long.\n")),
    };
    let asked = Asked {
        is_post: head.method == Method::POST,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        login: head
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
        body: body.to_vec(),
        may_write,
        shows_writes: shared.rules.allows_writes(),
    };
    let source = Arc::clone(&shared.source);
    let _answered = place.begin_answer();
    let answer = tokio::task::spawn_blocking(move || routes::answer(&source, &asked)).await;
    respond(answer.unwrap_or_else(|_| Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "This is a bug.\n")))
}

/// Whether a request that came over loopback names this machine. A foreign name that resolves to it does not
/// count: a page under that name could read everything.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if answer.status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"the server's users\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        let is_meant = |host: &'static str| {
            names_this_machine(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
        };
        assert!(
            ["localhost", "LocalHost:9", "127.0.0.1:80", "[::1]:80", "[::1]"]
                .iter()
                .all(|host| is_meant(host))
        );
        assert!(["evil.example", "localhost.evil.example:80", ""].iter().all(|host| !is_meant(host)));
        assert!(names_this_machine(&HeaderMap::new()));
    }
}
