//! The door: which requests come in at all, and for whom.
//!
//! A page of another site must not be able to use a server on this machine, neither directly (origin) nor through a
//! name that it points at us (host). A server that others can reach demands a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use protocol::{Actor, Code, PersonSource, Problem};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::Error;
use crate::authorize::{Identity, unknown};
use crate::listen::Ends;
use crate::problem::{Failure, bad_request};
use crate::site::is_public;

/// The WebSocket subprotocol that carries a session's events.
pub const WEBSOCKET_PROTOCOL: &str = "slipway.v1";

/// A browser cannot set headers on a WebSocket, so it may offer its token as a second subprotocol with this prefix:
/// `new WebSocket(url, ["slipway.v1", "slipway.token." + token])`. The server selects only the first. The token must
/// then consist of characters that a subprotocol may have; a hexadecimal one does.
pub const TOKEN_PROTOCOL: &str = "slipway.token.";

/// Who may come in.
#[derive(Debug, Clone)]
pub enum Access {
    /// Anyone on this machine, without a token; nobody else.
    Loopback,
    /// Whoever has the token.
    Token(Secret),
}

impl Access {
    /// Refuses an address that others can reach while no token is demanded.
    pub fn check(&self, address: SocketAddr) -> Result<(), Error> {
        match self {
            Self::Loopback if !is_loopback(address.ip()) => Err(Error::Exposed(address)),
            Self::Loopback | Self::Token(_) => Ok(()),
        }
    }
}

/// A token. Only its digest is kept, so it can be compared but neither printed nor leaked.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Takes the token's text, which must be able to stand in a header.
    pub fn new(token: &str) -> Result<Self, Error> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::BadToken);
        }
        Ok(Self(digest(token.as_bytes())))
    }

    /// Compares in constant time.
    fn matches(&self, candidate: &[u8]) -> bool {
        self.0.ct_eq(&digest(candidate)).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// How somebody came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Where they are known from.
    pub(crate) source: PersonSource,
    /// Whether a token is demanded.
    pub(crate) needs_token: bool,
}

/// Decides on each request before any route sees it.
#[derive(Debug)]
pub(crate) struct Door {
    access: Access,
    local_user: String,
    people: Vec<(String, Secret)>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
}

impl Door {
    pub(crate) fn new(
        access: Access,
        local_user: String,
        people: Vec<(String, Secret)>,
        allowed_hosts: Vec<String>,
        allowed_origins: Vec<String>,
    ) -> Self {
        Self { access, local_user, people, allowed_hosts, allowed_origins }
    }

    /// Whom the request acts for, or why it may not come in.
    fn admit(
        &self,
        ends: Ends,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(Identity, Admission), Problem> {
        let host = requested_host(uri, headers)?;
        self.check_host(&host, ends.local)?;
        self.check_origin(&host, method, headers)?;
        if matches!(self.access, Access::Loopback) && !is_loopback(ends.peer.ip()) {
            return Err(forbidden("this server answers only programs on its own machine"));
        }
        let needs_token = matches!(self.access, Access::Token(_));
        match self.who(offered_token(headers)) {
            Some((name, source)) => {
                Ok((Identity(Some(Actor::user(name))), Admission { source, needs_token }))
            }
            // The app has no data, and asks a person with a browser for a token.
            None if is_public(method, uri.path()) => {
                Ok((Identity(None), Admission { source: PersonSource::Local, needs_token }))
            }
            None => Err(unknown()),
        }
    }

    /// The user that a token is of; without one, the local user where none is demanded.
    fn who(&self, token: Option<&str>) -> Option<(&str, PersonSource)> {
        let matches = |secret: &Secret| token.is_some_and(|token| secret.matches(token.as_bytes()));
        // All are compared, so that the time tells nothing.
        let person = self.people.iter().fold(
            None,
            |found, (name, secret)| {
                if matches(secret) { Some(name.as_str()) } else { found }
            },
        );
        let local = match &self.access {
            Access::Token(secret) => matches(secret),
            // Whoever has people's tokens is not to act for the local user by a slip of the pen.
            Access::Loopback => self.people.is_empty() || token.is_none(),
        };
        let person = person.map(|name| (name, PersonSource::Config));
        person.or(local.then_some((self.local_user.as_str(), PersonSource::Local)))
    }

    fn check_host(&self, host: &Authority, local: SocketAddr) -> Result<(), Problem> {
        let name = host.host();
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let own_port = host.port_u16().unwrap_or(80) == local.port();
        let loopback = name.eq_ignore_ascii_case("localhost") || address.is_some_and(is_loopback);
        // An address cannot be pointed elsewhere by a name server, so the one we were reached at is as good.
        let literal = matches!(self.access, Access::Token(_))
            && address.is_some_and(|address| address.to_canonical() == local.ip().to_canonical());
        let allowed = self
            .allowed_hosts
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name) || allowed.eq_ignore_ascii_case(host.as_str()));
        if allowed || (own_port && (loopback || literal)) {
            return Ok(());
        }
        Err(forbidden(format!("this server does not answer to the host name \"{host}\"")).hint(format!(
            "use localhost:{port} or 127.0.0.1:{port}, or add the name to the allowed hosts of the server",
            port = local.port()
        )))
    }

    fn check_origin(&self, host: &Authority, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        if let Some(origin) = single(headers, &header::ORIGIN)? {
            // Behind a proxy with TLS our own pages have https; the name and the port say that they are ours.
            let own = ["http://", "https://"].iter().any(|scheme| {
                origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str()))
            });
            if !own && !self.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
                return Err(forbidden(format!("pages of \"{origin}\" may not use this server")).hint(
                    "use the API from a page of the server itself, or from a program that is not a browser",
                ));
            }
            return Ok(());
        }
        let cross_site = single(headers, &HeaderName::from_static("sec-fetch-site"))? == Some("cross-site");
        if cross_site && *method != Method::GET && *method != Method::HEAD {
            return Err(forbidden("pages of other sites may not change anything on this server"));
        }
        Ok(())
    }
}

/// Lets a request in, with whom it acts for, or answers it at the door.
pub(crate) async fn guard(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let admitted = match request.extensions().get::<Ends>() {
        Some(ends) => door.admit(*ends, request.method(), request.uri(), request.headers()),
        None => Err(forbidden("the request came over no connection")),
    };
    match admitted {
        Ok((identity, admission)) => {
            request.extensions_mut().insert(identity);
            request.extensions_mut().insert(admission);
            next.run(request).await
        }
        Err(problem) => Failure::from(problem).into_response(),
    }
}

fn forbidden(title: impl Into<String>) -> Problem {
    Problem::new(Code::Forbidden, title)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The host that the client asked for. A request target with a host of its own must agree with the header, so that
/// whoever stands before us and ourselves cannot read the request differently.
fn requested_host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Problem> {
    let text = single(headers, &header::HOST)?.ok_or_else(|| bad_request("the Host header is missing"))?;
    let host = text
        .parse::<Authority>()
        .ok()
        .filter(|host| !host.as_str().contains('@'))
        .ok_or_else(|| bad_request("the Host header is not a host name with a port"))?;
    match uri.authority() {
        Some(target) if *target != host => {
            Err(bad_request("the request target and the Host header name different hosts"))
        }
        Some(_) | None => Ok(host),
    }
}

/// A header that may come once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad_request(format!("the {name} header comes more than once")));
    }
    value.to_str().map(Some).map_err(|_| bad_request(format!("the {name} header is not plain text")))
}

/// The token of the `Authorization` header or, for a WebSocket only, of an offered subprotocol.
fn offered_token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then_some(token.trim());
    }
    let upgrade = headers.get(header::UPGRADE)?.to_str().ok()?;
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return None;
    }
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|offer| offer.trim().strip_prefix(TOKEN_PROTOCOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(peer: &str, local: &str) -> Ends {
        Ends { peer: peer.parse().unwrap(), local: local.parse().unwrap() }
    }

    fn local() -> Ends {
        ends("127.0.0.1:50000", "127.0.0.1:7717")
    }

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        map
    }

    fn door(access: Access) -> Door {
        let hosts = vec!["slip.example".into()];
        Door::new(access, "local".into(), vec![], hosts, vec!["https://tools.example".into()])
    }

    fn token() -> Access {
        Access::Token(Secret::new("tell-nobody").unwrap())
    }

    fn code(door: &Door, ends: Ends, method: Method, lines: &[(&str, &str)]) -> Option<Code> {
        let uri = Uri::from_static("/api/v1/sessions");
        door.admit(ends, &method, &uri, &headers(lines)).err().map(|problem| problem.code)
    }

    #[test]
    fn only_own_names_are_answered() {
        let door = door(Access::Loopback);
        let answer = |host: &str| code(&door, local(), Method::GET, &[("host", host)]);
        for host in [
            "localhost:7717",
            "LOCALHOST:7717",
            "127.0.0.1:7717",
            "127.3.2.1:7717",
            "[::1]:7717",
            "slip.example:1",
        ] {
            assert_eq!(answer(host), None, "{host}");
        }
        for host in
            ["evil.example:7717", "localhost", "localhost:80", "10.0.0.1:7717", "localhost.evil.example:7717"]
        {
            assert_eq!(answer(host), Some(Code::Forbidden), "{host}");
        }
        assert_eq!(answer("evil@localhost:7717"), Some(Code::BadRequest));
        assert_eq!(code(&door, local(), Method::GET, &[]), Some(Code::BadRequest));
        let twice = [("host", "localhost:7717"), ("host", "evil.example")];
        assert_eq!(code(&door, local(), Method::GET, &twice), Some(Code::BadRequest));
    }

    #[test]
    fn the_request_target_cannot_hide_a_foreign_host() {
        let uri = Uri::from_static("http://evil.example:7717/api/v1/sessions");
        let problem = door(Access::Loopback)
            .admit(local(), &Method::GET, &uri, &headers(&[("host", "localhost:7717")]))
            .unwrap_err();
        assert_eq!(problem.code, Code::BadRequest);
    }

    #[test]
    fn the_address_reached_is_an_own_name_only_with_a_token() {
        let remote = ends("10.0.0.9:50000", "10.0.0.1:7717");
        let bearer = ("authorization", "Bearer tell-nobody");
        let own = [("host", "10.0.0.1:7717"), bearer];
        assert_eq!(code(&door(token()), remote, Method::GET, &own), None);
        let other = [("host", "10.0.0.2:7717"), bearer];
        assert_eq!(code(&door(token()), remote, Method::GET, &other), Some(Code::Forbidden));
        assert_eq!(code(&door(Access::Loopback), remote, Method::GET, &own), Some(Code::Forbidden));
    }

    #[test]
    fn without_a_token_only_this_machine_comes_in() {
        let remote = ends("10.0.0.9:50000", "127.0.0.1:7717");
        let host = [("host", "localhost:7717")];
        assert_eq!(code(&door(Access::Loopback), remote, Method::GET, &host), Some(Code::Forbidden));
        let mapped = ends("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:7717");
        assert_eq!(code(&door(Access::Loopback), mapped, Method::GET, &host), None);
    }

    #[test]
    fn foreign_pages_are_refused() {
        let door = door(Access::Loopback);
        let answer = |method: Method, line: (&str, &str)| {
            code(&door, local(), method, &[("host", "localhost:7717"), line])
        };
        for origin in ["http://localhost:7717", "https://tools.example"] {
            assert_eq!(answer(Method::POST, ("origin", origin)), None, "{origin}");
        }
        for origin in ["http://localhost:3000", "http://evil.example", "null", "http://127.0.0.1:7717"] {
            assert_eq!(answer(Method::GET, ("origin", origin)), Some(Code::Forbidden), "{origin}");
        }
        assert_eq!(answer(Method::POST, ("sec-fetch-site", "cross-site")), Some(Code::Forbidden));
        assert_eq!(answer(Method::POST, ("sec-fetch-site", "same-origin")), None);
        assert_eq!(answer(Method::GET, ("sec-fetch-site", "cross-site")), None);
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_subprotocol_of_a_websocket() {
        let door = door(token());
        let answer = |lines: &[(&str, &str)]| {
            let lines: Vec<_> = [("host", "localhost:7717")].iter().chain(lines).copied().collect();
            code(&door, local(), Method::GET, &lines)
        };
        assert_eq!(answer(&[("authorization", "bearer tell-nobody")]), None);
        let offer = ("sec-websocket-protocol", "slipway.v1, slipway.token.tell-nobody");
        assert_eq!(answer(&[("upgrade", "websocket"), offer]), None);
        for wrong in [
            &[][..],
            &[offer],
            &[("authorization", "Bearer tell-nobod")],
            &[("authorization", "Bearer tell-nobodyy")],
            &[("authorization", "Basic tell-nobody")],
            &[("upgrade", "websocket"), ("sec-websocket-protocol", "slipway.token.")],
        ] {
            assert_eq!(answer(wrong), Some(Code::Unauthorized), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_with_a_name_acts_for_that_person() {
        let people = vec![("ann".to_owned(), Secret::new("anns").unwrap())];
        let who = |access: Access, token: Option<&str>| {
            let door = Door::new(access, "local".into(), people.clone(), vec![], vec![]);
            let bearer = token.map(|token| format!("Bearer {token}"));
            let mut lines = vec![("host", "localhost:7717")];
            lines.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
            let uri = Uri::from_static("/api/v1/sessions");
            let admitted = door.admit(local(), &Method::GET, &uri, &headers(&lines));
            admitted.ok().and_then(|(identity, _)| identity.0).map(|actor| actor.id)
        };
        assert_eq!(who(Access::Loopback, None).as_deref(), Some("local"));
        assert_eq!(who(Access::Loopback, Some("anns")).as_deref(), Some("ann"));
        assert_eq!(who(Access::Loopback, Some("bobs")), None);
        assert_eq!(who(token(), Some("tell-nobody")).as_deref(), Some("local"));
        assert_eq!(who(token(), Some("anns")).as_deref(), Some("ann"));
        assert_eq!(who(token(), Some("bobs")), None);
        assert_eq!(who(token(), None), None);
    }

    #[test]
    fn an_open_address_needs_a_token() {
        let open = "0.0.0.0:7717".parse().unwrap();
        let message = Access::Loopback.check(open).unwrap_err().to_string();
        assert!(message.contains("0.0.0.0:7717") && message.contains("set a token"), "{message}");
        assert_eq!(token().check(open), Ok(()));
        assert_eq!(Access::Loopback.check("[::1]:7717".parse().unwrap()), Ok(()));
    }

    #[test]
    fn a_secret_cannot_be_printed() {
        assert_eq!(format!("{:?}", token()), "Token(Secret(…))");
        assert_eq!(Secret::new("").unwrap_err(), Error::BadToken);
        assert_eq!(Secret::new("two words").unwrap_err(), Error::BadToken);
    }
}
